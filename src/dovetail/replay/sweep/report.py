"""Report of a sweep. Field names are stable: add, never rename."""

import msgspec

from dovetail.replay.sweep.choice import Limits, SweptPoint


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, replayed with many settings."""

    trace: str
    seconds: float
    varied: dict[str, list[str]]
    points: tuple[SweptPoint, ...]
    """By cost, the current settings (without values) among them."""
    current: SweptPoint
    limits: Limits
    chosen: SweptPoint | None
    """None: no limit is given, or no point keeps it."""
    failed: dict[str, str]
    """Settings that could not be replayed → why."""
    assumptions: tuple[str, ...]
    seed: int
    prices: str

    @property
    def front(self) -> tuple[SweptPoint, ...]:
        """Points of the Pareto front, cheapest first."""
        return tuple(point for point in self.points if point.on_front)
