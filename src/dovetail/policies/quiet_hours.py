"""Example policy: no consolidation in quiet hours, and a minimum saving per eviction."""

import msgspec

from dovetail.core.disruption.policy import Move, Offer


class QuietHours(msgspec.Struct, frozen=True, kw_only=True):
    """Takes no move from ``start`` to ``end``, hours of the day in UTC.

    A disruption budget with a schedule stops every disruption of a NodePool, drift included.
    This policy stops consolidation alone, and in all NodePools.
    """

    start: int = 8
    end: int = 18
    saving: float = 0.0
    """Minimum saving of a move in USD per hour for each pod that it evicts."""

    def __post_init__(self) -> None:
        """Raise ValueError for hours outside the day."""
        if not (0 <= self.start <= 24 and 0 <= self.end <= 24):
            raise ValueError("start and end are hours from 0 to 24")

    def __call__(self, offer: Offer) -> list[Move]:
        if self._is_quiet(offer.now.hour):
            return []
        return [move for move in offer.moves if move.saving >= self.saving * move.evictions]

    def _is_quiet(self, hour: int) -> bool:
        if self.start <= self.end:
            return self.start <= hour < self.end
        return hour >= self.start or hour < self.end
