"""The types of a state by price, and the cheapest of them that holds a load."""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import StateSpace
from dovetail.core.scheduling.arrays.types import Floats, Ints

_WIDEST = 64


class Shelf(NamedTuple):
    """What can be had in a state, cheapest first."""

    alloc: Floats
    """[resource, place]"""
    prices: Floats
    rows: Ints
    tops: Floats
    """[resource, place]: the most that any type up to there has."""

    def cheapest_fit(self, needs: Floats, most: Floats | None = None) -> Ints:
        """Return the place of the first type that holds each load; past the end: none does.

        ``needs`` is [resource, load]. Types dearer than ``most`` [load] are not
        looked at.
        """
        none = len(self.prices)
        place = np.zeros(needs.shape[1], dtype=np.int64)
        # No type before this place is large enough in every resource by itself.
        for top, need in zip(self.tops, needs, strict=True):
            np.maximum(place, top.searchsorted(need), out=place)
        end = (
            np.full(len(place), none)
            if most is None
            else self.prices.searchsorted(most, side="right")
        )
        place[place >= end] = none
        loads = (place < none).nonzero()[0]
        first, end, needs = place[loads], end[loads], needs[:, loads]
        width = 1
        while len(loads):
            looked_at = first[:, None] + np.arange(width)
            fits = looked_at < end[:, None]
            for has, need in zip(self.alloc, needs, strict=True):
                fits &= has.take(looked_at, mode="clip") >= need[:, None]
            found = fits.any(axis=1)
            place[loads] = np.where(found, first + fits.argmax(axis=1), none)
            still = (~found & (first + width < end)).nonzero()[0]
            loads, first, end = loads[still], first[still] + width, end[still]
            needs = needs[:, still]
            width = min(width * 4, _WIDEST)
        return place


class Shelves:
    """The shelf of each state, made when it is first asked for."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._known: dict[int, Shelf] = {}

    def of(self, state: int) -> Shelf:
        known = self._known.get(state)
        if known is None:
            rows = self._space.in_price_order(state)
            table = self._space.pools[self._space.states[state].pool]
            alloc = np.ascontiguousarray(table.alloc[rows].T)
            tops = np.maximum.accumulate(alloc, axis=1)
            known = self._known[state] = Shelf(alloc, self._space.cost[state][rows], rows, tops)
        return known
