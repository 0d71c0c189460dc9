"""Spread, affinity and anti-affinity between pods, as kube-scheduler checks them.

Part of the checker: shares no code with the solver.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import (
    NodeInclusionPolicy,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.labels import normalize_key
from tests.support.scheduling.checker.nodes import CheckedNode, matches_labels, tolerates
from tests.support.scheduling.checker.topology_groups import (
    AffinityGroup,
    AvoidGroup,
    Selected,
    SpreadGroup,
    count_in,
    selects,
)


class InterPodRules:
    """Pods per node, counted for inter-pod rules.

    ``violation`` checks a further pod on a node; ``add`` binds it.
    """

    def __init__(
        self,
        nodes: Sequence[CheckedNode],
        running: Sequence[tuple[Pod, str]],
        arriving: Iterable[Pod],
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Count the running pods for the rules of all pods, running and arriving."""
        self.nodes = {node.name: node for node in nodes}
        arriving_pods = list(arriving)
        all_pods = arriving_pods + [pod for pod, _ in running]
        self.namespaces: dict[str, Mapping[str, str]] = {pod.namespace: {} for pod in all_pods}
        self.namespaces |= namespaces
        self.spreads: dict[tuple[object, ...], SpreadGroup] = {}
        self.affinities: dict[tuple[tuple[str, Selected], ...], AffinityGroup] = {}
        self.avoids: dict[tuple[str, Selected], AvoidGroup] = {}
        self._of_pod: dict[tuple[object, ...], _Rules] = {}
        self._names: dict[tuple[str, FrozenDict[str, str]], _NamedBy] = {}
        for pod in arriving_pods:
            self._rules(pod)
        self._relevant = {id(group) for group in [*self.spreads.values(), *self.affinities.values()]}
        for pod in all_pods:
            self._rules(pod)
        for pod, node in running:
            self.add(pod, node)

    # --- Queries -----------------------------------------------------------------------------

    def violation(self, pod: Pod, node_name: str) -> str | None:
        """Return the rule that the pod would violate on the node now, or None."""
        node, rules = self.nodes[node_name], self._rules(pod)
        for spread, group in rules.spreads:
            domain = node.domain(group.key)
            if domain is None or not group.allows(spread, pod, domain):
                return f"spread over {group.key}: {domain} has {group.counts}"
        if rules.affinity is not None and not rules.affinity.allows(pod, node):
            return f"affinity: {dict(rules.affinity.pairs)}"
        for avoid in rules.avoids:
            if any(avoid.named.get(value, 0) for value in node.values(avoid.key)):
                return f"anti-affinity over {avoid.key}: {node.domain(avoid.key)} is taken"
        for avoid in self._named_by(pod).avoids:
            if any(avoid.carriers.get(value, 0) for value in node.values(avoid.key)):
                return f"a pod in {avoid.key} {node.domain(avoid.key)} has anti-affinity to it"
        return None

    def open_key(self, pod: Pod, node: CheckedNode) -> str | None:
        """Return a topology key that a rule needs but that the node leaves open.

        Anti-affinity does not need one: it is checked for every possible value.
        """
        rules, named = self._rules(pod), self._named_by(pod)
        keys = [group.key for _, group in rules.spreads]
        keys += [group.key for group in named.spreads if id(group) in self._relevant]
        joined = [group for group in named.affinities if id(group) in self._relevant]
        if rules.affinity is not None:
            joined.append(rules.affinity)
        keys += [key for group in joined for key, _ in group.terms]
        return next((key for key in keys if node.is_open(key)), None)

    def count_foreign_spreads(self, pod: Pod) -> int:
        """Return the number of spreads that count this pod but are not its own."""
        own = {id(group) for _, group in self._rules(pod).spreads}
        counted = {id(group) for group in self._named_by(pod).spreads} & self._relevant
        return len(counted - own)

    def is_harmless(self, pod: Pod) -> bool:
        """Return True if binding the pod cannot prevent the binding of another.

        Spreads that count it may exceed their skew. A self-affine class may start
        anywhere only while none of its pods runs.
        """
        named = self._named_by(pod)
        counted = [*named.spreads, *named.affinities]
        return not any(id(group) in self._relevant for group in counted)

    def starts_a_class(self, pod: Pod) -> bool:
        """Return True if its affinity holds only because none of its pods runs."""
        affinity = self._rules(pod).affinity
        return affinity is not None and not affinity.pairs

    def excess_skew(self, pod: Pod, node_name: str) -> int:
        """Return by how much the pod's domains exceed the emptiest ones."""
        node = self.nodes[node_name]
        return sum(
            group.counts.get(node.domain(group.key) or "", 0) - min(group.histogram, default=0)
            for _, group in self._rules(pod).spreads
        )

    # --- Changes -----------------------------------------------------------------------------

    def add(self, pod: Pod, node_name: str, amount: int = 1) -> None:
        """Add the pod to the node, or remove it with −1."""
        node, named = self.nodes[node_name], self._named_by(pod)
        for spread in named.spreads:
            spread.add(node_name, amount)
        for affinity in named.affinities:
            affinity.add(node, amount)
        for avoid in named.avoids:
            count_in(avoid.named, node.values(avoid.key), amount)
        for avoid in self._rules(pod).avoids:
            count_in(avoid.carriers, node.values(avoid.key), amount)

    # --- Groups ------------------------------------------------------------------------------

    def _rules(self, pod: Pod) -> "_Rules":
        spec = pod.spec
        key = (pod.namespace, spec, _label_key_values(pod))
        if key not in self._of_pod:
            self._of_pod[key] = _Rules(
                spreads=[(spread, self._spread(pod, spread)) for spread in spec.spreads if spread.required],
                affinity=self._affinity(pod) if spec.affinity else None,
                avoids=[self._avoid(pod, term) for term in spec.anti_affinity],
            )
            self._names.clear()
        return self._of_pod[key]

    def _named_by(self, pod: Pod) -> "_NamedBy":
        key = (pod.namespace, pod.labels)
        if key not in self._names:
            self._names[key] = _NamedBy(
                spreads=[group for group in self.spreads.values() if selects(group.selected, pod)],
                affinities=[group for group in self.affinities.values() if group.counts(pod)],
                avoids=[group for group in self.avoids.values() if selects(group.selected, pod)],
            )
        return self._names[key]

    def _spread(self, pod: Pod, spread: TopologySpreadConstraint) -> SpreadGroup:
        spec = pod.spec
        selected = (frozenset({pod.namespace}), _with_label_keys(spread, pod))
        key = normalize_key(spread.topology_key)
        keys = tuple(sorted({normalize_key(s.topology_key) for s in spec.spreads if s.required}))
        affine = spread.node_affinity_policy is NodeInclusionPolicy.HONOR
        tainted = spread.node_taints_policy is NodeInclusionPolicy.HONOR
        identity = (
            selected,
            key,
            keys,
            (spec.node_selector, spec.node_terms) if affine else None,
            spec.tolerations if tainted else None,
        )
        if identity not in self.spreads:
            domains = {
                name: node.labels[key]
                for name, node in self.nodes.items()
                if all(other in node.labels for other in keys)
                and (not affine or matches_labels(spec, node.labels))
                and (not tainted or tolerates(spec.tolerations, node.taints))
            }
            counts = dict.fromkeys(domains.values(), 0)
            self.spreads[identity] = SpreadGroup(selected, key, domains, counts)
        return self.spreads[identity]

    def _affinity(self, pod: Pod) -> AffinityGroup:
        terms = tuple(
            (normalize_key(term.topology_key), self._selected(pod, term)) for term in pod.spec.affinity
        )
        return self.affinities.setdefault(terms, AffinityGroup(terms))

    def _avoid(self, pod: Pod, term: PodAffinityTerm) -> AvoidGroup:
        selected = self._selected(pod, term)
        identity = (normalize_key(term.topology_key), selected)
        return self.avoids.setdefault(identity, AvoidGroup(*identity))

    def _selected(self, pod: Pod, term: PodAffinityTerm) -> Selected:
        if not term.namespaces and term.namespace_selector is None:
            return frozenset({pod.namespace}), term.selector
        chosen = set(term.namespaces)
        if term.namespace_selector is not None:
            chosen |= {
                name for name, labels in self.namespaces.items() if term.namespace_selector.matches(labels)
            }
        return frozenset(chosen), term.selector


@dataclass
class _Rules:
    spreads: list[tuple[TopologySpreadConstraint, SpreadGroup]]
    affinity: AffinityGroup | None
    avoids: list[AvoidGroup]


@dataclass
class _NamedBy:
    spreads: list[SpreadGroup]
    affinities: list[AffinityGroup]
    avoids: list[AvoidGroup]


def _label_key_values(pod: Pod) -> tuple[str | None, ...]:
    return tuple(pod.labels.get(key) for spread in pod.spec.spreads for key in spread.match_label_keys)


def _with_label_keys(spread: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    if spread.selector is None:
        return None
    more = tuple(
        RequirementSpec(key, Operator.IN, (pod.labels[key],))
        for key in spread.match_label_keys
        if key in pod.labels
    )
    return LabelSelector(spread.selector.match_labels, (*spread.selector.expressions, *more))


def has_inter_pod_rules(spec: PodSpec) -> bool:
    """Return True if a pod has required terms about other pods."""
    return bool(spec.affinity or spec.anti_affinity or any(spread.required for spread in spec.spreads))
