"""Pareto front of a sweep, and the point to choose."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dovetail.replay.sweep.worker import Outcome

CURRENT: Final = "current"


class SweptPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point with its outcome."""

    values: dict[str, str]
    """Empty: the current settings."""
    outcome: Outcome
    on_front: bool = False
    """No other point is cheaper with as few evictions, or has fewer at the same cost."""

    @property
    def name(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items()) or CURRENT


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Price of evictions and limits, as the user asks for."""

    eviction_price: float | None = None
    """USD that an eviction is worth."""
    max_evictions: int | None = None
    max_cost: float | None = None

    @property
    def is_set(self) -> bool:
        return self != Limits()


def find_eligible(points: Iterable[SweptPoint]) -> list[SweptPoint]:
    """Return the points that leave no more pods unschedulable than the best ones.

    The others are cheap for a bad reason.
    """
    swept = list(points)
    least = _count_least_unschedulable(swept)
    return [point for point in swept if point.outcome.unschedulable <= least]


def _count_least_unschedulable(points: Iterable[SweptPoint]) -> int:
    return min((point.outcome.unschedulable for point in points), default=0)


def mark_front(points: Iterable[SweptPoint]) -> list[SweptPoint]:
    """Return all points by cost, with those on the Pareto front marked.

    Only eligible points are on the front.
    """
    ordered = sorted(points, key=_order)
    least = _count_least_unschedulable(ordered)
    fewest: int | None = None
    marked = []
    for point in ordered:
        is_eligible = point.outcome.unschedulable <= least
        on_front = is_eligible and (fewest is None or point.outcome.evictions < fewest)
        if on_front:
            fewest = point.outcome.evictions
        marked.append(msgspec.structs.replace(point, on_front=on_front))
    return marked


def choose(points: Sequence[SweptPoint], limits: Limits) -> SweptPoint | None:
    """Return the point of the front that suits best; None: no point keeps the limits.

    With a price of evictions, the lowest sum of both; with a limit of evictions, the cheapest;
    with a limit of cost alone, the fewest evictions.
    """
    allowed = [point for point in points if point.on_front and _is_allowed(point.outcome, limits)]
    if limits.eviction_price is not None:
        price = limits.eviction_price
        return min(
            allowed,
            key=lambda point: (point.outcome.cost + price * point.outcome.evictions, *_order(point)),
            default=None,
        )
    if limits.max_evictions is not None:
        return min(allowed, key=_order, default=None)
    if limits.max_cost is not None:
        return min(allowed, key=lambda point: (point.outcome.evictions, *_order(point)), default=None)
    return None


def _is_allowed(outcome: Outcome, limits: Limits) -> bool:
    if limits.max_evictions is not None and outcome.evictions > limits.max_evictions:
        return False
    return limits.max_cost is None or outcome.cost <= limits.max_cost


def _order(point: SweptPoint) -> tuple[float, int, bool, str]:
    return point.outcome.cost, point.outcome.evictions, bool(point.values), point.name
