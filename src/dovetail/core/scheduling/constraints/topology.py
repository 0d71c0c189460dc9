"""Topology groups and rules: spread, affinity and anti-affinity.

A *topology group* counts the pods that a selector matches, per value (domain) of a
node label. A *topology rule* is a constraint on a group: maximum skew, affinity or
anti-affinity. Classes that state equal rules share them. Groups on the hostname
label have an array over nodes; all others a small dictionary over domains.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.types import Ints
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.pending import resolve_namespaces
from dovetail.core.scheduling.work import WorkCounter
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeInclusionPolicy, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from dovetail.model.kube.requirements import Operator, Requirements, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Taint, Toleration, find_untolerated_taint

MAX_RUNNING_RULES: Final = 1000
"""Rules that only running pods state: each may have a number for every node.

All further terms share one rule per topology key. It excludes every class that one of them
selects from all their nodes: more than necessary, never less.
"""


class NodeFilter(NamedTuple):
    """Nodes that a topology spread constraint counts."""

    terms: tuple[Requirements, ...] = ()
    """Alternatives of which a node must meet one; empty: every node."""
    tolerations: tuple[Toleration, ...] | None = None
    """If set: only nodes whose taints they tolerate."""
    keys: tuple[str, ...] = ()
    """Labels that a node must have: keys of the pod's other spreads, as in kube-scheduler."""

    def matches(self, labels: Requirements, taints: Iterable[Taint], *, new: bool) -> bool:
        """Return True if a node counts; ``new``: a claim, whose labels may be undefined."""
        open_keys = label_keys.WELL_KNOWN if new else frozenset()
        if any(key not in labels and key not in open_keys for key in self.keys):
            return False
        if self.tolerations is not None and find_untolerated_taint(taints, self.tolerations) is not None:
            return False
        return not self.terms or any(
            labels.find_conflict(term, allow_undefined=open_keys) is None for term in self.terms
        )


EVERY_NODE = NodeFilter()

Scope = tuple[frozenset[str] | None, LabelSelector | None]
"""Namespaces (None: all) and the selector that pods in them must match."""


def no_pods_on(nodes: int) -> Ints:
    """Return zeros that many groups and rules share, hence not writeable."""
    zeros: Ints = np.zeros(nodes, dtype=np.int64)
    zeros.setflags(write=False)
    return zeros


_NO_NODES = no_pods_on(0)


@dataclass(slots=True, eq=False)
class TopologyGroup:
    """Counter of matching pods per domain of one topology key."""

    key: str
    namespaces: frozenset[str] | None
    selector: LabelSelector | None
    node_filter: NodeFilter
    extra_scopes: tuple[Scope, ...]
    """Further scopes that a pod must match to be counted."""
    counts: dict[str, int] = field(default_factory=dict)
    """Domain → matching pods. Every known domain is present, also with 0 pods: the
    minimum of a spread is taken over them.
    """
    node_counts: Ints = field(default_factory=lambda: _NO_NODES)
    """[nodes]: matching pods, if the key is hostname. Shared while there are none."""
    rules: list["TopologyRule"] = field(default_factory=list)

    @property
    def is_hostname(self) -> bool:
        return self.key == label_keys.HOSTNAME

    def add_to_nodes(self, indexes: Ints | int, counts: Ints | int) -> None:
        """Add to ``node_counts``; indexes are distinct."""
        if not self.node_counts.flags.writeable:
            self.node_counts = self.node_counts.copy()
        self.node_counts[indexes] += counts

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return True if a pod with these labels is counted."""
        if self.selector is None:
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels) and all(
            (names is None or namespace in names) and selector is not None and selector.matches(labels)
            for names, selector in self.extra_scopes
        )


@dataclass(slots=True, eq=False)
class MergedGroup(TopologyGroup):
    """Counter for classes that any of many terms select; its own selector is empty."""

    classes: set[tuple[str, FrozenDict[str, str]]] = field(default_factory=set)
    """Namespace and labels."""

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return True for pods of the classes."""
        return (namespace, labels) in self.classes


class RuleKind(Enum):
    """Kind of a topology rule."""

    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"


