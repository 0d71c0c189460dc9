"""Price index: the instance types of a claim state by price."""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import ClaimStateSpace
from dovetail.core.scheduling.arrays.types import Floats, Ints

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
        no_fit = len(self.prices)
        position = np.zeros(loads.shape[1], dtype=np.int64)
        # Before this position no type is large enough, resource by resource.
        for running_max, load in zip(self.running_max, loads, strict=True):
            np.maximum(position, running_max.searchsorted(load), out=position)
        end = np.full(len(position), no_fit)
        if max_prices is not None:
            end = self.prices.searchsorted(max_prices, side="right")
        position[position >= end] = no_fit
        # Search on from there, for all loads at once, in steps of ``width`` types.
        pending = (position < no_fit).nonzero()[0]  # indexes into ``position``
        first, end, loads = position[pending], end[pending], loads[:, pending]
        width = 1
        while len(pending):
            candidates = first[:, None] + np.arange(width)  # [pending, width]
            fits = candidates < end[:, None]
            for alloc, load in zip(self.alloc, loads, strict=True):
                fits &= alloc.take(candidates, mode="clip") >= load[:, None]
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
