"""Pods that are the same to a scheduler, counted once.

Pods come from Deployments and Jobs, hundreds alike. A class is placed in bulk,
so the cost of a decision grows with the number of templates, not of pods.
"""

from collections.abc import Callable, Iterable, Mapping

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.pod_groups import PodKind


class PodClass:
    """Pods with equal specs and equal labels, as far as anybody looks at them."""

    __slots__ = ("labels", "namespace", "pods", "spec", "taken")

    def __init__(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> None:
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.pods: list[Pod] = []
        self.taken = 0
        """How many of ``pods`` have a place, counted from the front."""

    @property
    def waiting(self) -> int:
        return len(self.pods) - self.taken


def classify(
    pods: Iterable[Pod],
    extra_keys: frozenset[str] = frozenset(),
    spec_of: Callable[[Pod], PodSpec] | None = None,
) -> list[PodClass]:
    """Sort pods into classes, in an order that does not depend on the input's.

    ``extra_keys`` are labels that selectors outside this batch look at;
    ``spec_of`` says what a pod asks for where that is not its own spec.
    """
    alike: dict[tuple[str, FrozenDict[str, str], PodSpec], list[Pod]] = {}
    for pod in pods:
        key = (pod.namespace, pod.labels, pod.spec if spec_of is None else spec_of(pod))
        known = alike.get(key)
        if known is None:
            alike[key] = [pod]
        else:
            known.append(pod)
    relevant = extra_keys | selector_keys({spec for _, _, spec in alike})
    merged = _Classes(relevant)
    for (namespace, labels, spec), members in alike.items():
        merged.of(namespace, labels, spec).pods.extend(members)
    for one in merged.all():
        one.pods.sort(key=_by_name)
    return sorted(merged.all(), key=lambda one: _by_name(one.pods[0]))


def classify_alike(
    alike: Mapping[PodKind, list[Pod]],
    extra_keys: frozenset[str] = frozenset(),
    spec_of: Callable[[Pod], PodSpec] | None = None,
) -> tuple[list[PodClass], dict[PodKind, PodClass]]:
    """Do the same for pods that were sorted by kinds; the pods of a class keep their order."""
    specs = {
        kind: kind.spec if spec_of is None else spec_of(pods[0]) for kind, pods in alike.items()
    }
    merged = _Classes(extra_keys | selector_keys(set(specs.values())))
    found = {}
    for kind, pods in alike.items():
        found[kind] = merged.of(kind.namespace, kind.labels, specs[kind])
        found[kind].pods.extend(pods)
    ordered = sorted(
        merged.all(), key=lambda one: (min([pod.name for pod in one.pods]), one.namespace)
    )
    return ordered, found


class _Classes:
    """Classes by what anybody looks at."""

    def __init__(self, relevant: frozenset[str]) -> None:
        self._relevant = relevant
        self._known: dict[tuple[str, FrozenDict[str, str], PodSpec], PodClass] = {}

    def of(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> PodClass:
        seen = FrozenDict({key: labels[key] for key in labels if key in self._relevant})
        known = self._known.get((namespace, seen, spec))
        if known is None:
            known = self._known[(namespace, seen, spec)] = PodClass(namespace, seen, spec)
        return known

    def all(self) -> Iterable[PodClass]:
        return self._known.values()


def _by_name(pod: Pod) -> tuple[str, str]:
    return (pod.name, pod.namespace)


def selector_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """Return the label keys that any selector in these specs looks at."""
    keys: set[str] = set()
    selectors = set()
    for spec in specs:
        if spec.spreads:
            for one in spec.spreads:
                selectors.add(one.selector)
                keys.update(one.match_label_keys)
        for term in (*spec.affinity, *spec.anti_affinity):
            selectors.add(term.selector)
        for wish in (*spec.preferred_affinity, *spec.preferred_anti_affinity):
            selectors.add(wish.term.selector)
    for selector in selectors:
        if selector is not None:
            keys |= selector.keys
    return frozenset(keys)
