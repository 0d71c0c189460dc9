"""Which refused pods a change may help: only those are tried again."""

import numpy as np

from dovetail.simulator.clock import Engine
from dovetail.simulator.scheduler.equivalence import PodClass, Read
from dovetail.simulator.scheduler.framework import Judge
from dovetail.simulator.scheduler.interpod_filters import spread_choice
from dovetail.simulator.scheduler.node_table import Ints
from dovetail.simulator.scheduler.pod_counts import Chosen, Counting, chosen_by
from dovetail.simulator.scheduler.queue import Group, Queue
from dovetail.simulator.workqueue import Desk


class _News:
    """What has changed since it was last looked at."""

    __slots__ = ("came", "domains", "slots", "storage", "went")

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.came: dict[PodClass, None] = {}
        self.went: dict[PodClass, None] = {}
        self.domains = False
        self.storage = False


class Hints:
    """Wakes refused groups, and knows since when nothing has changed for a class.

    Changes are gathered and looked at together, in an event of their own at the
    same instant: a thousand pods that go at once wake each group once.
    """

    def __init__(self, engine: Engine, queue: Queue, judge: Judge, counting: Counting) -> None:
        self._queue = queue
        self._judge = judge
        self._counting = counting
        self._desk = Desk[None](engine, lambda _: self._look())
        self._freed = 0
        """Grows with every change that may make room."""
        self._placed = 0
        """Grows with every pod that gets a node."""
        self._news = _News()

    def version(self, kind: PodClass) -> int:
        """Return a number that stays while a class that was refused would be refused again."""
        # More pods on nodes can only help those that look at other pods.
        return self._freed if kind.is_lonely else -2 - self._freed - self._placed

    def node_changed(self, slot: int, *, new_labels: bool) -> None:
        """Tell of a node that is new or has changed."""
        self._news.slots.add(slot)
        self._news.domains |= new_labels
        self._room_made()

    def domains_changed(self) -> None:
        """Tell of a node that is gone, or of rules that reach other pods than before."""
        self._news.domains = True
        self._room_made()

    def storage_changed(self) -> None:
        self._news.storage = True
        self._room_made()

    def pod_went(self, kind: PodClass, slot: int | None) -> None:
        """Tell of a pod that is gone from a slot, or (None) about to go and no longer counted."""
        if slot is not None:
            self._news.slots.add(slot)
        self._news.went[kind] = None
        self._room_made()

    def room_made(self, slot: int) -> None:
        """Tell of room on a node that is no longer kept for somebody."""
        self._news.slots.add(slot)
        self._room_made()

    def placed(self, kind: PodClass) -> None:
        """Tell of a pod that has got a node."""
        self._placed += 1
        if self._queue.refused:
            self._news.came[kind] = None
            self._desk.ask(None)

    def _room_made(self) -> None:
        self._freed += 1
        if self._queue.refused:
            self._desk.ask(None)

    def _look(self) -> None:
        news, self._news = self._news, _News()
        slots = np.fromiter(news.slots, dtype=np.int64)
        for group in tuple(self._queue.refused):
            if self._helps(news, slots, group):
                self._queue.wake(group)

    def _helps(self, news: "_News", slots: Ints, group: Group) -> bool:
        kind, spec = group[0], group[0].spec
        return (
            (news.domains and not kind.is_lonely)
            or (news.storage and bool(spec.volumes))
            or self._judge.could_help(Read(*group), slots)
            or any(self._looks_at(kind, one) for one in (*news.came, *news.went))
            or any(self._avoids(one, kind) for one in news.went)
        )

    def _looks_at(self, kind: PodClass, other: PodClass) -> bool:
        if kind.is_lonely:
            return False
        return any(self._counting.matches(one, other) for one in _choices(kind))

    def _avoids(self, kind: PodClass, other: PodClass) -> bool:
        terms = kind.spec.anti_affinity
        own = kind.namespace
        return any(self._counting.matches(chosen_by(one, own), other) for one in terms)


def _choices(kind: PodClass) -> list[Chosen]:
    spec = kind.spec
    terms = (*spec.affinity, *spec.anti_affinity)
    return [
        *(chosen_by(one, kind.namespace) for one in terms),
        *(spread_choice(kind, one) for one in spec.spreads if one.required),
    ]
