"""Problem: a snapshot and the classes to place in it, compiled to arrays."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import ClaimStateSpace
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import ClassTopology, CompiledClass
from dovetail.core.scheduling.constraints.daemonsets import get_overhead
from dovetail.core.scheduling.constraints.limits import LimitHeadroom
from dovetail.core.scheduling.constraints.min_values import PoolMinValues
from dovetail.core.scheduling.constraints.pool_tables import compile_tables
from dovetail.core.scheduling.constraints.reservations import Reservations
from dovetail.core.scheduling.constraints.topology import (
    RuleKind,
    Topology,
    TopologyGroup,
    TopologyRule,
    required_node_terms,
)
from dovetail.core.scheduling.placement.nodes import NodeArrays
from dovetail.core.scheduling.placement.packer import Packer
from dovetail.core.scheduling.placement.running_pods import (
    RunningPods,
    count_running_pods,
    find_attached_volumes,
    find_running_pods,
    occupy_ports,
    register_domains,
)
from dovetail.core.scheduling.placement.state import PlacementState
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.node_pods import get_node_pods
from dovetail.core.scheduling.pods.relaxation import node_requirements, relax
from dovetail.core.scheduling.pods.volumes import VolumeConstraint, VolumeResolver
from dovetail.core.scheduling.work import WorkCounter
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool, sort_by_weight
from dovetail.model.kube.pod import HostPort, PodSpec
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.kube.taints import TaintEffect
from dovetail.model.node import Node
from dovetail.model.plan import UnschedulableReason
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


def usable_nodepools(snapshot: ClusterSnapshot) -> list[NodePool]:
    """Return the NodePools that launch nodes for pods, in order of preference.

    Static NodePools (``spec.replicas``) do not.
    """
    return sort_by_weight(tuple(filter(is_usable, snapshot.nodepools)))


def is_usable(pool: NodePool) -> bool:
    """Return True if a NodePool launches nodes for pods."""
    return pool.ready and not pool.deleting and pool.replicas is None


def initialized_first(node: Node) -> tuple[bool, str]:
    """Return the sort key of existing nodes: initialized ones first, then by name."""
    return (not node.initialized, node.name)


class CompiledPools:
    """NodePools of a snapshot as arrays, and specs of the classes to place.

    Nothing here changes while pods are placed, except for caches: attempts with another
    order or packing share it.
    """

    def __init__(
        self, snapshot: ClusterSnapshot, settings: SchedulingSettings, classes: Sequence[PodClass]
    ) -> None:
        # Resource names are an axis of every array, so they come first. DaemonSets are
        # subtracted before claim states are built from the tables.
        self.resource_names = _requested_resources(classes)
        compiled = compile_tables(usable_nodepools(snapshot), snapshot, self.resource_names, settings)
        self.tables = [table for table, _ in compiled]
        self.port_numbers: dict[HostPort, int] = {}
        """Host port → number of its bit."""
        self.daemon_ports = [self._number_ports(ports) for _, ports in compiled]
        self.space = ClaimStateSpace(self.tables)

        # Volumes must be valid: see ``placement_order.split_invalid``.
        self.soft_taints = _has_soft_taints(self.tables, snapshot.nodes)
        self.relaxed_specs = {
            id(pod_class): list(
                relax(pod_class.spec, settings.preference_policy, soft_taints=self.soft_taints)
            )
            for pod_class in classes
        }
        """Id of a class → its specs, from all preferences to none."""
        self.volumes = VolumeResolver(snapshot, settings)
        self.volumes_by_class = {id(pod_class): self._resolve_volumes(pod_class) for pod_class in classes}

    def _number_ports(self, daemon_ports: Iterable[tuple[HostPort, Bools]]) -> dict[int, Bools]:
        """Return host port bit → rows [types]."""
        ports: dict[int, Bools] = {}
        for port, rows in daemon_ports:
            bit = 1 << self.port_numbers.setdefault(port, len(self.port_numbers))
            ports[bit] = ports[bit] | rows if bit in ports else rows
        return ports

    def _resolve_volumes(self, pod_class: PodClass) -> VolumeConstraint:
        resolved = self.volumes.resolve(pod_class.namespace, pod_class.spec)
        if isinstance(resolved, UnschedulableReason):
            raise TypeError("classes with invalid volumes must be removed before")
        return resolved


class Problem:
    """Classes of pods to place in one snapshot, compiled to arrays."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        settings: SchedulingSettings,
        classes: Sequence[PodClass],
        moving: frozenset[str],
        order: Callable[[Node], Any] = initialized_first,
        work: WorkCounter | None = None,
        pools: CompiledPools | None = None,
    ) -> None:
        """Compile a snapshot.

        ``moving`` are keys of pods on deleting nodes that ``classes`` contain:
        they must not be counted where they run. ``order`` is the sort key of
        existing nodes. ``pools`` are those of the same snapshot and classes.

        The steps depend on each other in this order::

            resources -> NodePool tables -> claim states    (CompiledPools)
            relaxed specs, volumes       -> topology groups and rules
            groups, watched labels       -> node arrays -> counts of running pods
            all of them                  -> placement state, ports, volumes
        """
        self.work = work or WorkCounter()
        self.snapshot = snapshot
        self.settings = settings
        self.classes = classes

        pools = pools or CompiledPools(snapshot, settings, classes)
        self.resource_names, self.tables, self.space = pools.resource_names, pools.tables, pools.space
        self.soft_taints, self.relaxed_specs = pools.soft_taints, pools.relaxed_specs
        self.volumes, self.volumes_by_class = pools.volumes, pools.volumes_by_class
        self._port_numbers = pools.port_numbers

        # Topology. All groups must exist before nodes: their arrays over nodes are
        # sized there, and their keys decide which node labels are watched. Only the
        # first spec of each class is needed: later ones have a subset of its rules.
        self.topology = Topology(snapshot.namespaces, self.work)
        self._rules = {
            id(pod_class): self.topology.rules_for(pod_class, self.relaxed_specs[id(pod_class)][0])
            for pod_class in classes
        }
        running = self._find_counted_pods(moving)
        for key in running:
            if key.spec.anti_affinity:
                self.topology.anti_affinity_rules(key.namespace, key.spec)

        # Nodes. Domains are registered before pods are counted in them.
        overhead, watched = get_overhead(snapshot.daemon_sets), self._watched_label_keys()
        self.nodes = NodeArrays(
            self.space, self.topology, snapshot.nodes, self.resource_names, overhead, watched, order
        )
        register_domains(self.topology, self.space, self.nodes, self.work)
        count_running_pods(running, self.topology, snapshot.nodes, self.nodes.index_by_name)

        # Placement state.
        headrooms = [LimitHeadroom(table, snapshot.nodes) for table in self.tables]
        min_values = [PoolMinValues(table) for table in self.tables]
        reservations = Reservations(self.space)
        self.placement = PlacementState(
            self.space, self.nodes, headrooms, min_values, reservations, pools.daemon_ports, settings
        )
        self.packer = Packer(self.placement)
        # Every host port needs its bit before a class is compiled: conflicts are
        # looked up among all of them.
        for pod_class in classes:
            for port in pod_class.spec.host_ports:
                self._port_numbers.setdefault(port, len(self._port_numbers))
        occupy_ports(self.nodes, self._port_numbers)
        by_class = self.volumes_by_class.values()
        drivers = {driver for volumes in by_class for driver in volumes.claims_by_driver}
        self.placement.attached_volumes = find_attached_volumes(self.nodes, self.volumes, drivers)

        # Caches and look-ups of ``compile_class``.
        self._ports_by_number: dict[tuple[int, str], list[HostPort]] = {}
        self._class_topologies: dict[tuple[tuple[int, ...], tuple[int, ...]], ClassTopology] = {}
        self._followed_groups: dict[int, list[TopologyGroup]] = {}
        self._request_ids: dict[tuple[float, ...], int] = {}
        self._required_terms: dict[int, tuple[Requirements, ...]] = {}
        selecting: dict[tuple[str, FrozenDict[str, str]], list[TopologyGroup]] = {}
        self._groups: dict[int, list[TopologyGroup]] = {}
        """Id of a class → topology groups that count its pods."""
        for pod_class in classes:
            labels = (pod_class.namespace, pod_class.labels)
            if labels not in selecting:
                selecting[labels] = self.topology.groups_selecting(*labels)
            self._groups[id(pod_class)] = selecting[labels]
        self._selected_classes: dict[int, int] = {}
        """Id of a topology group → number of classes that it counts."""
        for groups in self._groups.values():
            for group in groups:
                self._selected_classes[id(group)] = self._selected_classes.get(id(group), 0) + 1

    def total_requests(self, classes: Sequence[PodClass]) -> Floats:
        """Return [resources]: sum of the requests of all unplaced pods of classes."""
        unplaced = np.array([float(pod_class.unplaced) for pod_class in classes])
        total: Floats = unplaced @ _requests_matrix(classes, self.resource_names)
        return total

    def _find_counted_pods(self, moving: frozenset[str]) -> RunningPods:
        """Return the running pods, or none if no topology group can count them."""
        nodes = self.snapshot.nodes
        if not any(True for _ in self.topology.groups) and not any(
            get_node_pods(node).anti_affinity_specs for node in nodes
        ):
            return {}
        return find_running_pods(nodes, moving)

    # -- compiling a class ---------------------------------------------------------

    def compile_class(self, pod_class: PodClass, spec: PodSpec) -> CompiledClass:
        """Compile one of the relaxed specs of a class."""
        volumes = self.volumes_by_class[id(pod_class)]
        amounts = tuple(float(spec.requests.get(name, 0)) for name in self.resource_names)
        requests_id = self._request_ids.get(amounts)
        if requests_id is None:
            requests_id = self._request_ids[amounts] = len(self._request_ids)
            self.placement.distinct_requests.append(np.array(amounts))
        compiled = CompiledClass(
            pod_class,
            requests=self.placement.distinct_requests[requests_id],
            requests_id=requests_id,
            constraint=self.space.intern_constraint(node_requirements(spec), spec.tolerations),
            required_terms=self._required_terms_of(pod_class),
            volume_topologies=volumes.topologies,
            topology=self._class_topology(self._rules_for(pod_class, spec), self._groups[id(pod_class)]),
            volume_claims=volumes.claims_by_driver,
        )
        if spec.host_ports:
            compiled.port_bits = sum(1 << self._port_numbers[port] for port in set(spec.host_ports))
            compiled.conflicting_port_bits = self._conflicting_ports(spec.host_ports)
        compiled.is_independent = not compiled.port_bits and self._is_independent(compiled.topology)
        return compiled

    def _conflicting_ports(self, own_ports: Iterable[HostPort]) -> int:
        """Return the bits of all host ports that conflict with those of a pod."""
        if not self._ports_by_number:
            for port in self._port_numbers:
                self._ports_by_number.setdefault((port.port, port.protocol), []).append(port)
        bits = 0
        for own in own_ports:
            for port in self._ports_by_number[(own.port, own.protocol)]:
                if port.conflicts_with(own):
                    bits |= 1 << self._port_numbers[port]
        return bits

    def _required_terms_of(self, pod_class: PodClass) -> tuple[Requirements, ...]:
        """Return the required node terms of a class; all its relaxed specs share them.

        A pod with T terms has T relaxed specs.
        """
        terms = self._required_terms.get(id(pod_class))
        if terms is None:
            terms = self._required_terms[id(pod_class)] = required_node_terms(pod_class.spec)
        return terms

    def _class_topology(self, rules: list[TopologyRule], groups: list[TopologyGroup]) -> ClassTopology:
        key = (tuple(map(id, rules)), tuple(map(id, groups)))
        class_topology = self._class_topologies.get(key)
        if class_topology is None:
            class_topology = self._class_topologies[key] = ClassTopology(rules, groups)
        return class_topology

    def _rules_for(self, pod_class: PodClass, spec: PodSpec) -> list[TopologyRule]:
        if spec is self.relaxed_specs[id(pod_class)][0]:
            return self._rules[id(pod_class)]
        return self.topology.rules_for(pod_class, spec)

    def _is_independent(self, topology: ClassTopology) -> bool:
        """Return True if only the class itself constrains which pods share a node.

        Its hostname rules may count its own pods only: no other class, and no
        running pod.
        """
        own_rules = topology.hostname_rules
        if any(not own.selects_self or own.rule.kind is RuleKind.AFFINITY for own in own_rules):
            return False
        own_groups = {id(own.rule.group) for own in own_rules}
        return all(
            id(group) in own_groups and self._selected_classes[id(group)] == 1 and not group.node_counts.any()
            for group in topology.hostname_groups
        )

    def followed_groups(self, topology: ClassTopology) -> list[TopologyGroup]:
        """Return the groups of other classes to which a class has required affinity; cached."""
        groups = self._followed_groups.get(id(topology))
        if groups is None:
            groups = self._followed_groups[id(topology)] = [
                own.rule.group
                for own in (*topology.hostname_rules, *topology.domain_rules)
                if own.rule.kind is RuleKind.AFFINITY
                and not own.rule.soft
                and self._selected_classes.get(id(own.rule.group), 0) > own.selects_self
            ]
        return groups

    def _watched_label_keys(self) -> frozenset[str]:
        """Return the node label keys that any class or topology group refers to."""
        keys: set[str] = {label_keys.ZONE}
        for pod_class in self.classes:
            for spec in self.relaxed_specs[id(pod_class)]:
                keys.update(node_requirements(spec))
            for term in pod_class.spec.node_terms:
                keys.update(Requirements.from_specs(term.expressions))
            for requirements in self.volumes_by_class[id(pod_class)].topologies:
                keys.update(requirements)
        keys |= {group.key for group in self.topology.groups if not group.is_hostname}
        return frozenset(keys)


