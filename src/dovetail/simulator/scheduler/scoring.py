"""Which of the nodes that could take a pod is best: kube-scheduler's defaults.

Each judgement gives 0 to 100; they are added with these weights.
"""

from typing import Final

import numpy as np

from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.interpod_filters import Floats, Neighbours
from dovetail.simulator.scheduler.node_table import Ints, NodeTable, PerSlot

FULL: Final = 100.0
_LEAST_ALLOCATED: Final = 1
_BALANCED: Final = 1
_TAINTS: Final = 3
_NODE_AFFINITY: Final = 2
_SPREAD: Final = 2
_POD_AFFINITY: Final = 2


class Scoring:
    """Compares nodes for a class of pods."""

    def __init__(self, table: NodeTable, neighbours: Neighbours) -> None:
        self._table = table
        self._neighbours = neighbours
        table.need(CPU)
        table.need(MEMORY)
        self.assumed_cpu: PerSlot = table.column()
        """What the pods on each node are taken to use, at the least."""
        self.assumed_memory: PerSlot = table.column()

    def wishes(
        self, kind: PodClass, among: Ints, *, soft_taints: Ints | None, preferred: Ints | None
    ) -> Floats:
        """Return what else than room makes some slots better; larger is better."""
        scores = np.zeros(len(among))
        if soft_taints is not None:
            soft = soft_taints[among]
            scores += _TAINTS * (FULL - soft * FULL // max(1, soft.max()))
        if preferred is not None:
            wished = preferred[among]
            scores += _NODE_AFFINITY * (wished * FULL // max(1, wished.max()))
        costs = self._neighbours.spread_costs(kind, among)
        if costs is not None and costs.max() > 0:
            highest, lowest = costs.max(), costs.min()
            scores += _SPREAD * (FULL * (highest + lowest - costs) // highest)
        wishes = self._neighbours.affinity_wishes(kind)
        if wishes is not None:
            mine = wishes[among]
            lowest, highest = mine.min(), mine.max()
            if highest > lowest:
                scores += _POD_AFFINITY * (FULL * (mine - lowest) // (highest - lowest))
        return scores

    def has_wishes(self, kind: PodClass) -> bool:
        """Tell whether pods of a class are wished to be near others, or wish it."""
        spec = kind.spec
        return (
            bool(spec.preferred_affinity or spec.preferred_anti_affinity)
            or any(not one.required for one in spec.spreads)
            or self._neighbours.is_wished_for(kind)
        )

    def room_scores(self, kind: PodClass, among: Ints) -> Floats:
        """Return how much room is left on some slots, and how evenly."""
        table = self._table
        cpu, memory = table.room[CPU].values[among], table.room[MEMORY].values[among]
        least = _left(cpu, self.assumed_cpu.values[among] + kind.assumed[0])
        least += _left(memory, self.assumed_memory.values[among] + kind.assumed[1])
        asked = kind.spec.requests
        full_cpu = _share(cpu, table.used[CPU].values[among] + asked.get(CPU, 0))
        full_memory = _share(memory, table.used[MEMORY].values[among] + asked.get(MEMORY, 0))
        uneven = np.abs(full_cpu - full_memory) / 2
        balanced = np.floor((1 - uneven) * FULL)
        both: Floats = _LEAST_ALLOCATED * np.floor(least / 2) + _BALANCED * balanced
        return both


def _left(room: Ints, taken: Ints) -> Floats:
    """Return the percentage that stays free; none where too much is asked."""
    free = np.maximum(room - taken, 0)
    percent: Floats = np.floor(free * FULL / np.maximum(room, 1))
    return percent


def _share(room: Ints, taken: Ints) -> Floats:
    share: Floats = np.minimum(taken / np.maximum(room, 1), 1.0)
    return share
