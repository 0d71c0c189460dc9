"""The problem, compiled: tables, states, counters and hosts for one batch."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import StateSpace
from dovetail.core.scheduling.arrays.nodepools import PoolTable, vector
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import Ties, Want
from dovetail.core.scheduling.constraints.daemonsets import Outstanding, charge_daemons
from dovetail.core.scheduling.constraints.limits import Allowance
from dovetail.core.scheduling.constraints.min_values import Variety
from dovetail.core.scheduling.constraints.reservations import Reservations
from dovetail.core.scheduling.constraints.topology import (
    Counter,
    Kind,
    Rule,
    Topology,
    node_alternatives,
)
from dovetail.core.scheduling.placement.nodes import Hosts
from dovetail.core.scheduling.placement.packer import Packer
from dovetail.core.scheduling.placement.running_pods import (
    Running,
    attached_volumes,
    count_running,
    occupy_ports,
    running_pods,
    seed_domains,
)
from dovetail.core.scheduling.placement.state import Board
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.relaxation import relaxations, wanted_requirements
from dovetail.core.scheduling.pods.volumes import Attached, Volumes
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool, in_order_of_preference
from dovetail.model.kube.pod import HostPort, PodSpec
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.kube.taints import Effect
from dovetail.model.node import Node
from dovetail.model.plan import Refusal
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


def usable_pools(snapshot: ClusterSnapshot) -> list[NodePool]:
    """Return the pools that pods may be given nodes from, best first."""
    fit = [
        pool
        for pool in snapshot.node_pools
        if pool.ready and not pool.deleting and pool.replicas is None
    ]
    return in_order_of_preference(tuple(fit))


def ready_first(node: Node) -> tuple[bool, str]:
    """Sort nodes in the order in which they are offered pods."""
    return (not node.initialized, node.name)


class Problem:
    """One batch of pods against one snapshot."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        settings: SchedulingSettings,
        classes: Sequence[PodClass],
        moving: frozenset[str],
        order: Callable[[Node], Any] = ready_first,
    ) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.classes = classes
        self.axis = _axis(classes)
        self.volumes = Volumes(snapshot, settings)
        self.tables = [
            PoolTable(
                pool,
                snapshot.instance_types.get(pool.name, ()),
                self.axis,
                reservations=settings.reserved_capacity,
            )
            for pool in usable_pools(snapshot)
        ]
        self._ports: dict[HostPort, int] = {}
        daemon_ports = [self._charge(table) for table in self.tables]
        self.space = StateSpace(self.tables)
        taints = chain(
            (taint for table in self.tables for taint in table.pool.template.taints),
            (taint for node in snapshot.nodes for taint in node.taints),
        )
        self.soft_taints = any(one.effect is Effect.PREFER_NO_SCHEDULE for one in taints)
        self.topology = Topology(snapshot.namespaces)
        self.forms = {
            id(one): list(relaxations(one.spec, settings.preferences, soft_taints=self.soft_taints))
            for one in classes
        }
        self.attached = {id(one): self._attachments(one) for one in classes}
        self._rules = {
            id(one): self.topology.rules_of(one, self.forms[id(one)][0]) for one in classes
        }
        running = self._watched(moving)
        for kind in running:
            self.topology.anti_affinity_rules(kind.namespace, kind.spec)
        self.hosts = Hosts(
            self.space,
            self.topology,
            snapshot.nodes,
            self.axis,
            Outstanding(snapshot.daemon_sets),
            self._label_interest(),
            order,
        )
        seed_domains(self.topology, self.space, self.hosts)
        count_running(running, self.topology, snapshot.nodes, self.hosts.numbers)
        self.board = Board(
            self.space,
            self.hosts,
            [Allowance(table, snapshot.nodes) for table in self.tables],
            [Variety(table) for table in self.tables],
            Reservations(self.space),
            daemon_ports,
            settings,
        )
        self.packer = Packer(self.board)
        for one in classes:
            for port in one.spec.host_ports:
                self._ports.setdefault(port, len(self._ports))
        occupy_ports(self.hosts, self._ports)
        drivers = {driver for some in self.attached.values() for driver in some.drivers}
        self.board.attached = attached_volumes(self.hosts, self.volumes, drivers)
        self._ties: dict[tuple[tuple[int, ...], tuple[int, ...]], Ties] = {}
        self._sizes: dict[tuple[float, ...], tuple[int, Floats]] = {}
        self._counters = {
            id(one): self.topology.selecting(one.namespace, one.labels) for one in classes
        }
        self._audience: dict[int, int] = {}
        for counters in self._counters.values():
            for counter in counters:
                self._audience[id(counter)] = self._audience.get(id(counter), 0) + 1

    def load_of(self, classes: Iterable[PodClass]) -> Floats:
        """Return what the waiting pods of these classes ask for together."""
        load = np.zeros(len(self.axis))
        for one in classes:
            load += vector(one.spec.requests, self.axis) * one.waiting
        return load

    def _watched(self, moving: frozenset[str]) -> Running:
        """Return the pods that run, unless nobody here or there looks at any."""
        nodes = self.snapshot.nodes
        if not any(True for _ in self.topology.counters) and not any(
            alike.kind.spec.anti_affinity for node in nodes for alike in node.alike
        ):
            return {}
        return running_pods(nodes, moving)

    # -- compiling a class ---------------------------------------------------------

    def want(self, one: PodClass, form: PodSpec) -> Want:
        """Compile one form of a class."""
        attached = self.attached[id(one)]
        size = tuple(float(form.requests.get(name, 0)) for name in self.axis)
        number, array = self._sizes.setdefault(size, (len(self._sizes), np.array(size)))
        want = Want(
            one,
            size=array,
            size_number=number,
            ask=self.space.ask(wanted_requirements(form), form.tolerations),
            reach=node_alternatives(one.spec),
            alternatives=attached.alternatives,
            ties=self._ties_of(self._rules_of(one, form), self._counters[id(one)]),
        )
        want.volumes = attached.drivers
        if form.host_ports:
            want.ports = sum(1 << self._ports[port] for port in set(form.host_ports))
            for port, bit in self._ports.items():
                if any(port.clashes(own) for own in form.host_ports):
                    want.clashes |= 1 << bit
        want.free = not want.ports and self._is_free(want.ties)
        return want

    def _ties_of(self, rules: list[Rule], counters: list[Counter]) -> Ties:
        key = (tuple(map(id, rules)), tuple(map(id, counters)))
        known = self._ties.get(key)
        if known is None:
            known = self._ties[key] = Ties(rules, counters)
        return known

    def _rules_of(self, one: PodClass, form: PodSpec) -> list[Rule]:
        if form is self.forms[id(one)][0]:
            return self._rules[id(one)]
        return self.topology.rules_of(one, form)

    def _is_free(self, ties: Ties) -> bool:
        """Tell whether only the class itself cares which of its pods share a host."""
        if any(not one.own or one.rule.kind is Kind.AFFINITY for one in ties.host_rules):
            return False
        own = {id(one.rule.counter) for one in ties.host_rules}
        return all(
            id(counter) in own and self._audience[id(counter)] == 1 and not counter.matched.any()
            for counter in ties.host_counters
        )

    def follows_others(self, ties: Ties) -> bool:
        """Tell whether a class seeks the company of pods of other classes."""
        held = (*ties.host_rules, *ties.zonal_rules)
        return any(
            one.rule.kind is Kind.AFFINITY
            and not one.rule.soft
            and self._audience.get(id(one.rule.counter), 0) > one.own
            for one in held
        )

    def _attachments(self, one: PodClass) -> Attached:
        found = self.volumes.of(one.namespace, one.spec)
        if isinstance(found, Refusal):
            raise TypeError("classes with broken volumes must be sorted out before")
        return found

    def _charge(self, table: PoolTable) -> dict[int, Bools]:
        ports: dict[int, Bools] = {}
        for port, rows in charge_daemons(table, self.snapshot.daemon_sets):
            bit = 1 << self._ports.setdefault(port, len(self._ports))
            ports[bit] = ports[bit] | rows if bit in ports else rows
        return ports

    def _label_interest(self) -> frozenset[str]:
        """Return the label keys of nodes that anything in this batch looks at."""
        keys: set[str] = {label_keys.ZONE}
        for one in self.classes:
            for spec in self.forms[id(one)]:
                keys |= set(wanted_requirements(spec))
            for term in one.spec.node_terms:
                keys |= set(Requirements.of_specs(term.expressions))
            for place in self.attached[id(one)].alternatives:
                keys |= set(place)
        keys |= {counter.key for counter in self.topology.counters if not counter.by_host}
        return frozenset(keys)


def _axis(classes: Sequence[PodClass]) -> tuple[str, ...]:
    """Return the resources that matter: those that some pod asks for."""
    asked = {n for one in classes for n, amount in one.spec.requests.items() if amount > 0}
    first = [name for name in (CPU, MEMORY, PODS) if name in asked]
    return (*first, *sorted(asked - set(first)))


def share_of_total(problem: Problem) -> dict[int, float]:
    """Return each class's size: the share of everything asked for that one pod asks for."""
    sizes = {id(one): vector(one.spec.requests, problem.axis) for one in problem.classes}
    total = np.zeros(len(problem.axis))
    for one in problem.classes:
        total += sizes[id(one)] * len(one.pods)
    return {key: float((size / np.maximum(total, 1.0)).sum()) for key, size in sizes.items()}
