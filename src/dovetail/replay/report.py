"""Report of a replay. Field names are stable: add, never rename."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from dovetail.preview.report import Sample


class WaitingTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time from the creation of pods to their node, in seconds."""

    pods: int
    p50: float
    p95: float
    worst: float


class EvictedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions of one workload."""

    workload: str
    """``namespace/name``."""
    kind: str
    evictions: int
    killed: int
    """Pods that ended without an eviction: their instance was interrupted, or a deadline came."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a replay: an hour of a day, a minute of a short trace. The last may be shorter."""

    at: float
    """Seconds since the start."""
    cost: float
    """USD."""
    evictions: int
    launched: int


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, replayed with one set of settings."""

    trace: str
    """Path of the trace."""
    cluster: str
    started: datetime
    seconds: float
    settings: tuple[str, ...]
    """Settings that differ from the trace's and from the defaults."""
    cost: float
    """USD of all instances."""
    cost_per_day: float
    node_hours: float
    average_nodes: float
    peak_nodes: int
    peak_price_per_hour: float
    launched: int
    launched_per_day: float
    """Churn: nodes launched in 24 hours."""
    terminated: dict[str, int]
    """Reason → nodes."""
    evictions: int
    evictions_by_reason: dict[str, int]
    """Reason for which the node was disrupted → evictions."""
    killed: int
    waiting: WaitingTime
    unschedulable: int
    """Pods that waited for 10 minutes or more and never got a node."""
    pending: int
    """Pods without a node at the end."""
    workloads: tuple[EvictedWorkload, ...]
    """Those with evictions or killed pods, most first."""
    intervals: tuple[Interval, ...]
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    seed: int
    prices: str
    """Source of the prices, as a sentence."""
    policy_failures: int = 0
    """Offers to which the plug-in gave no valid answer in time; then every move was taken."""
    policy_error: str = ""
    """First of these failures."""


def measure_waits(waits: Sequence[float]) -> WaitingTime:
    """Return the quantiles of waiting times; zeros if there are none."""
    ordered = sorted(waits)
    return WaitingTime(
        pods=len(ordered),
        p50=round(_quantile(ordered, 0.50), 3),
        p95=round(_quantile(ordered, 0.95), 3),
        worst=round(ordered[-1], 3) if ordered else 0.0,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least a share of all values does not exceed."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-int(share * 100) * len(ordered) // 100) - 1)]


def count_reasons(reasons: Iterable[str]) -> dict[str, int]:
    """Return reason → number, most first."""
    return dict(sorted(Counter(reasons).items(), key=lambda entry: (-entry[1], entry[0])))
