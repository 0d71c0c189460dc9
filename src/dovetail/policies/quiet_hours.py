"""Example policy: no consolidation in quiet hours, and a minimum saving per eviction."""

from typing import Annotated

import msgspec

from dovetail.core.disruption.policy import Move, Offer

_HourOfDay = Annotated[int, msgspec.Meta(ge=0, le=24)]


class QuietHours(msgspec.Struct, frozen=True, kw_only=True):
    """Takes no move from ``start`` to ``end``, hours of the day in UTC.

    A disruption budget with a schedule stops every disruption of a NodePool, drift included.
    This policy stops consolidation alone, and in all NodePools.
    """

    start: _HourOfDay = 8
    end: _HourOfDay = 18
    saving: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Minimum saving of a move in USD per hour for each pod that it evicts."""

    def __call__(self, offer: Offer) -> list[Move]:
        if self._is_quiet(offer.now.hour):
            return []
        return [move for move in offer.moves if move.saving >= self.saving * move.evictions]

    def _is_quiet(self, hour: int) -> bool:
        if self.start <= self.end:
            return self.start <= hour < self.end
        return hour >= self.start or hour < self.end
