"""Which pods are to leave their nodes, shared by who wants them gone and who asks them."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from dovetail.model.pods import Pod

PodKey = tuple[str, str, str]
"""Namespace, name and uid: a new pod under an old name is somebody else."""


class Eviction(msgspec.Struct, kw_only=True):
    """A pod that is to go."""

    node: str
    deadline: datetime | None = None
    """When it must have gone, whatever it or its budgets say."""
    attempts: int = 0
    """How often in a row it could not be evicted."""


class Evictions:
    """Pods that are to go, kept in memory only: draining adds them again after a restart."""

    def __init__(self) -> None:
        self._wanted: dict[PodKey, Eviction] = {}
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

    def drop(self, key: PodKey) -> None:
        """Want nothing of a pod any more: it goes, or has gone."""
        self._wanted.pop(key, None)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._wanted
