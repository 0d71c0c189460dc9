"""Minimum saving of a command, in proportion to what its evicted pods cost.

A saving lasts until the load changes, an eviction is certain. A command must therefore save
a share of the value of the pods that it moves: the price of the resources that they request.
The share falls with the age of a node, because a load that has lasted for days is likely to
last. A task loses its work and starts again, so that its move pays only if the saving
exceeds what the task itself costs: it is expected to run as long again as it has run.
"""

from datetime import datetime, timedelta
from typing import Final

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.consolidation.pod_values import PodValues
from dovetail.model.kube.pod import Pod

TASK_WEIGHT: Final = 6.0
"""Share that the move of a task must save, relative to other pods."""
_SERVICE_OWNERS: Final = frozenset(("ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet"))
"""Owners whose pods run until they are deleted; all other pods count as tasks."""
_MAX_DAYS: Final = 30
"""Age from which the share falls no further."""


class EvictionPrices:
    """Prices of evictions in USD per hour; of a pass, in which they do not change."""

    def __init__(self, pod_values: PodValues, share: float, now: datetime | None) -> None:
        """``share`` is that of pods on nodes younger than two days."""
        self._pod_values = pod_values
        self._share = share
        self._now = now
        self._prices: dict[str, float] = {}

    def get_price(self, candidate: Candidate) -> float:
        """Return what the removal of a node must save."""
        price = self._prices.get(candidate.name)
        if price is None:
            price = self._prices[candidate.name] = self._compute_price(candidate)
        return price

    def _compute_price(self, candidate: Candidate) -> float:
        services = tasks = 0.0
        for value, pods in self._pod_values.get_values(candidate.name):
            task_count = sum(map(is_task, pods))
            tasks += value * task_count
            services += value * (len(pods) - task_count)
        days = get_age_in_days(candidate, self._now)
        price = TASK_WEIGHT * tasks + (services / max(1, days) if days is not None else 0.0)
        return self._share * price * _get_mean_eviction_cost(candidate)


def is_task(pod: Pod) -> bool:
    """Return True if a pod runs to its end, so that an eviction loses its work."""
    return pod.owner is None or pod.owner.kind not in _SERVICE_OWNERS


def get_age_in_days(candidate: Candidate, now: datetime | None) -> int | None:
    """Return the whole days that a node has existed, up to 30; None: unknown."""
    created = candidate.claim.created
    if created is None or now is None:
        return None
    return min(_MAX_DAYS, (now - created) // timedelta(days=1))


def _get_mean_eviction_cost(candidate: Candidate) -> float:
    """Return the eviction cost of its pods; 1.0 without deletion costs and priorities."""
    count = len(candidate.reschedulable_pods)
    return (candidate.disruption_cost - 1.0) / count if count else 1.0
