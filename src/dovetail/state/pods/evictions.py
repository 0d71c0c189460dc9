"""Which pods are to leave their nodes, shared by who wants them gone and who asks them."""

from collections.abc import Callable
from datetime import datetime
from itertools import islice

import msgspec

from dovetail.model.kube.pod import Pod

PodKey = tuple[str, str, str]
"""Namespace, name and uid: a new pod under an old name is somebody else."""

BudgetKey = tuple[str, str]
"""Namespace and name of a PodDisruptionBudget."""


class Eviction(msgspec.Struct, kw_only=True):
    """A pod that is to go."""

    node: str
    deadline: datetime | None = None
    """When it must have gone, whatever it or its budgets say."""
    attempts: int = 0
    """How often in a row it could not be evicted."""
    kept_by: BudgetKey | None = None
    """The PodDisruptionBudget that refused it last."""


class Evictions:
    """Pods that are to go, kept in memory only: draining adds them again after a restart."""

    def __init__(self) -> None:
        self._wanted: dict[PodKey, Eviction] = {}
        self._kept: dict[BudgetKey, dict[PodKey, None]] = {}
        self._listeners: list[Callable[[PodKey], None]] = []

    def subscribe(self, listener: Callable[[PodKey], None]) -> None:
        """Have a listener told of every pod that is wanted gone, or gone sooner."""
        self._listeners.append(listener)
        for key in self._wanted:
            listener(key)

    def add(self, pod: Pod, *, deadline: datetime | None) -> None:
        """Want a pod gone. Of several deadlines the earliest stands.

        Says nothing new to listeners unless there is something new: whoever
        was refused an eviction waits a while, and keeps waiting.
        """
        key = (pod.namespace, pod.name, pod.uid)
        known = self._wanted.get(key)
        if known is None:
            self._wanted[key] = Eviction(node=pod.node_name, deadline=deadline)
        elif deadline is not None and (known.deadline is None or deadline < known.deadline):
            known.deadline = deadline
        else:
            return
        for listener in self._listeners:
            listener(key)

    def get(self, key: PodKey) -> Eviction | None:
        return self._wanted.get(key)

    def keep(self, key: PodKey, budget: BudgetKey) -> None:
        """Note which budget refused a pod's eviction."""
        wanted = self._wanted[key]
        if wanted.kept_by != budget:
            self._let_go(key, wanted)
            wanted.kept_by = budget
            self._kept.setdefault(budget, {})[key] = None

    def kept_by(self, budget: BudgetKey, most: int) -> list[PodKey]:
        """Return some of the pods that a budget refused, those first who have waited longest."""
        return list(islice(self._kept.get(budget, ()), most))

    def drop(self, key: PodKey) -> None:
        """Want nothing of a pod any more: it goes, or has gone."""
        wanted = self._wanted.pop(key, None)
        if wanted is not None:
            self._let_go(key, wanted)

    def _let_go(self, key: PodKey, wanted: Eviction) -> None:
        if wanted.kept_by is None:
            return
        others = self._kept[wanted.kept_by]
        del others[key]
        if not others:
            del self._kept[wanted.kept_by]
