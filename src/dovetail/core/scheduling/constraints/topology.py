"""Who is counted where: spread, affinity and anti-affinity as counters and rules.

A *counter* counts the pods that a selector matches, by the value of a node
label. A *rule* is a demand on a counter, shared by all classes that state it in
the same words. Hostname counters are arrays over hosts; all others are small
dictionaries over domains.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.types import Ints
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.pending import namespaces_of
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodePolicy, PodSpec, PodTerm, Spread
from dovetail.model.kube.requirements import Operator, Requirements, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Taint, Toleration, untolerated


class NodeFilter(NamedTuple):
    """Which nodes a spread constraint looks at at all."""

    terms: tuple[Requirements, ...] = ()
    """One of them must hold; none: every node."""
    tolerations: tuple[Toleration, ...] | None = None
    """Set: only nodes whose taints these tolerate."""
    keys: tuple[str, ...] = ()
    """Labels a node must have: those of the pod's other spreads, as kube-scheduler counts."""

    def passes(self, labels: Requirements, taints: Iterable[Taint], *, new: bool) -> bool:
        """Judge a node, or (``new``) a claim whose labels may still be open."""
        open_keys = label_keys.WELL_KNOWN if new else frozenset()
        if any(key not in labels and key not in open_keys for key in self.keys):
            return False
        if self.tolerations is not None and untolerated(taints, self.tolerations) is not None:
            return False
        return not self.terms or any(
            labels.why_incompatible(term, undefined_ok=open_keys) is None for term in self.terms
        )


EVERY_NODE = NodeFilter()

Scope = tuple[frozenset[str] | None, LabelSelector | None]
"""Namespaces (None: all) and the selector that pods in them must match."""


class Counter:
    """Matching pods per domain of one label key."""

    __slots__ = ("counts", "filter", "key", "matched", "namespaces", "others", "rules", "selector")

    def __init__(
        self,
        key: str,
        namespaces: frozenset[str] | None,
        selector: LabelSelector | None,
        node_filter: NodeFilter,
        others: tuple[Scope, ...] = (),
    ) -> None:
        self.key = key
        self.namespaces = namespaces
        self.selector = selector if selector is None or selector.is_valid else None
        self.filter = EVERY_NODE if node_filter == EVERY_NODE else node_filter
        self.others = others
        """Further scopes a pod must be in to be counted."""
        self.counts: dict[str, int] = {}
        """Domain → matching pods; every known domain is present."""
        self.matched: Ints = np.zeros(0, dtype=np.int64)
        """For hostname: host → matching pods."""
        self.rules: list[Rule] = []

    @property
    def by_host(self) -> bool:
        return self.key == label_keys.HOSTNAME

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if self.selector is None:
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels) and all(
            (names is None or namespace in names)
            and selector is not None
            and selector.matches(labels)
            for names, selector in self.others
        )


class Kind(Enum):
    """What a rule demands."""

    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTI = "anti-affinity"


class Rule:
    """A demand on a counter, and where the pods are that make it."""

    __slots__ = (
        "counter",
        "honors_affinity",
        "kind",
        "min_domains",
        "owned",
        "owners",
        "skew",
        "soft",
    )

    def __init__(
        self, counter: Counter, kind: Kind, *, skew: int, min_domains: int, honors: bool, soft: bool
    ) -> None:
        self.counter = counter
        self.kind = kind
        self.skew = skew
        self.min_domains = min_domains
        self.honors_affinity = honors
        self.soft = soft
        """A wish: it binds the pod that has it, never others."""
        self.owners: dict[str, int] = {}
        """Domain → pods that make this demand."""
        self.owned: Ints = np.zeros(0, dtype=np.int64)
        """For hostname: host → pods that make this demand."""


