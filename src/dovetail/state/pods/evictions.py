"""Pods to evict, shared by drain and the eviction queue."""

from collections.abc import Callable
from datetime import datetime
from itertools import islice

import msgspec

from dovetail.model.kube.pod import Pod

PodKey = tuple[str, str, str]
"""Namespace, name and UID: a recreated pod is another pod."""

BudgetKey = tuple[str, str]
"""Namespace and name of a PodDisruptionBudget."""


class Eviction(msgspec.Struct, kw_only=True):
    """A pod to evict."""

    node: str
    deadline: datetime | None = None
    """When it must be gone, whatever protects it."""
    attempts: int = 0
    """Number of failed evictions in a row."""
    blocked_by: BudgetKey | None = None
    """The PodDisruptionBudget that blocked the last attempt."""


class PendingEvictions:
    """Pods to evict, in memory only: drain adds them again after a restart."""

    def __init__(self) -> None:
        self._evictions: dict[PodKey, Eviction] = {}
        self._blocked: dict[BudgetKey, dict[PodKey, None]] = {}
        self._listeners: list[Callable[[PodKey], None]] = []

    def subscribe(self, listener: Callable[[PodKey], None]) -> None:
        """Call a listener for every pod to evict, and when a deadline becomes earlier."""
        self._listeners.append(listener)
        for key in self._evictions:
            listener(key)

    def add(self, pod: Pod, *, deadline: datetime | None) -> None:
        """Add a pod; of several deadlines the earliest counts.

        Listeners are called only for a new pod or an earlier deadline, so that a
        pod in backoff stays there.
        """
        key = (pod.namespace, pod.name, pod.uid)
        eviction = self._evictions.get(key)
        if eviction is None:
            self._evictions[key] = Eviction(node=pod.node_name, deadline=deadline)
        elif deadline is not None and (eviction.deadline is None or deadline < eviction.deadline):
            eviction.deadline = deadline
        else:
            return
        for listener in self._listeners:
            listener(key)

    def get(self, key: PodKey) -> Eviction | None:
        return self._evictions.get(key)

    def record_blocked(self, key: PodKey, budget: BudgetKey) -> None:
        """Record the PodDisruptionBudget that blocked a pod's eviction."""
        eviction = self._evictions[key]
        if eviction.blocked_by != budget:
            self._unblock(key, eviction)
            eviction.blocked_by = budget
            self._blocked.setdefault(budget, {})[key] = None

    def get_blocked(self, budget: BudgetKey, limit: int) -> list[PodKey]:
        """Return up to ``limit`` pods blocked by a budget, longest blocked first."""
        return list(islice(self._blocked.get(budget, ()), limit))

    def remove(self, key: PodKey) -> None:
        """Remove a pod that terminates or is gone."""
        eviction = self._evictions.pop(key, None)
        if eviction is not None:
            self._unblock(key, eviction)

    def _unblock(self, key: PodKey, eviction: Eviction) -> None:
        if eviction.blocked_by is None:
            return
        blocked = self._blocked[eviction.blocked_by]
        del blocked[key]
        if not blocked:
            del self._blocked[eviction.blocked_by]
