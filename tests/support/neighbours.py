"""Spread, affinity and anti-affinity between pods, as kube-scheduler judges them.

Part of the checker: shares no code with the solver. ``Neighbourhood`` knows who
runs where; it is asked whether one more pod may join a host, and told when it did.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodePolicy, Pod, PodSpec, PodTerm, Spread
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.labels import stable_key
from tests.support.groups import (
    AffinityGroup,
    AvoidGroup,
    Selected,
    SpreadGroup,
    count_in,
    selects,
)
from tests.support.hosts import Host, demand_holds, tolerates


class Neighbourhood:
    """Who runs where, in the form in which inter-pod rules ask for it."""

    def __init__(
        self,
        hosts: Sequence[Host],
        running: Sequence[tuple[Pod, str]],
        arriving: Iterable[Pod],
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Know the hosts, the pods that run there, and the rules of those that will come."""
        self.hosts = {host.name: host for host in hosts}
        coming = list(arriving)
        everyone = coming + [pod for pod, _ in running]
        self.namespaces: dict[str, Mapping[str, str]] = {pod.namespace: {} for pod in everyone}
        self.namespaces |= namespaces
        self.spreads: dict[tuple[object, ...], SpreadGroup] = {}
        self.affinities: dict[tuple[tuple[str, Selected], ...], AffinityGroup] = {}
        self.avoids: dict[tuple[str, Selected], AvoidGroup] = {}
        self._of_pod: dict[tuple[object, ...], _Rules] = {}
        self._names: dict[tuple[str, FrozenDict[str, str]], _NamedBy] = {}
        for pod in coming:
            self._rules(pod)
        self._wanted = {id(group) for group in [*self.spreads.values(), *self.affinities.values()]}
        for pod in everyone:
            self._rules(pod)
        for pod, host in running:
            self.add(pod, host)

    # --- Questions ---------------------------------------------------------------------------

    def objection(self, pod: Pod, host_name: str) -> str | None:
        """Return why the pod may not join the host now, or None."""
        host, rules = self.hosts[host_name], self._rules(pod)
        for spread, group in rules.spreads:
            domain = host.domain(group.key)
            if domain is None or not group.allows(spread, pod, domain):
                return f"spread over {group.key}: {domain} has {group.counts}"
        if rules.affinity is not None and not rules.affinity.allows(pod, host):
            return f"affinity: {dict(rules.affinity.pairs)}"
        for avoid in rules.avoids:
            if any(avoid.named.get(value, 0) for value in host.values(avoid.key)):
                return f"anti-affinity over {avoid.key}: {host.domain(avoid.key)} is taken"
        for avoid in self._named_by(pod).avoids:
            if any(avoid.carriers.get(value, 0) for value in host.values(avoid.key)):
                return f"somebody in {avoid.key} {host.domain(avoid.key)} avoids it"
        return None

    def undecided(self, pod: Pod, host: Host) -> str | None:
        """Return the topology key that matters to somebody's rules but is left open.

        Anti-affinity is not among them: it is judged for every possible value.
        """
        rules, named = self._rules(pod), self._named_by(pod)
        keys = [group.key for _, group in rules.spreads]
        keys += [group.key for group in named.spreads if id(group) in self._wanted]
        joined = [group for group in named.affinities if id(group) in self._wanted]
        if rules.affinity is not None:
            joined.append(rules.affinity)
        keys += [key for group in joined for key, _ in group.terms]
        return next((key for key in keys if host.is_open(key)), None)

    def spreads_against(self, pod: Pod) -> int:
        """Count the spreads of arriving pods that count this one but do not bind it."""
        own = {id(group) for _, group in self._rules(pod).spreads}
        counted = {id(group) for group in self._named_by(pod).spreads} & self._wanted
        return len(counted - own)

    def binds_harmlessly(self, pod: Pod) -> bool:
        """Tell whether its binding, once allowed, can take no chance from others.

        Spreads that count it may be pushed over their skew, and a series that
        wants to be near itself may start only while nobody of it runs.
        """
        named = self._named_by(pod)
        counted = [*named.spreads, *named.affinities]
        return not any(id(group) in self._wanted for group in counted)

    def starts_a_series(self, pod: Pod) -> bool:
        """Tell whether its affinity can be met now only because nobody of it runs."""
        affinity = self._rules(pod).affinity
        return affinity is not None and not affinity.pairs

    def strain(self, pod: Pod, host_name: str) -> int:
        """Tell by how much the pod's domains are above the emptiest ones already."""
        host = self.hosts[host_name]
        return sum(
            group.counts.get(host.domain(group.key) or "", 0) - min(group.histogram, default=0)
            for _, group in self._rules(pod).spreads
        )

    # --- Changes -----------------------------------------------------------------------------

    def add(self, pod: Pod, host_name: str, amount: int = 1) -> None:
        """Let the pod run on the host (or, with −1, leave it)."""
        host, named = self.hosts[host_name], self._named_by(pod)
        for spread in named.spreads:
            spread.add(host_name, amount)
        for affinity in named.affinities:
            affinity.add(host, amount)
        for avoid in named.avoids:
            count_in(avoid.named, host.values(avoid.key), amount)
        for avoid in self._rules(pod).avoids:
            count_in(avoid.carriers, host.values(avoid.key), amount)

    # --- Groups ------------------------------------------------------------------------------

    def _rules(self, pod: Pod) -> "_Rules":
        spec = pod.spec
        question = (pod.namespace, spec, _label_key_values(pod))
        if question not in self._of_pod:
            self._of_pod[question] = _Rules(
                spreads=[(one, self._spread(pod, one)) for one in spec.spreads if one.required],
                affinity=self._affinity(pod) if spec.affinity else None,
                avoids=[self._avoid(pod, term) for term in spec.anti_affinity],
            )
            self._names.clear()
        return self._of_pod[question]

    def _named_by(self, pod: Pod) -> "_NamedBy":
        question = (pod.namespace, pod.labels)
        if question not in self._names:
            self._names[question] = _NamedBy(
                spreads=[one for one in self.spreads.values() if selects(one.selected, pod)],
                affinities=[one for one in self.affinities.values() if one.counts(pod)],
                avoids=[one for one in self.avoids.values() if selects(one.selected, pod)],
            )
        return self._names[question]

    def _spread(self, pod: Pod, spread: Spread) -> SpreadGroup:
        spec = pod.spec
        selected = (frozenset({pod.namespace}), _with_label_keys(spread, pod))
        key = stable_key(spread.topology_key)
        keys = tuple(sorted({stable_key(s.topology_key) for s in spec.spreads if s.required}))
        affine = spread.node_affinity_policy is NodePolicy.HONOR
        tainted = spread.node_taints_policy is NodePolicy.HONOR
        identity = (
            selected,
            key,
            keys,
            (spec.node_selector, spec.node_terms) if affine else None,
            spec.tolerations if tainted else None,
        )
        if identity not in self.spreads:
            domains = {
                name: host.labels[key]
                for name, host in self.hosts.items()
                if all(other in host.labels for other in keys)
                and (not affine or demand_holds(spec, host.labels))
                and (not tainted or tolerates(spec.tolerations, host.taints))
            }
            counts = dict.fromkeys(domains.values(), 0)
            self.spreads[identity] = SpreadGroup(selected, key, domains, counts)
        return self.spreads[identity]

    def _affinity(self, pod: Pod) -> AffinityGroup:
        terms = tuple(
            (stable_key(one.topology_key), self._selected(pod, one)) for one in pod.spec.affinity
        )
        return self.affinities.setdefault(terms, AffinityGroup(terms))

    def _avoid(self, pod: Pod, term: PodTerm) -> AvoidGroup:
        selected = self._selected(pod, term)
        identity = (stable_key(term.topology_key), selected)
        return self.avoids.setdefault(identity, AvoidGroup(*identity))

    def _selected(self, pod: Pod, term: PodTerm) -> Selected:
        if not term.namespaces and term.namespace_selector is None:
            return frozenset({pod.namespace}), term.selector
        chosen = set(term.namespaces)
        if term.namespace_selector is not None:
            chosen |= {
                name
                for name, labels in self.namespaces.items()
                if term.namespace_selector.matches(labels)
            }
        return frozenset(chosen), term.selector


@dataclass
class _Rules:
    spreads: list[tuple[Spread, SpreadGroup]]
    affinity: AffinityGroup | None
    avoids: list[AvoidGroup]


@dataclass
class _NamedBy:
    spreads: list[SpreadGroup]
    affinities: list[AffinityGroup]
    avoids: list[AvoidGroup]


def _label_key_values(pod: Pod) -> tuple[str | None, ...]:
    return tuple(
        pod.labels.get(key) for spread in pod.spec.spreads for key in spread.match_label_keys
    )


def _with_label_keys(spread: Spread, pod: Pod) -> LabelSelector | None:
    if spread.selector is None:
        return None
    more = tuple(
        RequirementSpec(key, Operator.IN, (pod.labels[key],))
        for key in spread.match_label_keys
        if key in pod.labels
    )
    return LabelSelector(spread.selector.match_labels, (*spread.selector.expressions, *more))


def is_bound_by_neighbours(spec: PodSpec) -> bool:
    """Tell whether a pod has required terms of its own about other pods."""
    return bool(spec.affinity or spec.anti_affinity or any(one.required for one in spec.spreads))