@dataclass(slots=True, eq=False)
class TopologyRule:
    """Constraint on a topology group, and where the pods are that state it."""

    group: TopologyGroup
    kind: RuleKind
    max_skew: int = 0
    min_domains: int = 0
    honors_affinity: bool = True
    soft: bool = False
    """A preference: it restricts the pods that state it, never others."""
    owners: dict[str, int] = field(default_factory=dict)
    """Domain → pods that state this rule, for inverse anti-affinity."""
    node_owners: Ints = field(default_factory=lambda: _NO_NODES)
    """[nodes]: pods that state this rule, if the key is hostname. Shared while there are none."""
    is_of_pending: bool = False
    """Pods to place state it, not only running ones."""

    def add_owners_to_nodes(self, indexes: Ints | int, counts: Ints | int) -> None:
        """Add to ``node_owners``; indexes are distinct."""
        if not self.node_owners.flags.writeable:
            self.node_owners = self.node_owners.copy()
        self.node_owners[indexes] += counts

    @property
    def can_exclude(self) -> bool:
        """False if no pod that states this rule has a domain, nor will get one."""
        return self.is_of_pending or any(self.owners.values())


class Topology:
    """All topology groups and rules of one problem, deduplicated."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]], work: WorkCounter | None = None) -> None:
        self._namespaces = namespaces
        self._work = work or WorkCounter()
        self._node_terms: dict[int, tuple[Requirements, ...]] = {}
        self._scopes: dict[tuple[str, PodAffinityTerm], Scope] = {}
        self._class_rules: dict[Hashable, list[TopologyRule]] = {}
        self._groups: dict[tuple[object, ...], TopologyGroup] = {}
        self._rules: dict[tuple[object, ...], TopologyRule] = {}
        self._by_label: dict[tuple[str, str], list[TopologyGroup]] = {}
        self._unindexed: list[TopologyGroup] = []
        self._pending: dict[tuple[str, FrozenDict[str, str]], int] = {}
        """Namespace and labels of classes → number."""
        self._pending_classes: list[tuple[str, FrozenDict[str, str]]] = []
        """The same by number."""
        self._pending_by_label: dict[tuple[str, str], list[tuple[str, FrozenDict[str, str]]]] = {}
        self._running_rules: dict[tuple[str, Scope], TopologyRule | None] = {}
        self._by_selection: dict[tuple[str, frozenset[int]], TopologyRule] = {}
        self._merged: dict[str, tuple[MergedGroup, TopologyRule]] = {}
        """Topology key → rule of all terms beyond ``MAX_RUNNING_RULES``."""

    @property
    def groups(self) -> Iterable[TopologyGroup]:
        return self._groups.values()

    def rules_for(self, pod_class: PodClass, spec: PodSpec) -> list[TopologyRule]:
        """Return the topology rules of one spec of a class; creates new ones."""
        count = _count_rules(spec)
        self._work.charge(count * (1 + len(spec.affinity) // 8) // 4)
        self._add_pending(pod_class.namespace, pod_class.labels)
        if not count:
            return []
        key = _rules_key(pod_class, spec)
        rules = self._class_rules.get(key)
        if rules is None:
            rules = self._class_rules[key] = self._build_rules(pod_class, spec)
        return rules

    def _build_rules(self, pod_class: PodClass, spec: PodSpec) -> list[TopologyRule]:
        rules = [self._spread_rule(pod_class, spread) for spread in spec.spreads]
        # kube-scheduler requires one pod that matches all affinity terms at once.
        all_scopes = tuple(self._scope(pod_class.namespace, term) for term in spec.affinity)
        rules += [
            self._term_rule(pod_class.namespace, RuleKind.AFFINITY, term, soft=False, all_scopes=all_scopes)
            for term in spec.affinity
        ]
        terms: list[tuple[RuleKind, PodAffinityTerm, bool]] = [
            *((RuleKind.ANTI_AFFINITY, term, False) for term in spec.anti_affinity),
            *((RuleKind.AFFINITY, preference.term, True) for preference in spec.preferred_affinity),
            *((RuleKind.ANTI_AFFINITY, preference.term, True) for preference in spec.preferred_anti_affinity),
        ]
        rules += [self._term_rule(pod_class.namespace, kind, term, soft=soft) for kind, term, soft in terms]
        for rule in rules:
            rule.is_of_pending = True
        return rules

    def _spread_rule(self, pod_class: PodClass, spread: TopologySpreadConstraint) -> TopologyRule:
        selector = spread.selector
        matched_labels = tuple(
            RequirementSpec(key, Operator.IN, (pod_class.labels[key],))
            for key in spread.match_label_keys
            if key in pod_class.labels
        )
        if selector is not None and matched_labels:
            selector = LabelSelector(selector.match_labels, (*selector.expressions, *matched_labels))
        honors_affinity = spread.node_affinity_policy is NodeInclusionPolicy.HONOR
        honors_taints = spread.node_taints_policy is NodeInclusionPolicy.HONOR
        node_filter = NodeFilter(
            self._required_node_terms(pod_class) if honors_affinity else (),
            pod_class.spec.tolerations if honors_taints else None,
            _other_spread_keys(pod_class.spec, spread),
        )
        group = self._group(spread.topology_key, (frozenset({pod_class.namespace}), selector), node_filter)
        min_domains, soft = spread.min_domains or 0, not spread.required
        rule = TopologyRule(group, RuleKind.SPREAD, spread.max_skew, min_domains, honors_affinity, soft)
        return self._rule(rule)

    def _required_node_terms(self, pod_class: PodClass) -> tuple[Requirements, ...]:
        """Return the required node terms of a class; all its spread constraints share them."""
        terms = self._node_terms.get(id(pod_class))
        if terms is None:
            terms = self._node_terms[id(pod_class)] = required_node_terms(pod_class.spec)
        return terms

    def _scope(self, namespace: str, term: PodAffinityTerm) -> Scope:
        scope = self._scopes.get((namespace, term))
        if scope is None:
            namespaces = resolve_namespaces(
                namespace, term.namespaces, term.namespace_selector, self._namespaces
            )
            scope = self._scopes[(namespace, term)] = (namespaces, term.selector)
        return scope

    def _term_rule(
        self,
        namespace: str,
        kind: RuleKind,
        term: PodAffinityTerm,
        *,
        soft: bool,
        all_scopes: tuple[Scope, ...] = (),
    ) -> TopologyRule:
        scope = self._scope(namespace, term)
        extra_scopes = tuple(other for other in all_scopes if other != scope)
        group = self._group(term.topology_key, scope, EVERY_NODE, extra_scopes)
        return self._rule(TopologyRule(group, kind, soft=soft))

    def anti_affinity_rules(self, namespace: str, spec: PodSpec) -> list[TopologyRule]:
        """Return required anti-affinity rules of running pods that concern classes.

        Terms that select the same classes exclude them alike, and share a rule: memory must
        not grow with the terms of running pods times the nodes.
        """
        self._work.charge(len(spec.anti_affinity) // 4)
        rules = [self._running_rule(namespace, term) for term in spec.anti_affinity]
        return list(dict.fromkeys(rule for rule in rules if rule is not None))

    def _running_rule(self, namespace: str, term: PodAffinityTerm) -> TopologyRule | None:
        key, scope = label_keys.normalize_key(term.topology_key), self._scope(namespace, term)
        if (key, scope) in self._running_rules:
            return self._running_rules[key, scope]
        rule, selection = None, self._selected_classes(scope)
        if selection:
            rule = self._by_selection.get((key, selection))
            is_known = (key, *scope, EVERY_NODE, ()) in self._groups
            if rule is None and not is_known and len(self._by_selection) >= MAX_RUNNING_RULES:
                rule = self._merge(key, selection)
            elif rule is None or is_known:
                rule = self._term_rule(namespace, RuleKind.ANTI_AFFINITY, term, soft=False)
                self._by_selection.setdefault((key, selection), rule)
        self._running_rules[key, scope] = rule
        return rule

    def _merge(self, key: str, selection: frozenset[int]) -> TopologyRule:
        """Add classes to the rule of all terms beyond the maximum."""
        if key not in self._merged:
            group = MergedGroup(key, None, None, EVERY_NODE, ())
            self._groups[key, MergedGroup] = group
            self._unindexed.append(group)
            self._merged[key] = group, self._rule(TopologyRule(group, RuleKind.ANTI_AFFINITY))
        group, rule = self._merged[key]
        group.classes.update(self._pending_classes[number] for number in selection)
        return rule

    def _add_pending(self, namespace: str, labels: FrozenDict[str, str]) -> None:
        if (namespace, labels) not in self._pending:
            self._pending[namespace, labels] = len(self._pending)
            self._pending_classes.append((namespace, labels))
            for item in labels.items():
                self._pending_by_label.setdefault(item, []).append((namespace, labels))

    def _selected_classes(self, scope: Scope) -> frozenset[int]:
        """Return the numbers of classes whose pods a scope selects."""
        namespaces, selector = scope
        if selector is None or not selector.is_valid:
            return frozenset()
        candidates: Iterable[tuple[str, FrozenDict[str, str]]] = self._pending
        if selector.match_labels:
            candidates = self._pending_by_label.get(min(selector.match_labels.items()), ())
        return frozenset(
            self._pending[namespace, labels]
            for namespace, labels in candidates
            if (namespaces is None or namespace in namespaces) and selector.matches(labels)
        )

    def _group(
        self, key: str, scope: Scope, node_filter: NodeFilter, extra_scopes: tuple[Scope, ...] = ()
    ) -> TopologyGroup:
        key = label_keys.normalize_key(key)
        namespaces, selector = scope
        identity = (key, namespaces, selector, node_filter, extra_scopes)
        group = self._groups.get(identity)
        if group is None:
            selector = selector if selector is None or selector.is_valid else None
            node_filter = EVERY_NODE if node_filter == EVERY_NODE else node_filter
            group = TopologyGroup(key, namespaces, selector, node_filter, extra_scopes)
            self._groups[identity] = group
            if selector is not None and selector.match_labels:
                self._by_label.setdefault(min(selector.match_labels.items()), []).append(group)
            elif selector is not None:
                self._unindexed.append(group)
        return group

    def _rule(self, rule: TopologyRule) -> TopologyRule:
        """Return the known rule that is equal to a new one; else the new one."""
        # Preferred spreads are rules too: pods that state them are levelled alike.
        group = rule.group
        identity = (id(group), rule.kind, rule.max_skew, rule.min_domains, rule.honors_affinity, rule.soft)
        known = self._rules.setdefault(identity, rule)
        if known is rule:
            group.rules.append(rule)
        return known

    def groups_selecting(self, namespace: str, labels: FrozenDict[str, str]) -> list[TopologyGroup]:
        """Return the groups that count a pod with these labels."""
        groups = [c for c in self._unindexed if c.selects(namespace, labels)]
        for item in labels.items():
            for group in self._by_label.get(item, ()):
                if group.selects(namespace, labels):
                    groups.append(group)
        return groups


def _rules_key(pod_class: PodClass, spec: PodSpec) -> Hashable:
    """Return what the rules of a class depend on: classes often differ in requests alone."""
    own = pod_class.spec
    has_label_keys = any(spread.match_label_keys for spread in spec.spreads)
    return (
        *(pod_class.namespace, pod_class.labels if has_label_keys else None, spec.spreads, spec.affinity),
        *(spec.anti_affinity, spec.preferred_affinity, spec.preferred_anti_affinity),
        # Nodes that spreads count.
        *((own.node_selector, own.node_terms, own.tolerations, own.spreads) if spec.spreads else ()),
    )


def _count_rules(spec: PodSpec) -> int:
    preferred = len(spec.preferred_affinity) + len(spec.preferred_anti_affinity)
    return len(spec.spreads) + len(spec.affinity) + len(spec.anti_affinity) + preferred


def _other_spread_keys(spec: PodSpec, spread: TopologySpreadConstraint) -> tuple[str, ...]:
    keys = {label_keys.normalize_key(other.topology_key) for other in spec.spreads if other.required}
    return tuple(sorted(keys - {label_keys.normalize_key(spread.topology_key), label_keys.HOSTNAME}))


def required_node_terms(spec: PodSpec) -> tuple[Requirements, ...]:
    """Return node selector and required node affinity as alternatives; empty: any node."""
    if not spec.node_selector and not spec.node_terms:
        return ()
    selector = Requirements.from_labels(spec.node_selector)
    if not spec.node_terms:
        return (selector,) if selector else ()
    terms = [Requirements.from_specs(term.expressions) for term in spec.node_terms]
    return tuple(selector.intersection(term.values()) for term in terms)
