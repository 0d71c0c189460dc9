"""Pods that wait for a node: those to look at now, and those that were refused."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import Engine
from dovetail.simulator.scheduler.equivalence import PodClass, Read
from dovetail.simulator.workqueue import Desk

Group = tuple[PodClass, str]
"""Pods that are refused or placed alike: their class, and the one node they may ask for."""

_FIRST_BACK_OFF: Final = timedelta(seconds=1)
_LONGEST_BACK_OFF: Final = timedelta(seconds=10)
_LOOK_AGAIN: Final = timedelta(minutes=5)
"""After so long refused pods are tried again, whether something changed or not."""


class Entry:
    """One pod that waits."""

    __slots__ = (
        "key",
        "labels",
        "nominated",
        "number",
        "priority",
        "read",
        "spec",
        "told",
        "uid",
    )

    def __init__(self, pod: Object, read: Read, *, priority: int, number: int) -> None:
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.key: tuple[str, str] = (meta["name"], meta["namespace"])
        self.spec = pod["spec"]
        self.labels = meta.get("labels")
        self.nominated = nominated_node(pod)
        self.read = read
        self.priority = priority
        self.number = number
        """The order in which pods came."""
        self.told: frozenset[str] | None = None
        """Why it was refused, as its condition says."""

    @property
    def group(self) -> Group:
        return self.read.kind, self.read.only_node

    @property
    def turn(self) -> tuple[int, int]:
        return -self.priority, self.number


def nominated_node(pod: Object) -> str:
    """Return the node that somebody has said a pod is to go to; it is tried first."""
    name: str = pod["status"].get("nominatedNodeName") or ""
    return name


class Refused:
    """A group of pods for which there was no node."""

    __slots__ = ("attempts", "entries", "message", "reasons", "tried", "version")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.attempts = 0
        self.tried: datetime | None = None
        self.message = ""
        self.reasons: frozenset[str] = frozenset()
        self.version = -1
        """As of which state of the cluster they were refused."""


class Queue:
    """Orders waiting pods by priority, then age; lets refused ones come back."""

    def __init__(self, engine: Engine, work: Callable[[], None]) -> None:
        self._engine = engine
        self._work = Desk[None](engine, lambda _: work())
        self._return = Desk[Group](engine, self._come_back)
        self.waiting: dict[str, Entry] = {}
        self._active: dict[str, Entry] = {}
        self.refused: dict[Group, Refused] = {}

    def add(self, entry: Entry) -> None:
        """Have a pod looked at, in its turn."""
        self.waiting[entry.uid] = entry
        self._active[entry.uid] = entry
        self._work.ask(None)

    def remove(self, uid: str) -> Entry | None:
        """Take a pod out, wherever it waits."""
        entry = self.waiting.pop(uid, None)
        if entry is None:
            return None
        self._active.pop(uid, None)
        known = self.refused.get(entry.group)
        if known is not None and uid in known.entries:
            del known.entries[uid]
            if not known.entries:
                self._forget(entry.group)
        return entry

    def take_turns(self) -> Iterable[Entry]:
        """Hand out the pods to look at, each in its turn; those removed meanwhile are left out."""
        batch = sorted(self._active.values(), key=lambda one: one.turn)
        self._active = {}
        for entry in batch:
            if entry.uid in self.waiting:
                yield entry

    def refuse(self, entry: Entry, *, message: str, reasons: frozenset[str], version: int) -> None:
        """Put a pod aside until something changes that may help."""
        known = self.refused.setdefault(entry.group, Refused())
        known.entries[entry.uid] = entry
        self._return.ask(entry.group, after=_LOOK_AGAIN)
        if known.version == version:
            return
        if known.tried != self._engine.now():
            known.attempts += 1
            known.tried = self._engine.now()
        known.message, known.reasons, known.version = message, reasons, version

    def wake(self, group: Group) -> None:
        """Let a group be tried again, at once or when it has waited long enough."""
        known = self.refused[group]
        back_off = min(_FIRST_BACK_OFF * 2 ** min(known.attempts - 1, 10), _LONGEST_BACK_OFF)
        now = self._engine.now()
        due = now if known.tried is None else known.tried + back_off
        self._return.ask(group, after=max(due - now, timedelta()))

    def _come_back(self, group: Group) -> None:
        known = self.refused.get(group)
        if known is not None:
            self._active.update(known.entries)
            self._work.ask(None)

    def _forget(self, group: Group) -> None:
        del self.refused[group]
        self._return.forget(group)
