"""Where pods that ask for the same can run as far as nodes go, and how good each is.

Kept from pod to pod: only nodes that changed since are judged again, so that
the next pod of a deployment costs next to nothing.
"""

from typing import Final

import numpy as np

from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.interpod_filters import Floats
from dovetail.simulator.scheduler.node_filters import Selecting, Tolerating
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeTable
from dovetail.simulator.scheduler.scoring import Scoring

CLOSED: Final = -np.inf


class Local:
    """Scores of all nodes by labels, taints and room; ``CLOSED`` where one of them forbids."""

    def __init__(
        self,
        table: NodeTable,
        scoring: Scoring,
        kind: PodClass,
        selecting: Selecting,
        tolerating: Tolerating,
    ) -> None:
        self._table = table
        self._scoring = scoring
        self._kind = kind
        self.selecting = selecting
        self.tolerating = tolerating
        for name, _ in kind.requests:
            table.need(name)
        self._scores: Floats = np.zeros(0)
        self._seen = 0

    @property
    def scores(self) -> Floats:
        """The score of each slot, for reading only."""
        changed = self._table.changed_since(self._seen)
        self._seen = self._table.touches
        if changed is None or len(self._scores) != len(self._table.facts):
            self._scores = np.full(len(self._table.facts), CLOSED)
            changed = np.flatnonzero(self._table.there)
        if changed.size:
            self._scores[changed] = self._judged(changed)
        return self._scores

    def short(self, slots: Ints) -> Bools:
        """Return on which of some slots too little of something is left."""
        table, short = self._table, np.zeros(len(slots), dtype=np.bool_)
        for name, amount in self._kind.requests:
            short |= table.room[name].values[slots] - table.used[name].values[slots] < amount
        return short

    def _judged(self, slots: Ints) -> Floats:
        closed = self.short(slots) | ~self.selecting.at(slots) | self.tolerating.refuses(slots)
        return np.where(closed, CLOSED, self._scoring.room_scores(self._kind, slots))
