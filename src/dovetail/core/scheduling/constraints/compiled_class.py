"""Compiled class: one relaxed spec of an equivalence class, ready for placement."""

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from dovetail.core.scheduling.arrays.types import Floats
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, RuleKind, TopologyGroup, TopologyRule
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.model.kube.requirements import Requirements


class OwnRule(NamedTuple):
    """A topology rule of the class itself."""

    rule: TopologyRule
    selects_self: bool
    """The rule's selector matches the pods of the class."""


class ClassTopology:
    """Topology of a class: its own rules, and those that its pods may violate.

    *Hostname* rules and groups count per node, *domain* rules and groups per value
    of any other topology key. Classes that differ only in requests share the object.
    """

    __slots__ = (
        *("rules", "hostname_rules", "domain_rules", "inverse_hostname_rules", "inverse_domain_rules"),
        *("hostname_groups", "domain_groups", "own_keys", "topology_keys", "own_spreads", "once_per_domain"),
        *("has_domain_affinity", "counts_every_node"),
        *("max_per_node", "has_hostname_affinity", "has_self_anti_affinity", "affinity_groups"),
    )

    def __init__(self, rules: list[TopologyRule], groups: list[TopologyGroup]) -> None:
        counted_ids = {id(group) for group in groups}
        own_rules = [OwnRule(rule, id(rule.group) in counted_ids) for rule in rules]
        self.rules = rules
        self.hostname_rules = [own for own in own_rules if own.rule.group.is_hostname]
        self.domain_rules = [own for own in own_rules if not own.rule.group.is_hostname]
        self.hostname_groups = [group for group in groups if group.is_hostname]
        self.domain_groups = [group for group in groups if not group.is_hostname]
        required = [rule for group in self.hostname_groups for rule in group.rules if not rule.soft]
        self.inverse_hostname_rules = [rule for rule in required if rule.kind is not RuleKind.AFFINITY]
        """Rules of other pods that pods of this class violate by their presence.

        As in Karpenter's inverse topology. For domains spread is missing: the groups
        of other classes are levelled by ``DomainAssignment``.
        """
        required = [rule for group in self.domain_groups for rule in group.rules if not rule.soft]
        self.inverse_domain_rules = [
            rule for rule in required if rule.kind is RuleKind.ANTI_AFFINITY and rule.can_exclude
        ]
        selecting_self = [own for own in self.domain_rules if own.selects_self]
        self.own_spreads = [own for own in selecting_self if own.rule.kind is RuleKind.SPREAD]
        """Its spreads over domains that count its own pods."""
        self.once_per_domain = any(own.rule.kind is RuleKind.ANTI_AFFINITY for own in selecting_self)
        """Pods of the class may not share a domain with each other."""
        self.has_domain_affinity = any(own.rule.kind is RuleKind.AFFINITY for own in self.domain_rules)
        self.counts_every_node = all(group.node_filter == EVERY_NODE for group in self.domain_groups)
        """Groups over domains count its pods, whatever the node."""
        self.own_keys = {own.rule.group.key for own in self.domain_rules}
        counted_keys = {
            group.key
            for group in self.domain_groups
            if any(rule.can_exclude and (not rule.soft or rule in rules) for rule in group.rules)
        }
        self.topology_keys = tuple(sorted(self.own_keys | counted_keys))
        """Topology keys for which a domain must be chosen before a node is.

        Its own keys, and those by which rules of other pods count its pods. Sorted:
        a ``DomainTuple`` has this order.
        """
        self.max_per_node = _max_per_new_node(self.hostname_rules)
        """Pods of this class that its own rules allow on an empty node; None: any number."""
        self.has_hostname_affinity = any(own.rule.kind is RuleKind.AFFINITY for own in self.hostname_rules)
        """Pods must share a node with pods that a selector matches."""
        self.has_self_anti_affinity = any(
            own.selects_self and own.rule.kind is RuleKind.ANTI_AFFINITY for own in self.hostname_rules
        )
        """Pods of the class may not share a node with each other."""
        required_affinity = [rule for rule in rules if rule.kind is RuleKind.AFFINITY and not rule.soft]
        self.affinity_groups = [rule.group for rule in required_affinity]
        """Counters of its required affinity terms. All count the same pods: those that
        match every term.
        """

    def without_hostname_affinity(self) -> "ClassTopology":
        topology = copy(self)
        rules = self.hostname_rules
        topology.hostname_rules = [own for own in rules if own.rule.kind is not RuleKind.AFFINITY]
        topology.has_hostname_affinity = False
        return topology


@dataclass(slots=True, eq=False)
class CompiledClass(ClassTopology):
    """One relaxed spec of a class: what placement has to check."""

    pod_class: PodClass
    requests: Floats
    """[resources]. Interned: equal requests are the same array."""
    requests_id: int
    """Id of ``requests``, for caches."""
    constraint: int
    required_terms: tuple[Requirements, ...]
    """Node selector and required node affinity terms of the unrelaxed spec.

    Alternatives; empty: any node. They decide which domains a spread constraint counts.
    """
    volume_topologies: list[Requirements]
    """Node requirements of its volumes, as alternatives in the order to try.

    Without volumes: one alternative that requires nothing.
    """
    topology: ClassTopology
    volume_claims: dict[str, frozenset[str]]
    """CSI driver → PersistentVolumeClaims that a pod attaches."""
    port_bits: int = 0
    """Host ports that a pod uses, as a bit set."""
    conflicting_port_bits: int = 0
    """Host ports that conflict with them, as a bit set."""
    is_independent: bool = False
    """True if no rule of another class depends on which of its pods share a node.

    Such a class may be deferred to the fleet search, which counts pods per node of
    one class only.
    """

    def __post_init__(self) -> None:
        # Inner loops read the shared topology: copied, it costs one look-up less.
        for name in ClassTopology.__slots__:
            setattr(self, name, getattr(self.topology, name))


def _max_per_new_node(rules: list[OwnRule]) -> int | None:
    limits = []
    for rule, selects_self in rules:
        if rule.kind is RuleKind.SPREAD and selects_self:
            limits.append(rule.max_skew)
        elif rule.kind is RuleKind.ANTI_AFFINITY and selects_self:
            limits.append(1)
    return min(limits, default=None)