class Topology:
    """All counters and rules of one problem."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._counters: dict[tuple[object, ...], Counter] = {}
        self._rules: dict[tuple[object, ...], Rule] = {}
        self._by_label: dict[tuple[str, str], list[Counter]] = {}
        self._unindexed: list[Counter] = []

    @property
    def counters(self) -> Iterable[Counter]:
        return self._counters.values()

    def rules_of(self, one: PodClass, spec: PodSpec) -> list[Rule]:
        """Return the rules that this form of a class states, made if they are new."""
        rules = [self._spread_rule(one, spread) for spread in spec.spreads]
        # kube-scheduler looks for one pod that meets all affinity terms at once.
        together = tuple(self._scope(one.namespace, term) for term in spec.affinity)
        rules += [
            self._term_rule(one.namespace, Kind.AFFINITY, term, soft=False, together=together)
            for term in spec.affinity
        ]
        stated: list[tuple[Kind, PodTerm, bool]] = [
            *((Kind.ANTI, term, False) for term in spec.anti_affinity),
            *((Kind.AFFINITY, wish.term, True) for wish in spec.preferred_affinity),
            *((Kind.ANTI, wish.term, True) for wish in spec.preferred_anti_affinity),
        ]
        rules += [
            self._term_rule(one.namespace, kind, term, soft=soft) for kind, term, soft in stated
        ]
        return rules

    def _spread_rule(self, one: PodClass, spread: Spread) -> Rule:
        selector = spread.selector
        pinned = tuple(
            RequirementSpec(key, Operator.IN, (one.labels[key],))
            for key in spread.match_label_keys
            if key in one.labels
        )
        if selector is not None and pinned:
            selector = LabelSelector(selector.match_labels, (*selector.expressions, *pinned))
        honors = spread.node_affinity_policy is NodePolicy.HONOR
        counter = self._counter(
            spread.topology_key,
            frozenset({one.namespace}),
            selector,
            NodeFilter(
                node_alternatives(one.spec) if honors else (),
                one.spec.tolerations if spread.node_taints_policy is NodePolicy.HONOR else None,
                _other_keys(one.spec, spread),
            ),
        )
        return self._rule(
            counter,
            Kind.SPREAD,
            skew=spread.max_skew,
            min_domains=spread.min_domains or 0,
            honors=honors,
            soft=not spread.required,
        )

    def _scope(self, namespace: str, term: PodTerm) -> Scope:
        looked_at = namespaces_of(
            namespace, term.namespaces, term.namespace_selector, self._namespaces
        )
        return (looked_at, term.selector)

    def _term_rule(
        self,
        namespace: str,
        kind: Kind,
        term: PodTerm,
        *,
        soft: bool,
        together: tuple[Scope, ...] = (),
    ) -> Rule:
        scope = self._scope(namespace, term)
        others = tuple(one for one in together if one != scope)
        counter = self._counter(term.topology_key, *scope, EVERY_NODE, others)
        return self._rule(counter, kind, skew=0, min_domains=0, honors=True, soft=soft)

    def anti_affinity_rules(self, namespace: str, spec: PodSpec) -> list[Rule]:
        """Return the anti-affinity that pods already running insist on."""
        return [
            self._term_rule(namespace, Kind.ANTI, term, soft=False) for term in spec.anti_affinity
        ]

    def _counter(
        self,
        key: str,
        namespaces: frozenset[str] | None,
        selector: LabelSelector | None,
        node_filter: NodeFilter,
        others: tuple[Scope, ...] = (),
    ) -> Counter:
        stable = label_keys.stable_key(key)
        identity = (stable, namespaces, selector, node_filter, others)
        counter = self._counters.get(identity)
        if counter is None:
            counter = self._counters[identity] = Counter(
                stable, namespaces, selector, node_filter, others
            )
            if counter.selector is not None and counter.selector.match_labels:
                first = min(counter.selector.match_labels.items())
                self._by_label.setdefault(first, []).append(counter)
            elif counter.selector is not None:
                self._unindexed.append(counter)
        return counter

    def _rule(
        self, counter: Counter, kind: Kind, *, skew: int, min_domains: int, honors: bool, soft: bool
    ) -> Rule:
        # Wishes for spread count like demands: who only wishes still levels.
        identity = (id(counter), kind, skew, min_domains, honors, soft)
        rule = self._rules.get(identity)
        if rule is None:
            rule = Rule(counter, kind, skew=skew, min_domains=min_domains, honors=honors, soft=soft)
            self._rules[identity] = rule
            counter.rules.append(rule)
        return rule

    def selecting(self, namespace: str, labels: FrozenDict[str, str]) -> list[Counter]:
        """Return the counters that count a pod with these labels."""
        found = [c for c in self._unindexed if c.selects(namespace, labels)]
        for item in labels.items():
            for counter in self._by_label.get(item, ()):
                if counter.selects(namespace, labels):
                    found.append(counter)
        return found


def _other_keys(spec: PodSpec, spread: Spread) -> tuple[str, ...]:
    keys = {label_keys.stable_key(other.topology_key) for other in spec.spreads if other.required}
    return tuple(sorted(keys - {label_keys.stable_key(spread.topology_key), label_keys.HOSTNAME}))


def node_alternatives(spec: PodSpec) -> tuple[Requirements, ...]:
    """Return what a pod demands of nodes, as alternatives; empty: nothing."""
    if not spec.node_selector and not spec.node_terms:
        return ()
    selector = Requirements.of_labels(spec.node_selector)
    if not spec.node_terms:
        return (selector,) if selector else ()
    return tuple(
        selector.and_also(Requirements.of_specs(term.expressions).values())
        for term in spec.node_terms
    )
