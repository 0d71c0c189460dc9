"""Value of pods: their share of the cheapest fleet's cost, by a linear program.

The waste of a node is its cost minus the value of its pods: an upper bound of what
replacing the node can save, alone or with others.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.types import Floats
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, LinearProgram
from dovetail.model.kube.pod import Pod


class PodValues:
    """Value of pods, as if nodes were divisible."""

    def __init__(self, simulation: SchedulingSimulation) -> None:
        self._simulation = simulation
        self._problem = simulation.problem
        totals: dict[tuple[int, ...], Floats] = {}
        states: list[tuple[int, ...]] = []
        for pod_class in simulation.trial.classes:
            compiled = simulation.trial.placer.compile_class(pod_class, 0)
            states.append(self._get_states(compiled.constraint))
        counts = [0] * len(states)
        for pods_by_class in simulation.pods_by_node.values():
            for index, pods in pods_by_class.items():
                counts[index] += len(pods)
        for index, count in enumerate(counts):
            if count:
                total = totals.setdefault(states[index], np.zeros(len(self._problem.resource_names)))
                total += self._get_requests(index) * count
        values = {key: self._price_resources(key, total) for key, total in sorted(totals.items())}
        self._class_values = [
            float(values[key] @ self._get_requests(index)) if key in values else 0.0
            for index, key in enumerate(states)
        ]
        self._node_values: dict[int, float] = {}

    def get_waste(self, candidate: Candidate) -> float:
        """Return an upper bound of what replacing a node can save, in USD per hour."""
        return candidate.cost - self.get_node_value(self._simulation.node_indexes[candidate.name])

    def get_values(self, name: str) -> Iterator[tuple[float, Sequence[Pod]]]:
        """Yield the pods of a node by class, with the value of each pod in USD per hour."""
        node = self._simulation.node_indexes[name]
        for index, pods in self._simulation.pods_by_node.get(node, {}).items():
            yield self._class_values[index], pods

    def get_node_value(self, node: int) -> float:
        """Return the value of a node's pods in USD per hour; cached."""
        value = self._node_values.get(node)
        if value is None:
            pods_by_class, values = self._simulation.pods_by_node.get(node, {}), self._class_values
            value = sum([values[index] * len(pods) for index, pods in pods_by_class.items()])
            self._node_values[node] = value
        return value

    def _get_requests(self, index: int) -> Floats:
        return self._simulation.trial.placer.compile_class(self._simulation.trial.classes[index], 0).requests

    def _get_states(self, constraint: int) -> tuple[int, ...]:
        """Return the states of new claims that satisfy a node constraint."""
        space = self._problem.space
        states = {space.narrow(root, constraint) for root in space.roots}
        return tuple(sorted(states - {INFEASIBLE}))

    def _price_resources(self, states: tuple[int, ...], total: Floats) -> Floats:
        """Return dual prices of resources: no node holds more value than its price.

        ``total`` are the requests of all pods that fit these states: [resources].
        """
        space = self._problem.space
        allocatable, prices = [], []
        for state in states:
            table = space.tables[space.states[state].pool]
            cost = space.cost[state][: len(table.rows)] - table.premium
            is_usable = np.isfinite(cost) & (table.alloc >= 0).all(axis=1)
            allocatable.append(table.alloc[is_usable])
            prices.append(cost[is_usable])
        values = np.zeros(len(total))
        is_requested = total > 0
        if not sum(map(len, allocatable)) or not is_requested.any():
            return values
        # Share of the total requests that one node of each type holds: [types, resources].
        shares = np.vstack(allocatable)[:, is_requested] / total[is_requested]
        if not (shares > 0).any(axis=0).all():
            return values
        rows = int(is_requested.sum())
        program = LinearProgram(np.ones(rows), np.full(rows, INFINITE))
        program.add_dense_columns(np.concatenate(prices), shares)
        values[is_requested] = np.maximum(program.solve().duals, 0.0) / total[is_requested]
        return values
