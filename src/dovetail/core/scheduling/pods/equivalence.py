"""Equivalence classes: pods that are identical to a scheduler.

Pods come from Deployments and Jobs, hundreds of identical ones each. A class is
placed in bulk, so the cost of a plan grows with the number of pod templates.
"""

from collections.abc import Callable, Iterable, Mapping

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.pod_groups import EquivalenceKey


class PodClass:
    """Pods with equal specs and equal labels, as far as any selector matches on them.

    Mutable: ``placed`` is the solver's progress.
    """

    __slots__ = ("labels", "namespace", "placed", "pods", "spec")

    def __init__(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> None:
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.pods: list[Pod] = []
        self.placed = 0
        """Number of pods with a node, counted from the front of ``pods``."""

    @property
    def unplaced(self) -> int:
        return len(self.pods) - self.placed


def classify(
    pods: Iterable[Pod],
    extra_keys: frozenset[str] = frozenset(),
    spec_of: Callable[[Pod], PodSpec] | None = None,
) -> list[PodClass]:
    """Return the classes of pods, in an order that does not depend on the input.

    ``extra_keys`` are label keys that selectors outside this batch use;
    ``spec_of`` returns the effective spec of a pod, if it is not its own.
    """
    groups: dict[tuple[str, FrozenDict[str, str], PodSpec], list[Pod]] = {}
    for pod in pods:
        key = (pod.namespace, pod.labels, pod.spec if spec_of is None else spec_of(pod))
        group = groups.get(key)
        if group is None:
            groups[key] = [pod]
        else:
            group.append(pod)
    relevant = extra_keys | selector_keys({spec for _, _, spec in groups})
    merged = _Classes(relevant)
    for (namespace, labels, spec), members in groups.items():
        merged.of(namespace, labels, spec).pods.extend(members)
    for pod_class in merged.all():
        pod_class.pods.sort(key=_by_name)
    return sorted(merged.all(), key=lambda pod_class: _by_name(pod_class.pods[0]))


def classify_groups(
    groups: Mapping[EquivalenceKey, list[Pod]],
    extra_keys: frozenset[str] = frozenset(),
    spec_of: Callable[[Pod], PodSpec] | None = None,
) -> tuple[list[PodClass], dict[EquivalenceKey, PodClass]]:
    """Return the classes of grouped pods, and the class of each group.

    Like ``classify``; the pods of a class keep their order.
    """
    specs = {key: key.spec if spec_of is None else spec_of(pods[0]) for key, pods in groups.items()}
    merged = _Classes(extra_keys | selector_keys(set(specs.values())))
    class_by_key = {}
    for key, pods in groups.items():
        class_by_key[key] = merged.of(key.namespace, key.labels, specs[key])
        class_by_key[key].pods.extend(pods)
    ordered = sorted(
        merged.all(), key=lambda pod_class: (min([pod.name for pod in pod_class.pods]), pod_class.namespace)
    )
    return ordered, class_by_key


class _Classes:
    """Classes by namespace, relevant labels and spec."""

    def __init__(self, relevant: frozenset[str]) -> None:
        self._relevant = relevant
        self._classes: dict[tuple[str, FrozenDict[str, str], PodSpec], PodClass] = {}

    def of(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> PodClass:
        relevant_labels = FrozenDict({key: labels[key] for key in labels if key in self._relevant})
        pod_class = self._classes.get((namespace, relevant_labels, spec))
        if pod_class is None:
            pod_class = PodClass(namespace, relevant_labels, spec)
            self._classes[(namespace, relevant_labels, spec)] = pod_class
        return pod_class

    def all(self) -> Iterable[PodClass]:
        return self._classes.values()


def _by_name(pod: Pod) -> tuple[str, str]:
    return (pod.name, pod.namespace)


def selector_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """Return the label keys that selectors in these specs use."""
    keys: set[str] = set()
    selectors = set()
    for spec in specs:
        if spec.spreads:
            for spread in spec.spreads:
                selectors.add(spread.selector)
                keys.update(spread.match_label_keys)
        for term in (*spec.affinity, *spec.anti_affinity):
            selectors.add(term.selector)
        for preference in (*spec.preferred_affinity, *spec.preferred_anti_affinity):
            selectors.add(preference.term.selector)
    for selector in selectors:
        if selector is not None:
            keys |= selector.keys
    return frozenset(keys)
