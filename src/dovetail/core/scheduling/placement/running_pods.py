"""Running pods: what they count for in topology, and their ports and volumes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE, ClaimStateSpace
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, NodeFilter, Topology
from dovetail.core.scheduling.placement.nodes import NodeArrays
from dovetail.core.scheduling.pods.node_pods import get_node_pods
from dovetail.core.scheduling.pods.volumes import VolumeResolver
from dovetail.core.scheduling.work import WorkCounter
from dovetail.model.kube.pod import HostPort
from dovetail.model.kube.pod_groups import EquivalenceKey
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.taints import find_untolerated_taint
from dovetail.model.node import Node

RunningPods = dict[EquivalenceKey, dict[str, int]]
"""Equivalence key → node name → number of running pods."""


def find_running_pods(nodes: Iterable[Node], moving: frozenset[str]) -> RunningPods:
    """Return the running pods that stay.

    ``moving`` are keys of pods on deleting nodes that get another node.
    """
    running: defaultdict[EquivalenceKey, dict[str, int]] = defaultdict(dict)
    for node in nodes:
        name = node.name
        if not node.deleting:
            for key, count in get_node_pods(node).running:  # Each key once.
                running[key][name] = count
            continue
        for key, count in _count_staying(node, moving):
            running[key][name] = running[key].get(name, 0) + count
    return running


def _count_staying(node: Node, moving: frozenset[str]) -> Iterator[tuple[EquivalenceKey, int]]:
    """Yield the groups of a deleting node, with the number of pods that get no other node."""
    for pod_group in node.pod_groups:
        count = sum(pod.key not in moving for pod in pod_group.pods)
        if count and not pod_group.deleting:
            yield pod_group.key, count


def register_domains(
    topology: Topology, space: ClaimStateSpace, nodes: NodeArrays, work: WorkCounter
) -> None:
    """Add all domains that exist, or that new nodes could have, to each group.

    A domain without any possible node that the group counts is left out:
    kube-scheduler will never see such a node.
    """
    reachable: dict[tuple[str, NodeFilter], dict[str, int]] = {}
    for group in topology.groups:
        if group.is_hostname:
            continue
        key = (group.key, group.node_filter._replace(keys=()))
        if key not in reachable:
            reachable[key] = dict.fromkeys(_reachable_in_pools(space, *key, work), 0)
        work.charge(1 + len(reachable[key]) // 64 + len(nodes.profiles) // 8)
        group.counts = reachable[key] | group.counts
        for labels, taints in nodes.profiles:
            if group.key in labels and group.node_filter.matches(labels, taints, new=False):
                group.counts.setdefault(_domain(labels, group.key), 0)


def _reachable_in_pools(
    space: ClaimStateSpace, key: str, node_filter: NodeFilter, work: WorkCounter
) -> Iterator[str]:
    """Yield the label values that new nodes could have, pool by pool."""
    for index, table in enumerate(space.tables):
        tolerations = node_filter.tolerations
        if tolerations is None or not find_untolerated_taint(table.pool.template.taints, tolerations):
            yield from _reachable(space, index, key, node_filter.terms, work)


def _reachable(
    space: ClaimStateSpace, pool: int, key: str, terms: tuple[Requirements, ...], work: WorkCounter
) -> list[str]:
    """Return the label values that nodes of a pool could have under one of the terms."""
    values = sorted(space.tables[pool].label_values(key))
    work.charge(1 + len(values) // 64)
    if not terms:
        return values
    # Most terms fail on a pool whatever the value: they are checked once, not per value.
    possible: list[tuple[Requirement, int]] = []
    for term in terms:
        work.charge(1 + len(term) // 8)
        state = space.add_requirements(space.roots[pool], term)
        if state != INFEASIBLE:
            possible.append((term.get_or_exists(key), state))
    return [
        value
        for value in values
        if any(
            requirement.has(value) and _has_value(space, state, key, value, work)
            for requirement, state in possible
        )
    ]


def _has_value(space: ClaimStateSpace, state: int, key: str, value: str, work: WorkCounter) -> bool:
    """Return True if a claim in this state could have a label value."""
    work.charge(1 + len(space.states[state].requirements) // 8)
    return space.add_requirement(state, Requirement.one_of(key, value)) != INFEASIBLE


def count_running_pods(
    running: RunningPods, topology: Topology, nodes: Iterable[Node], index_by_name: Mapping[str, int]
) -> None:
    """Count running pods in all groups that select them, on their nodes.

    ``index_by_name`` maps the name of a node to its index in NodeArrays. A deleting node has
    none: its pods count, but it takes none.
    """
    domains = _Domains(nodes)
    for key, counts_by_node in running.items():
        groups = topology.groups_selecting(key.namespace, key.labels)
        rules = topology.anti_affinity_rules(key.namespace, key.spec) if key.spec.anti_affinity else ()
        for group in groups:
            if group.is_hostname:
                for name, count in counts_by_node.items():
                    if name in index_by_name:
                        group.add_to_nodes(index_by_name[name], count)
            else:
                domains.add_counts(group.counts, counts_by_node, group.key, group.node_filter)
        for rule in rules:
            if rule.group.is_hostname:
                for name, count in counts_by_node.items():
                    if name in index_by_name:
                        rule.add_owners_to_nodes(index_by_name[name], count)
            else:
                domains.add_counts(rule.owners, counts_by_node, rule.group.key, EVERY_NODE)


class _Domains:
    """Domains of nodes, each found once per topology key and node filter."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._domains: dict[tuple[str, int], dict[str, str | None]] = {}
        """Topology key and id of a node filter → name of a node → domain; None: not counted."""

    def add_counts(
        self, totals: dict[str, int], counts_by_node: Mapping[str, int], key: str, node_filter: NodeFilter
    ) -> None:
        """Add the pods of nodes to the totals of their domains."""
        domains = self._domains.setdefault((key, id(node_filter)), {})
        for name, count in counts_by_node.items():
            if name in domains:
                domain = domains[name]
            else:
                domain = domains[name] = _find_domain(self._nodes[name], key, node_filter)
            if domain is not None:
                totals[domain] = totals.get(domain, 0) + count


def _find_domain(node: Node, key: str, node_filter: NodeFilter) -> str | None:
    labels = node.label_requirements
    if key not in labels:
        return None
    if node_filter is not EVERY_NODE and not node_filter.matches(labels, node.effective_taints(), new=False):
        return None
    return _domain(labels, key)


def _domain(labels: Requirements, key: str) -> str:
    return next(iter(labels[key].values))


def occupy_ports(nodes: NodeArrays, port_numbers: dict[HostPort, int]) -> None:
    """Mark host ports of running pods as used; new ports get a bit."""
    for index, node in enumerate(nodes.existing_nodes):
        for port in get_node_pods(node).host_ports:
            nodes.port_bits[index] |= 1 << port_numbers.setdefault(port, len(port_numbers))


def find_attached_volumes(
    nodes: NodeArrays, volumes: VolumeResolver, drivers: Iterable[str]
) -> dict[str, list[set[str]]]:
    """Return CSI driver → per existing node, the attached PersistentVolumeClaims."""
    existing = nodes.existing_nodes
    attached: dict[str, list[set[str]]] = {name: [set() for _ in existing] for name in sorted(drivers)}
    for index, node in enumerate(existing if attached else ()):
        for pod_group in node.pod_groups:
            namespace, spec = pod_group.key.namespace, pod_group.key.spec
            claims_by_driver = volumes.attached_claims(namespace, spec) if spec.volumes else {}
            for driver in claims_by_driver.keys() & attached.keys():
                attached[driver][index] |= claims_by_driver[driver]
    return attached
