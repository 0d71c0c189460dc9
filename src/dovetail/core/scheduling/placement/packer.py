"""Finding hosts for the pods of one class, in one cell.

In this order: nodes that exist; room on claims that are open; claims that can
grow into a larger type; new claims. What the last two cost decides between them,
unless the user asked for the fewest nodes.
"""

from copy import copy

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.topology import Kind
from dovetail.core.scheduling.placement.new_claims import Opener
from dovetail.core.scheduling.placement.state import Board
from dovetail.core.scheduling.placement.upsize import Grower

_DEARER = 1.08
"""A gap is not worth turning a claim into one that costs this much more."""
_ANY_PRICE = 1e18
_FEW = 8
"""Pods that are placed by looking at claims one by one."""
_LOOKED_AT = 32


class Packer:
    """Places pods on hosts."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._grower = Grower(board)
        self._opener = Opener(board)

    def place(self, want: Want, ask: int, count: int, *, open_new: bool = True) -> int:
        """Place up to ``count`` pods; returns how many found a host."""
        self.board.hosts.measure(want.size)
        if want.needs_company:
            return self._join_company(want, ask, count, open_new=open_new)
        placed = self.existing(want, ask, count)
        if placed < count:
            placed += self.gaps(want, ask, count - placed)
        if placed < count and open_new:
            placed += self.buy(want, ask, count - placed)
        return placed

    def buy(self, want: Want, ask: int, count: int) -> int:
        """Grow claims or open new ones, whichever is better."""
        if self.board.fewest:
            placed = self._grower.grow(want, ask, count, _ANY_PRICE)
            return placed + self._opener.open(want, ask, count - placed)
        placed = 0
        while placed < count:
            best = self._opener.best(want, ask, count - placed)
            limit = best.cost_per_pod if best else _ANY_PRICE
            grown = self._grower.grow(want, ask, count - placed, limit)
            placed += grown
            opened = self._opener.open(want, ask, count - placed, once=True)
            placed += opened
            if not opened and not grown:
                break
        return placed

    def expect(self, load: Floats) -> None:
        """Give every open claim a type that holds its share of the load still to come."""
        self._grower.expect(load)

    def existing(self, want: Want, ask: int, count: int) -> int:
        """Use nodes that are there already."""
        hosts = self.board.hosts
        if not hosts.existing:
            return 0
        fine = hosts.welcoming(ask) & (hosts.headroom[: hosts.existing] >= 1)
        candidates = np.flatnonzero(fine)
        if not len(candidates):
            return 0
        room = self.board.room(want, candidates, None)
        return self._take(want, candidates, room, None, count)

    def gaps(self, want: Want, ask: int, count: int) -> int:
        """Fill claims without making them larger."""
        hosts = self.board.hosts
        first, end = hosts.existing, hosts.count
        candidates = (hosts.headroom[first:end] >= 1).nonzero()[0] + first
        if not len(candidates):
            return 0
        targets = self.board.space.targets(ask)
        start = int(candidates.searchsorted(self.board.cursor))
        placed, width = 0, self.board.window
        if count <= _FEW and not self.board.picky and not want.ports:
            placed = self._fill_few(want, targets, candidates[start : start + _LOOKED_AT], count)
        for part in (candidates[start:], candidates[:start]):
            at = 0
            while at < len(part) and placed < count:
                window = part[at : at + width]
                at, width = at + width, width * 4
                window, states = self._worth_joining(window, targets)
                if len(window):
                    room = self.board.room(want, window, states)
                    placed += self._take(want, window, room, states, count - placed)
            if placed >= count:
                break
        return placed

    def _fill_few(self, want: Want, targets: Ints, candidates: Ints, count: int) -> int:
        """Look at some claims one by one: for a few pods that is quicker than by arrays."""
        board, hosts, cost = self.board, self.board.hosts, self.board.space.cost
        placed = 0
        for claim in candidates.tolist():
            before = hosts.state.item(claim)
            after = targets.item(before)
            if not after:
                continue
            if after != before:
                row = hosts.nominal.item(claim)
                most = _ANY_PRICE if board.fewest else cost.item(before, row) * _DEARER
                if cost.item(after, row) > min(most, _ANY_PRICE):
                    continue
            room = board.room_on(want, claim)
            if room < 1:
                continue
            hosts.state[claim] = after
            board.put_one(want, claim, min(room, count - placed))
            placed += min(room, count - placed)
            if placed == count:
                board.cursor = claim
                break
        return placed

    def _worth_joining(self, claims: Ints, targets: Ints) -> tuple[Ints, Ints]:
        """Keep the claims whose nominal type survives, at about the same price."""
        hosts, cost = self.board.hosts, self.board.space.cost
        before = hosts.state[claims]
        after = targets[before]
        alive = after.nonzero()[0]
        if len(alive) < len(claims):
            claims, before, after = claims[alive], before[alive], after[alive]
        if not (before != after).any():
            return claims, after
        rows = hosts.nominal[claims]
        most = (
            _ANY_PRICE
            if self.board.fewest
            else np.minimum(cost[before, rows] * _DEARER, _ANY_PRICE)
        )
        fine = (cost[after, rows] <= most).nonzero()[0]
        return claims[fine], after[fine]

    def _take(self, want: Want, hosts: Ints, room: Floats, states: Ints | None, count: int) -> int:
        """Use hosts in the order given, each up to its room."""
        usable = (room >= 1).nonzero()[0]
        if not len(usable):
            return 0
        if len(usable) < len(hosts):
            hosts, room = hosts[usable], room[usable]
            states = None if states is None else states[usable]
        filled = room.cumsum()
        enough = int(filled.searchsorted(count))
        if enough < len(hosts):
            hosts, room = hosts[: enough + 1], room[: enough + 1].copy()
            states = None if states is None else states[: enough + 1]
            room[-1] -= filled[enough] - count
        counts = room.astype(np.int64)
        if states is not None:
            self.board.hosts.state[hosts] = states
            self.board.cursor = int(hosts[-1])
        self.board.put(want, hosts, counts)
        return int(counts.sum())

    def _join_company(self, want: Want, ask: int, count: int, *, open_new: bool) -> int:
        """Place pods that must share a host with certain others."""
        rules = [one for one in want.host_rules if one.rule.kind is Kind.AFFINITY]
        placed = self.existing(want, ask, count)
        placed += self.gaps(want, ask, count - placed) if placed < count else 0
        if placed < count:
            placed += self._grower.grow(want, ask, count - placed, _ANY_PRICE)
        lonely = all(one.own and not one.rule.counter.matched.any() for one in rules)
        if placed == count or not lonely:
            return placed
        # Nobody of their kind runs anywhere: the first may choose, the others follow.
        quiet = self._without_company(want)
        first = self._best_start(quiet, ask, count, open_new=open_new)
        if not first:
            return placed
        return placed + first + self._join_rest(want, ask, count - placed - first)

    def _join_rest(self, want: Want, ask: int, count: int) -> int:
        if count <= 0:
            return 0
        placed = self.existing(want, ask, count)
        placed += self.gaps(want, ask, count - placed) if placed < count else 0
        return placed + (
            self._grower.grow(want, ask, count - placed, _ANY_PRICE) if placed < count else 0
        )

    @staticmethod
    def _without_company(want: Want) -> Want:
        quiet = copy(want)
        quiet.host_rules = [o for o in want.host_rules if o.rule.kind is not Kind.AFFINITY]
        quiet.needs_company = False
        return quiet

    def _best_start(self, want: Want, ask: int, count: int, *, open_new: bool) -> int:
        """Put the first pods where most of them can be together."""
        hosts = self.board.hosts
        fine = (
            np.flatnonzero(hosts.welcoming(ask) & (hosts.headroom[: hosts.existing] >= 1))
            if hosts.existing
            else np.zeros(0, dtype=np.int64)
        )
        if len(fine):
            room = self.board.room(want, fine, None)
            best = int(np.argmax(np.minimum(room, count)))
            if room[best] >= 1:
                return self._take(want, fine[best : best + 1], room[best : best + 1], None, count)
        if not open_new:
            return 0
        best_new = self._opener.best(want, ask, count, together=True)
        if best_new is None:
            return 0
        return self._opener.open_as(want, best_new, best_new.pods)
