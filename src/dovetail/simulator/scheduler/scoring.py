"""Node scores with kube-scheduler's default weights.

Each plugin gives 0 to 100; the total is the weighted sum.
"""

from typing import Final

import numpy as np

from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.interpod_filters import Floats, InterPodFilters
from dovetail.simulator.scheduler.node_table import Ints, NodeColumn, NodeTable

MAX_SCORE: Final = 100.0
# Weights of the score plugins, as in kube-scheduler.
_LEAST_ALLOCATED: Final = 1
_BALANCED: Final = 1
_TAINTS: Final = 3
_NODE_AFFINITY: Final = 2
_SPREAD: Final = 2
_POD_AFFINITY: Final = 2


class Scoring:
    """Scores nodes for a pod class."""

    def __init__(self, table: NodeTable, interpod_filters: InterPodFilters) -> None:
        self._table = table
        self._interpod_filters = interpod_filters
        table.ensure_resource(CPU)
        table.ensure_resource(MEMORY)
        self.scoring_cpu: NodeColumn = table.column()
        """Sum of the scoring requests of the pods on each node."""
        self.scoring_memory: NodeColumn = table.column()

    def preference_scores(
        self, pod_class: PodClass, slots: Ints, *, prefer_no_schedule: Ints | None, preferred: Ints | None
    ) -> Floats:
        """Return the scores of the slots by preferences; larger is better."""
        scores = np.zeros(len(slots))
        if prefer_no_schedule is not None:
            prefer_no_schedule = prefer_no_schedule[slots]
            scores += _TAINTS * (
                MAX_SCORE - prefer_no_schedule * MAX_SCORE // max(1, prefer_no_schedule.max())
            )
        if preferred is not None:
            weights = preferred[slots]
            scores += _NODE_AFFINITY * (weights * MAX_SCORE // max(1, weights.max()))
        penalties = self._interpod_filters.spread_penalties(pod_class, slots)
        if penalties is not None and penalties.max() > 0:
            highest, lowest = penalties.max(), penalties.min()
            scores += _SPREAD * (MAX_SCORE * (highest + lowest - penalties) // highest)
        affinity = self._interpod_filters.affinity_scores(pod_class)
        if affinity is not None:
            affinity_at_slots = affinity[slots]
            lowest, highest = affinity_at_slots.min(), affinity_at_slots.max()
            if highest > lowest:
                scores += _POD_AFFINITY * (MAX_SCORE * (affinity_at_slots - lowest) // (highest - lowest))
        return scores

    def has_preferences(self, pod_class: PodClass) -> bool:
        """Return True if a class has preferences, or running pods prefer it."""
        spec = pod_class.spec
        return (
            bool(spec.preferred_affinity or spec.preferred_anti_affinity)
            or any(not spread.required for spread in spec.spreads)
            or self._interpod_filters.is_preferred_by_pods(pod_class)
        )

    def resource_scores(self, pod_class: PodClass, slots: Ints) -> Floats:
        """Return LeastAllocated and BalancedAllocation scores of the slots."""
        table = self._table
        cpu, memory = table.allocatable[CPU].values[slots], table.allocatable[MEMORY].values[slots]
        free = _free_percent(cpu, self.scoring_cpu.values[slots] + pod_class.scoring_requests[0])
        free += _free_percent(memory, self.scoring_memory.values[slots] + pod_class.scoring_requests[1])
        requests = pod_class.spec.requests
        cpu_utilization = _utilization(cpu, table.requested[CPU].values[slots] + requests.get(CPU, 0))
        memory_utilization = _utilization(
            memory, table.requested[MEMORY].values[slots] + requests.get(MEMORY, 0)
        )
        imbalance = np.abs(cpu_utilization - memory_utilization) / 2
        balanced = np.floor((1 - imbalance) * MAX_SCORE)
        total: Floats = _LEAST_ALLOCATED * np.floor(free / 2) + _BALANCED * balanced
        return total


def _free_percent(allocatable: Ints, requested: Ints) -> Floats:
    """Return the percentage that stays free; 0 if overcommitted."""
    free = np.maximum(allocatable - requested, 0)
    percent: Floats = np.floor(free * MAX_SCORE / np.maximum(allocatable, 1))
    return percent


def _utilization(allocatable: Ints, requested: Ints) -> Floats:
    utilization: Floats = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
    return utilization
