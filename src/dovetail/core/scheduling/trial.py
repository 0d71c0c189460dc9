"""Trial: place pods in a compiled problem, then undo or commit it.

Compiling a problem is far more expensive than one trial. Consolidation compiles a
problem once and runs many trials: each removes nodes, places their pods, and is
undone by the placement log.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.topology import TopologyGroup, TopologyRule
from dovetail.core.scheduling.placement.running_pods import RunningPods, count_running_pods
from dovetail.core.scheduling.placement_order import place_all
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.problem import Problem
from dovetail.model.kube.pod import Pod

CLOSED = -1.0
"""Available resources of a node that takes no pods."""


class Trial:
    """A compiled problem, and the state that trials return to."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.placer = Placer(problem, defer=False)
        self.classes = tuple(problem.classes)
        self._limits = [headroom.remaining.copy() for headroom in problem.placement.limit_headrooms]
        self._reserved_slots = problem.placement.reservations.remaining_slots()
        self._counts: list[tuple[TopologyGroup, dict[str, int]]] = []
        self._owners: list[tuple[TopologyRule, dict[str, int]]] = []
        self._ports: list[int] = []
        self._attached: dict[str, list[set[str]]] = {}

    def close(self, nodes: Sequence[int]) -> None:
        """Exclude nodes (indexes) from all further trials."""
        self.problem.nodes.available[:, list(nodes)] = CLOSED
        self.problem.nodes.invalidate_fitting()

    def close_for_now(self, nodes: Sequence[int]) -> Floats:
        """Exclude nodes (indexes) until ``reopen``; return what they had available."""
        available: Floats = self.problem.nodes.available[:, list(nodes)].copy()
        self.close(nodes)
        return available

    def reopen(self, nodes: Sequence[int], available: Floats) -> None:
        """Revert ``close_for_now``."""
        self.problem.nodes.available[:, list(nodes)] = available
        self.problem.nodes.invalidate_fitting()

    def place(
        self,
        members: Mapping[int, Sequence[Pod]],
        removed: Sequence[int],
        running: RunningPods,
        *,
        fewest_nodes: bool,
        defer_all: bool = True,
    ) -> Floats:
        """Place pods as if some nodes were removed.

        ``members`` maps the index of a class to its pods. ``removed`` are indexes of
        nodes. ``running`` are the same pods as topology groups count them now.
        Return the available resources of the removed nodes, for ``undo``.
        """
        problem = self.problem
        nodes, placement = problem.nodes, problem.placement
        chosen = [self.classes[number] for number in sorted(members)]
        for number, pods in members.items():
            pod_class = self.classes[number]
            pod_class.pods, pod_class.placed = list(pods), 0
        problem.classes = chosen
        self._save(chosen)
        old_available: Floats = nodes.available[:, list(removed)].copy()
        nodes.available[:, list(removed)] = CLOSED
        nodes.invalidate_fitting()
        self._count_running(running, removed, -1)
        for index, headroom in enumerate(placement.limit_headrooms):
            if not headroom.is_unlimited:
                headroom.reset(self._limits[index] + self._released_limits(index, removed))
        placement.fewest_nodes = fewest_nodes
        placement.cursor = 0
        self.placer.defer_all, self.placer.has_shortfall = defer_all, False
        place_all(self.placer)
        if self.placer.has_shortfall:
            # As in ``solve``: limits cut the fleet short, so that skews are wrong.
            self.undo(removed, running, old_available)
            return self.place(members, removed, running, fewest_nodes=fewest_nodes, defer_all=False)
        return old_available

    def undo(self, removed: Sequence[int], running: RunningPods, old_available: Floats) -> None:
        """Restore the state before the last ``place``."""
        nodes, placement = self.problem.nodes, self.problem.placement
        for compiled, indexes, counts in placement.log:
            self._remove_pods(compiled, np.array(indexes), np.array(counts))
        self._drop_claims()
        nodes.available[:, list(removed)] = old_available
        nodes.invalidate_fitting()
        self._count_running(running, removed, 1)
        for group, saved in self._counts:
            group.counts = saved
        for rule, owners in self._owners:
            rule.owners = owners
        nodes.port_bits[:] = self._ports
        for driver, sets in self._attached.items():
            placement.attached_volumes[driver] = sets
        placement.reservations.restore(self._reserved_slots)

    def commit(self) -> None:
        """Keep the result of the last ``place`` for all further trials.

        Removed nodes stay removed. New claims keep their share of limits and
        reservations, but take no more pods: they do not exist yet.
        """
        placement = self.problem.placement
        for index, headroom in enumerate(placement.limit_headrooms):
            if not headroom.is_unlimited:
                self._limits[index] = headroom.remaining.copy()
        self._reserved_slots = placement.reservations.remaining_slots()
        first = self.problem.nodes.existing_count
        for compiled, indexes, counts in placement.log:
            on_claims = [entry for entry in zip(indexes, counts, strict=True) if entry[0] >= first]
            if on_claims:
                self._remove_pods(compiled, *np.array(on_claims).T)
        self._drop_claims()

    def _remove_pods(self, compiled: CompiledClass, indexes: Ints, counts: Ints) -> None:
        """Reverse ``NodeArrays.add_pods``, except for host ports."""
        self.problem.nodes.used[:, indexes] -= compiled.requests[:, None] * counts
        for group in compiled.hostname_groups:
            group.add_to_nodes(indexes, -counts)
        for rule, _ in compiled.hostname_rules:
            rule.add_owners_to_nodes(indexes, -counts)

    def _drop_claims(self) -> None:
        """Remove all new claims and clear the log."""
        nodes, placement = self.problem.nodes, self.problem.placement
        del nodes.port_bits[nodes.existing_count :]
        nodes.count = nodes.existing_count
        nodes.invalidate_fitting()
        placement.log = []
        placement.relaxed_min_values.clear()

    def _save(self, classes: Sequence[PodClass]) -> None:
        """Save what ``place`` changes and the log does not record."""
        problem = self.problem
        groups: dict[int, TopologyGroup] = {}
        for pod_class in classes:
            for level in range(len(problem.relaxed_specs[id(pod_class)])):
                compiled = self.placer.compile_class(pod_class, level)
                for group in (*compiled.domain_groups, *(r.group for r, _ in compiled.domain_rules)):
                    groups[id(group)] = group
        self._counts = [(group, dict(group.counts)) for group in groups.values()]
        self._owners = [(rule, dict(rule.owners)) for group in groups.values() for rule in group.rules]
        self._ports = list(problem.nodes.port_bits)
        volumes = [problem.volumes_by_class[id(pod_class)] for pod_class in classes]
        drivers = {driver for constraint in volumes for driver in constraint.claims_by_driver}
        attached = problem.placement.attached_volumes
        self._attached = {driver: [set(claims) for claims in attached[driver]] for driver in drivers}

    def _count_running(self, running: RunningPods, removed: Sequence[int], sign: int) -> None:
        """Remove pods from (-1) or add them to (1) the counts of their nodes."""
        if not running:
            return
        problem = self.problem
        nodes = [problem.nodes.existing_nodes[index] for index in removed]
        counts = {
            key: {name: sign * count for name, count in by_node.items()} for key, by_node in running.items()
        }
        index_by_name = {node.name: index for node, index in zip(nodes, removed, strict=True)}
        count_running_pods(counts, problem.topology, nodes, index_by_name)

    def _released_limits(self, pool: int, removed: Sequence[int]) -> Floats:
        """Return [names]: limits of a pool that removed nodes release."""
        headroom, nodes = self.problem.placement.limit_headrooms[pool], self.problem.nodes
        name = self.problem.tables[pool].pool.name
        released = np.zeros(len(headroom.names))
        for index in removed:
            node = nodes.existing_nodes[index]
            if node.pool == name:
                capacity = node.effective_capacity()
                released += [float(capacity.get(resource, 0)) for resource in headroom.names]
        return released
