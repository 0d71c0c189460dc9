"""Opening new claims: which pool, which type, how many."""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.placement.state import Board
from dovetail.model.settings import MinValues


class Opening(NamedTuple):
    """The best new claim for a class."""

    state: int
    row: int
    pods: int
    """On one claim."""
    cost_per_pod: float


class Opener:
    """Opens claims for pods that no open one takes."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._known: dict[tuple[int, int, float], Opening | None] = {}

    def open(self, want: Want, ask: int, count: int, *, once: bool = False) -> int:
        placed = 0
        while placed < count:
            best = self.best(want, ask, count - placed)
            if best is None:
                break
            opened = self.open_as(want, best, count - placed)
            placed += opened
            if once or not opened:
                break
        return placed

    def open_as(self, want: Want, best: Opening, count: int) -> int:
        """Open as many claims of one kind as are filled evenly by ``count`` pods."""
        pool = self._board.space.states[best.state].pool
        allowance = self._board.allowances[pool]
        copies = max(1, count // best.pods)
        copies = int(
            min(copies, allowance.copies(best.row), self._board.reservations.left(best.state))
        )
        if copies < 1:
            return 0
        allowance.spend(best.row, copies)
        self._board.reservations.spend(best.state, copies)
        claims = self._board.hosts.open(best.state, best.row, copies)
        if pool in self._board.picky:
            self._note_relaxed(want, best, claims)
        pods = min(best.pods, count)
        self._board.put(want, claims, np.full(copies, pods, dtype=np.int64))
        return pods * copies

    def _note_relaxed(self, want: Want, best: Opening, claims: Ints) -> None:
        variety = self._board.varieties[self._board.space.states[best.state].pool]
        each = self._board.pods_per_row(want, best.state, np.zeros(len(want.size)))
        achieved = variety.achieved(each >= best.pods)
        lowered = {key: min(low, achieved[key]) for key, low in variety.wanted.items()}
        if lowered != variety.wanted:
            for claim in claims.tolist():
                self._board.relaxed[claim] = lowered

    def best(self, want: Want, ask: int, count: int, *, together: bool = False) -> Opening | None:
        """Return the best new claim in the heaviest pools that have any."""
        if want.needs_company:
            return None
        space = self._board.space
        for tier in space.tiers():
            openings = [
                best
                for root in tier
                if (state := space.move(root, ask)) != DEAD
                and (best := self._best_type(want, state, count, together=together)) is not None
            ]
            if openings:
                # Pools of equal weight compete on price; the reference goes by name.
                by_name = self._board.by_name
                return openings[0] if by_name else min(openings, key=lambda one: one.cost_per_pod)
        return None

    def _best_type(self, want: Want, state: int, count: int, *, together: bool) -> Opening | None:
        board = self._board
        pool = board.space.states[state].pool
        cap = float(min(count, want.cap or count, 1 if want.ports else count))
        plain = not (together or want.ports or pool in board.picky)
        if not plain or board.reservations.offered(pool) or not board.allowances[pool].ample:
            return self._choose_type(want, state, cap, together=together)
        # Nothing but the size matters: the answer is the same for every such class.
        key = (state, want.size_number, cap)
        if key not in self._known:
            self._known[key] = self._choose_type(want, state, cap, together=False)
        return self._known[key]

    def _choose_type(self, want: Want, state: int, cap: float, *, together: bool) -> Opening | None:
        pool = self._board.space.states[state].pool
        held = self._reserved_opening(want, state, cap)
        if held is not None:
            return held
        state = self._board.reservations.without(state)
        if state == DEAD:
            return None
        each = self._board.each(want, state)
        allowed = each >= 1
        if not self._board.allowances[pool].unlimited:
            allowed = allowed & self._board.allowances[pool].affordable()
        if want.ports:
            allowed = allowed & ~self._board.rows_with_ports(pool, want.clashes, len(each))
        if pool in self._board.picky:
            cap = self._cap_by_variety(want, pool, np.where(allowed, each, -1.0), cap)
        if cap < 1 or not allowed.any():
            return None
        pods = np.minimum(each, cap)
        cost = self._board.space.cost[state][: len(each)] + self._board.settings.node_cost
        if self._board.fewest or together:
            most = pods[allowed].max()
            score = np.where(allowed & (pods == most), cost, np.inf)
        else:
            score = np.where(allowed, cost / np.maximum(pods, 1.0) - 1e-9 * pods, np.inf)
        row = int(np.argmin(score))
        number = int(pods[row])
        return Opening(state, row, number, float(cost[row] / number))

    def _reserved_opening(self, want: Want, state: int, cap: float) -> Opening | None:
        """Return the claim on a reservation that takes most pods; it is paid for."""
        allowance = self._board.allowances[self._board.space.states[state].pool]
        best: Opening | None = None
        for row, bound in self._board.reservations.choices(state):
            pods = int(min(self._board.each(want, bound)[row], cap))
            if pods >= 1 and allowance.copies(row) >= 1 and (best is None or pods > best.pods):
                best = Opening(bound, row, pods, 0.0)
        return best

    def _cap_by_variety(self, want: Want, pool: int, each: Floats, cap: float) -> float:
        variety = self._board.varieties[pool]
        room = variety.headroom(each, variety.wanted)
        if room < 1 and self._board.settings.min_values is MinValues.BEST_EFFORT:
            return cap
        return min(cap, room)
