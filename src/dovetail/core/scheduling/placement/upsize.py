"""Moving open claims to larger types, where that is the cheaper way to a place."""

import numpy as np

from dovetail.core.scheduling.arrays.price_index import Shelves
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.placement.state import Board

_TOGETHER = 256
_FINITE = 1e18
_HAIR = 1e-9
_EXPECTED = 0.85
"""Of a load to come, what is made room for beforehand; the rest goes where it is cheapest."""


class Grower:
    """Finds the claims whose next larger type costs least per pod."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._shelves = Shelves(board.space)

    def grow(self, want: Want, ask: int, count: int, limit: float) -> int:
        """Move claims to larger types where that costs at most ``limit`` per pod."""
        hosts = self._board.hosts
        first, end = hosts.existing, hosts.count
        if first == end:
            return 0
        targets = self._board.space.targets(ask)
        placed, looked, width = 0, 0, self._board.window
        start = min(max(self._board.cursor, first), end)
        most = end - first if self._board.fewest or want.needs_company else 2 * width
        for low, high in ((start, end), (first, start)):
            for at in range(low, high, width):
                window = np.arange(at, min(at + width, high))
                looked += len(window)
                placed += self._grow_window(want, window, targets, count - placed, limit)
                if placed >= count or looked >= most:
                    return placed
        return placed

    def _grow_window(
        self, want: Want, window: Ints, targets: Ints, count: int, limit: float
    ) -> int:
        hosts = self._board.hosts
        states = targets[hosts.state[window]]
        alive = states.nonzero()[0]
        if not len(alive):
            return 0
        window, states = window[alive], states[alive]
        room = np.minimum(self._board.room(want, window, states, grown=True), count)
        for place, claim in enumerate(window.tolist() if any(self._board.daemon_ports) else ()):
            # A larger type may bring a DaemonSet that holds a port of these pods.
            if (
                hosts.ports[claim] | want.ports
                and self._board.daemon_ports[self._board.space.states[int(states[place])].pool]
            ):
                room[place] = 0
        placed = 0
        usable = room >= 1
        for state in sorted(set(states[usable].tolist())):
            of_state = ((states == state) & usable).nonzero()[0]
            for at in range(0, len(of_state), _TOGETHER):
                some = of_state[at : at + _TOGETHER]
                placed += self._grow_some(
                    want, window[some], state, room[some], count - placed, limit
                )
                if placed >= count:
                    return placed
        return placed

    def _grow_some(
        self, want: Want, claims: Ints, state: int, room: Floats, count: int, limit: float
    ) -> int:
        hosts, space = self._board.hosts, self._board.space
        steps = _steps(count)
        pods = np.minimum(room[:, None], steps[None, :])  # [claims, steps]
        shelf = self._shelves.of(state)
        needs = hosts.used[:, claims, None] + want.size[:, None, None] * pods
        before = space.cost[hosts.state[claims], hosts.nominal[claims]]
        before = np.where(np.isfinite(before), before, 0.0)
        # A type that costs more than the limit allows need not be looked for.
        most = (before[:, None] + pods * limit) * (1 + _HAIR) + _HAIR
        places = shelf.cheapest_fit(needs.reshape(len(want.size), -1), most.ravel())
        places = places.reshape(pods.shape)
        impossible = places >= len(shelf.rows)
        places = np.where(impossible, 0, places)
        allowance = self._board.allowances[space.states[state].pool]
        if not allowance.ample:
            old = hosts.nominal[claims][:, None]
            impossible |= ~allowance.could_swap(old, shelf.rows[places])
        extra = np.maximum(shelf.prices[places] - before[:, None], 0.0) / pods
        extra[impossible] = np.inf
        best = np.argmin(extra - 1e-9 * pods, axis=1)
        each = np.arange(len(claims))
        per_pod = extra[each, best]
        order_of_cost = np.lexsort((each, per_pod))
        chosen = order_of_cost[per_pod[order_of_cost] <= min(limit, _FINITE)]
        numbers = pods[chosen, best[chosen]]
        before_each = np.cumsum(numbers) - numbers
        chosen = chosen[before_each < count]
        numbers = np.minimum(numbers, count - before_each)[: len(chosen)].astype(np.int64)
        rows = shelf.rows[places[chosen, best[chosen]]]
        fine = self._charge_growth(claims[chosen], state, rows)
        chosen, numbers, rows = chosen[fine], numbers[fine], rows[fine]
        if len(chosen):
            hosts.retype(claims[chosen], state, rows)
            self._board.put(want, claims[chosen], numbers)
        return int(numbers.sum())

    def expect(self, load: Floats) -> None:
        """Size open claims for their share of a load that is still to come.

        Pods that must be alone on a node fix the number of nodes; with room made
        at once for all who will join them, these need not grow claims one by
        one. It costs nothing: in the end every claim gets the cheapest type that
        holds what it has.
        """
        hosts = self._board.hosts
        claims = np.arange(hosts.existing, hosts.count)
        if not len(claims) or self._board.picky or any(self._board.daemon_ports):
            return
        share = load / len(claims) * _EXPECTED
        for state in sorted(set(hosts.state[claims].tolist())):
            some = claims[hosts.state[claims] == state]
            shelf = self._shelves.of(state)
            places = shelf.cheapest_fit(hosts.used[:, some] + share[:, None])
            fits = places < len(shelf.rows)
            some, rows = some[fits], shelf.rows[places[fits]]
            fine = self._charge_growth(some, state, rows)
            if fine.any():
                hosts.retype(some[fine], state, rows[fine])

    def _charge_growth(self, claims: Ints, state: int, rows: Ints) -> Bools:
        """Charge larger types to the pool's limits; returns which of them fit in."""
        allowance = self._board.allowances[self._board.space.states[state].pool]
        fine = np.ones(len(claims), dtype=bool)
        if allowance.unlimited:
            return fine
        old = self._board.hosts.nominal[claims]
        if allowance.change(old, rows):
            return fine
        for place in range(len(claims)):
            fine[place] = allowance.change(old[place : place + 1], rows[place : place + 1])
        return fine


def _steps(count: int) -> Floats:
    """Return the numbers of pods worth trying on one claim: 1, 2, 4, … and all."""
    steps = {count} | {1 << power for power in range(min(count.bit_length(), 12))}
    return np.array(sorted(step for step in steps if step <= count), dtype=np.float64)
