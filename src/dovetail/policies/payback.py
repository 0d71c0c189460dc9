"""Example policy: a move must pay for its evictions while its saving lasts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import msgspec

from dovetail.core.disruption.policy import Move, Offer


class Payback(msgspec.Struct, frozen=True, kw_only=True):
    """Takes moves that save more, while that lasts, than their evictions cost.

    A saving is expected to last as long again as the youngest of its nodes has existed: a
    node that was launched for a burst is likely to be empty soon without an eviction.
    """

    price: Annotated[float, msgspec.Meta(ge=0)] = 0.01
    """USD for the eviction of one ordinary pod."""
    hours: Annotated[float, msgspec.Meta(ge=0)] = 24.0
    """Longest time for which a saving is counted."""

    def __call__(self, offer: Offer) -> Iterator[Move]:
        for move in offer.moves:
            evictions = sum(max(0.0, pod.eviction_cost) for pod in move.pods)
            if move.saving * self._expect_hours(move) >= self.price * evictions:
                yield move

    def _expect_hours(self, move: Move) -> float:
        ages = [node.age / timedelta(hours=1) for node in move.nodes if node.age is not None]
        return min([self.hours, *ages])
