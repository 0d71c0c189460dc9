"""The same question for every node at once: who has to stay, from arrays alone.

In a cluster that is well filled nearly every node's pods need a new node that
costs as much. Asked one by one that takes most of a pass; here hundreds of
nodes are asked together, each with its own copy of the room that others have.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from dovetail.core.disruption.consolidation.estimate import NEVER, Guess, QuickLook
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints

_WINDOW: Final = 32
"""So many hosts with room are looked at for pods of a kind; who needs more is asked alone."""
_AT_A_TIME: Final = 2**20
"""So many numbers the copies of one round may have."""


class Sweep:
    """Finds what would have to be bought for each host's pods if it alone were gone."""

    def __init__(self, quick: QuickLook) -> None:
        self._quick = quick
        kinds = [quick.with_room(kind) for kind in range(len(quick.sizes))]
        seen = np.unique(np.concatenate([np.zeros(0, int), *(some[:_WINDOW] for some in kinds)]))
        self._hosts: Ints = seen.astype(np.int64)
        # One more column, without any room, for kinds that have fewer hosts than others.
        self._columns: Ints = np.full((len(kinds), _WINDOW), len(seen), dtype=np.int64)
        for kind, some in enumerate(kinds):
            self._columns[kind, : len(some[:_WINDOW])] = seen.searchsorted(some[:_WINDOW])
        self._more: Bools = np.array([len(some) > _WINDOW for some in kinds], dtype=bool)
        asked = quick.sizes > 0
        self._divisors: Floats = np.where(asked, quick.sizes, 1.0)
        self._ignored: Floats = np.where(asked, 0.0, np.inf)
        self._starting: Bools = np.isin([*self._hosts, -1], sorted(quick.starts))

    def guesses(self, hosts: Sequence[int]) -> dict[int, Guess]:
        """Return the answer for hosts, as far as it is clear without the places of pods.

        It is what ``QuickLook.ask`` says, without places and, where a node that is
        starting is needed, without a price. Left out are plain hosts whose pods all
        find a place: there the places are the answer.
        """
        found: dict[int, Guess] = {}
        wide = max(1, (len(self._hosts) + 1) * self._quick.sizes.shape[1])
        step = max(1, _AT_A_TIME // wide)
        for first in range(0, len(hosts), step):
            found.update(self._round(hosts[first : first + step]))
        return found

    def _round(self, hosts: Sequence[int]) -> Iterator[tuple[int, Guess]]:
        left, unclear, starting = self._left(hosts)
        for row in np.flatnonzero(starting >= 0).tolist():
            yield hosts[row], Guess(NEVER, [], starting=int(starting[row]))
        clear = ~unclear & (starting < 0)
        for row in np.flatnonzero(~left.any(axis=1) & clear).tolist():
            if not self._quick.knows([hosts[row]]):
                yield hosts[row], Guess(0.0, [])
        alike: dict[tuple[int, ...], list[int]] = {}
        for row in np.flatnonzero(left.any(axis=1) & clear).tolist():
            theirs = {self._quick.asks[kind] for kind in np.flatnonzero(left[row]).tolist()}
            alike.setdefault(tuple(sorted(theirs)), []).append(row)
        for asks, rows in alike.items():
            for row, guess in zip(
                rows, self._quick.prices(asks, left[rows] @ self._quick.sizes), strict=True
            ):
                if guess.price != NEVER:
                    yield hosts[row], guess

    def _left(self, hosts: Sequence[int]) -> tuple[Floats, Bools, Ints]:
        """Return how many pods of each kind find no place, for each who asks.

        And whose answer is not clear, and who needs which host that is starting.
        """
        quick = self._quick
        wanted = self._wanted(hosts)
        room = self._room(hosts)
        unclear = np.zeros(len(hosts), dtype=bool)
        starting: Ints = np.full(len(hosts), -1)
        left = np.zeros_like(wanted)
        order = self._order(wanted)
        for turn in range(int((wanted > 0).sum(axis=1).max(initial=0))):
            kinds = order[:, turn]
            asking = np.flatnonzero(wanted[np.arange(len(hosts)), kinds])
            kinds = kinds[asking]
            many = wanted[asking, kinds]
            columns = self._columns[kinds]
            rows = asking[:, None]
            free = room[rows, columns]
            fits = free / self._divisors[kinds][:, None] + self._ignored[kinds][:, None]
            slots = np.floor(np.maximum(fits.min(axis=2), 0.0))
            before = slots.cumsum(axis=1) - slots
            taken = np.clip(many[:, None] - before, 0.0, slots)
            room[rows, columns] = free - taken[:, :, None] * quick.sizes[kinds][:, None]
            rest = many - taken.sum(axis=1)
            left[asking, kinds] = rest
            needed = (taken > 0) & self._starting[columns]
            new = needed.any(axis=1) & ~unclear[asking] & (starting[asking] < 0)
            first = columns[new, needed[new].argmax(axis=1)]
            starting[asking[new]] = self._hosts[first]
            unclear[asking] |= (rest > 0) & self._more[kinds]
        return left, unclear, starting

    def _wanted(self, hosts: Sequence[int]) -> Floats:
        wanted = np.zeros((len(hosts), len(self._quick.sizes)))
        for row, host in enumerate(hosts):
            for kind, count in self._quick.counts([host]).items():
                wanted[row, kind] = count
        return wanted

    def _room(self, hosts: Sequence[int]) -> Floats:
        """Return [who asks, host, resource]: what is free as each of them sees it."""
        free = self._quick.base[:, self._hosts].T
        nothing = np.full((1, free.shape[1]), -1.0)
        room = np.repeat(np.concatenate([free, nothing])[None], len(hosts), axis=0)
        own = self._hosts.searchsorted(hosts)
        for row, (host, column) in enumerate(zip(hosts, own.tolist(), strict=True)):
            if column < len(self._hosts) and self._hosts[column] == host:
                room[row, column] = -1.0
        return room

    def _order(self, wanted: Floats) -> Ints:
        """Return each one's kinds, largest first by their share of what it asks for."""
        sizes = self._quick.sizes
        total = np.maximum(wanted @ sizes, 1.0)
        share = (sizes[None] / total[:, None]).sum(axis=2)
        order: Ints = np.argsort(np.where(wanted > 0, -share, np.inf), axis=1, kind="stable")
        return order