def _has_soft_taints(tables: Iterable[NodePoolTable], nodes: Iterable[Node]) -> bool:
    """Return True if a NodePool or node has a PreferNoSchedule taint."""
    taints = chain(
        (taint for table in tables for taint in table.pool.template.taints),
        (taint for node in nodes for taint in node.taints),
    )
    return any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in taints)


def _requested_resources(classes: Sequence[PodClass]) -> tuple[str, ...]:
    """Return the resources that some pod requests: CPU, memory, pods, others by name.

    CPU and memory come first because the fleet search weights the first two
    resources against each other.
    """
    requested = {
        name for pod_class in classes for name, amount in pod_class.spec.requests.items() if amount > 0
    }
    first = [name for name in (CPU, MEMORY, PODS) if name in requested]
    return (*first, *sorted(requested - set(first)))


def request_shares(problem: Problem) -> dict[int, float]:
    """Return id of a class → share of one pod in all requests, summed over resources."""
    requests = _requests_matrix(problem.classes, problem.resource_names)
    pods = np.array([float(len(pod_class.pods)) for pod_class in problem.classes])
    shares = (requests / np.maximum(pods @ requests, 1.0)).sum(axis=1)
    return {id(pod_class): share for pod_class, share in zip(problem.classes, shares.tolist(), strict=True)}


def _requests_matrix(classes: Sequence[PodClass], names: Sequence[str]) -> Floats:
    """Return [classes, resources]: requests of one pod of each class."""
    amounts = [[pod_class.spec.requests.get(name, 0) for name in names] for pod_class in classes]
    return np.array(amounts, dtype=np.float64).reshape(len(classes), len(names))
