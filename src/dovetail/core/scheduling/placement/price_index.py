"""Price index: the instance types of a claim state by price."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import ClaimStateSpace
from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.native import kernel as _kernel

_MAX_WIDTH = 64
"""Types compared per load and step; steps grow from 1 because most loads fit early."""


class PriceIndex(NamedTuple):
    """The available types of a claim state, cheapest first.

    A *position* is an index into these arrays, not a row of the NodePoolTable.
    """

    alloc: Floats
    """[resources, positions]: allocatable for pods."""
    prices: Floats
    """[positions]: USD per hour, ascending."""
    rows: Ints
    """[positions]: row of the type in the NodePoolTable."""
    running_max: Floats
    """[resources, positions]: maximum of ``alloc`` up to each position."""

    def cheapest_fit(self, loads: Floats, max_prices: Floats | None = None) -> Ints:
        """Return [loads]: position of the cheapest type that holds each load.

        ``loads`` is [resources, loads]. Types above ``max_prices`` [loads] are
        not considered. ``len(self.prices)`` means that no type fits.
        """
        first, end = self.search_range(loads, max_prices)
        return find_first_fit(self.alloc, loads, first, end, no_fit=len(self.prices))

    def search_range(self, loads: Floats, max_prices: Floats | None) -> tuple[Ints, Ints]:
        """Return first and end position [loads] of the types that may hold each load."""
        first = np.zeros(loads.shape[1], dtype=np.int64)
        # Before this position no type is large enough, resource by resource.
        for running_max, load in zip(self.running_max, loads, strict=True):
            np.maximum(first, running_max.searchsorted(load), out=first)
        if max_prices is None:
            return first, np.full(len(first), len(self.prices))
        return first, self.prices.searchsorted(max_prices, side="right")


def find_first_fit(alloc: Floats, loads: Floats, first: Ints, end: Ints, no_fit: int) -> Ints:
    """Return [loads]: first position from ``first`` to ``end`` that holds each load.

    For all loads at once, in steps that grow. ``alloc`` is [resources, positions].
    """
    position = np.where(first < end, first, no_fit)
    pending = (first < end).nonzero()[0]  # indexes into ``position``
    first, end, loads = first[pending], end[pending], loads[:, pending]
    width = 1
    while len(pending):
        candidates = first[:, None] + np.arange(width)  # [pending, width]
        fits = candidates < end[:, None]
        for room, load in zip(alloc, loads, strict=True):
            fits &= room.take(candidates, mode="clip") >= load[:, None]
        any_fits = fits.any(axis=1)
        position[pending] = np.where(any_fits, first + fits.argmax(axis=1), no_fit)
        rest = (~any_fits & (first + width < end)).nonzero()[0]
        pending, first, end = pending[rest], first[rest] + width, end[rest]
        loads = loads[:, rest]
        width = min(width * 4, _MAX_WIDTH)
    return position


class PriceIndexes:
    """Price index of each claim state, built on first use."""

    def __init__(self, space: ClaimStateSpace) -> None:
        self._space = space
        self._cache: dict[int, PriceIndex] = {}
        self._joined: dict[tuple[int, ...], JoinedPriceIndex] = {}

    def get(self, state: int) -> PriceIndex:
        """Return the price index of a claim state."""
        price_index = self._cache.get(state)
        if price_index is None:
            rows = self._space.rows_by_price(state)
            table = self._space.tables[self._space.states[state].pool]
            alloc = np.ascontiguousarray(table.alloc[rows].T)
            running_max = np.maximum.accumulate(alloc, axis=1)
            price_index = PriceIndex(alloc, self._space.cost[state][rows], rows, running_max)
            self._cache[state] = price_index
        return price_index

    def join(self, states: tuple[int, ...]) -> "JoinedPriceIndex":
        """Return the price indexes of several claim states, end to end."""
        joined = self._joined.get(states)
        if joined is None:
            parts = [self.get(state) for state in states]
            joined = self._joined[states] = JoinedPriceIndex(parts)
        return joined


class JoinedPriceIndex:
    """Price indexes of several claim states, end to end: searched in one go."""

    def __init__(self, parts: Sequence[PriceIndex]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part.prices) for part in parts)])
        self._alloc: Floats = np.hstack([part.alloc for part in parts])
        self._running_max: Floats = np.hstack([part.running_max for part in parts])
        self.prices: Floats = np.concatenate([part.prices for part in parts])
        self.rows: Ints = np.concatenate([part.rows for part in parts])

    def cheapest_fit(self, part_of: Ints, loads: Floats, max_prices: Floats) -> Ints:
        """Return [loads]: position of the cheapest type in each load's state.

        ``part_of`` [loads] is the position of the state in ``PriceIndexes.join``.
        ``len(self.prices)`` means that no type fits.
        """
        if _kernel is not None:
            positions = np.zeros(len(part_of), np.int64)
            shape = (*self._alloc.shape, len(self._parts), len(part_of))
            _kernel.cheapest_fit(
                shape,
                self._alloc,
                self._running_max,
                self.prices,
                self._starts,
                part_of,
                np.ascontiguousarray(loads),
                max_prices,
                positions,
            )
            return positions
        first, end = np.zeros(len(part_of), np.int64), np.zeros(len(part_of), np.int64)
        for number, part in enumerate(self._parts):
            of_part = (part_of == number).nonzero()[0]
            first[of_part], end[of_part] = part.search_range(loads[:, of_part], max_prices[of_part])
        start = self._starts[part_of]
        return find_first_fit(self._alloc, loads, first + start, end + start, no_fit=len(self.prices))

    def best_steps(
        self,
        part_of: Ints,
        requests: Floats,
        used: Floats,
        claims: Ints,
        max_pods: Floats,
        old_prices: Floats,
        steps: Floats,
        limit: float,
    ) -> tuple[Floats, Ints, Floats]:
        """Return [claims]: best number of pods to add, position of its type, price.

        The price is the extra price per pod. By the compiled kernel; the same as
        ``Upsizer._best_steps`` without limits.
        """
        pods, extra = np.empty((2, len(claims)))
        positions = np.empty(len(claims), dtype=np.int64)
        shape = (*self._alloc.shape, used.shape[1], len(self._parts), len(claims), len(steps))
        _kernel.best_steps(
            shape,
            limit,
            self._alloc,
            self._running_max,
            self.prices,
            self._starts,
            requests,
            used,
            claims,
            part_of,
            max_pods,
            old_prices,
            steps,
            pods,
            positions,
            extra,
        )
        return pods, positions, extra
