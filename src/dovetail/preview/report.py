"""Report of a preview. Field names are stable: add, never rename."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import msgspec

HOURS_PER_MONTH = 730
"""A twelfth of a year, as AWS counts it in its own estimates."""


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one instant."""

    nodes: int
    price_per_hour: float
    """USD of all instances with a known price."""
    price_per_month: float
    node_cost_per_hour: float = 0.0
    """USD of the nodes of NodePools beyond their instances, which the price leaves out."""
    pods: int
    """Pods that are bound and not terminal."""
    pods_without_node: int
    cpu_utilization: float
    """Requests of pods divided by what nodes can allocate, from 0 to 1."""
    memory_utilization: float
    lower_bound: float | None = None
    """USD per hour below which no fleet of the NodePools can run their pods.

    None: unknown, or nodes of earlier settings are cheaper.
    """
    over_bound: float | None = None
    """Price of the nodes of NodePools divided by the lower bound."""


class StateDifference(msgspec.Struct, frozen=True, kw_only=True):
    """After the change minus without it, when nothing moves any more in either."""

    nodes: int
    price_per_hour: float
    price_per_month: float
    price_percent: float | None
    """None if the price without the change is zero."""
    node_cost_per_hour: float = 0.0
    pods: int
    pods_without_node: int
    cpu_utilization: float
    memory_utilization: float


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes whose disruption began before the first of them was gone."""

    number: int
    started: float
    """Seconds since the change."""
    finished: float | None
    """When its last node was gone; None: one of them still is there."""
    nodes: int
    launched: int
    """Nodes launched until the next wave began."""
    evictions: int
    reasons: dict[str, int]
    """Reason → number of nodes."""


class WorkloadDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions and availability of one workload."""

    workload: str
    """``namespace/name``."""
    kind: str
    replicas: int
    """Replicas that must be available: the smaller number of before and after the change."""
    least_available: int
    evictions: int
    evictions_without: int
    """Evictions that would have happened without the change."""
    killed: int
    """Pods that ended without an eviction: interrupted, or deleted at a deadline."""
    pending_seconds: float
    """Longest time for which one of its pods had no node."""


class MovedPod(msgspec.Struct, frozen=True, kw_only=True):
    """The pod, with its successors, that was moved most often."""

    pod: str
    """Its latest name."""
    workload: str
    moves: int


class KeptNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that should have gone and is still there."""

    node: str
    nodepool: str
    price_per_hour: float
    reason: str
    """Why it should go: ``Drifted``, ``Deleting``."""
    message: str
    """Reason why it is kept."""
    blocker: str
    """Object to change so that it can go; empty if there is none."""


class PodWithoutNode(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one workload that found no node, for one reason."""

    workload: str
    pods: int
    example: str
    """One of them."""
    message: str
    also_without_change: bool
    """They find no node without the change either."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """State from a time on: a point of a chart."""

    at: float
    """Seconds since the change."""
    nodes: int
    price: float
    pending: int


def thin_samples(samples: Sequence[Sample], *, intervals: int = 400) -> tuple[Sample, ...]:
    """Return the last sample of each of many intervals, and the extremes within it."""
    if len(samples) <= intervals:
        return tuple(samples)
    width = samples[-1].at / intervals or 1.0
    kept: dict[Sample, None] = {samples[0]: None}
    for _, group in groupby(samples, key=lambda sample: sample.at // width):
        several = list(group)
        extremes = {
            max(several, key=lambda sample: sample.nodes),
            max(several, key=lambda sample: sample.price),
            max(several, key=lambda sample: sample.pending),
            several[-1],
        }
        kept.update(dict.fromkeys(sorted(extremes, key=lambda sample: sample.at)))
    return tuple(kept)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Events from the change to the end."""

    duration: float
    """Seconds until the last node or pod moved; 0: nothing did."""
    at_rest: bool
    """False: something still moved when the play ended."""
    launched: int
    terminated: int
    reasons: dict[str, int]
    """Reason → nodes that went or are going."""
    evictions: int
    killed: int
    peak_nodes: int
    peak_price_per_hour: float
    surge_cost: float
    """USD above the higher price of before and after, while both generations ran."""
    samples: tuple[Sample, ...]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A latency of the fork."""

    name: str
    seconds: float
    source: str
    """``default``, or the number of observations."""
    workload: str = ""
    """Workload that it is for; empty: all."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of a change on a cluster, beside what happens without it."""

    changes: tuple[str, ...]
    unchanged: tuple[str, ...]
    """Objects in the files that equal those of the cluster."""
    started: datetime
    """Time in the cluster at which the change is made."""
    played_seconds: float
    limit_seconds: float
    """Maximum time that is played."""
    before: ClusterState
    without: ClusterState
    after: ClusterState
    difference: StateDifference
    course: Course
    course_without: Course
    waves: tuple[Wave, ...]
    workloads: tuple[WorkloadDisruption, ...]
    """Those whose pods were evicted, killed or unavailable; most evictions first."""
    most_moved: MovedPod | None
    kept_nodes: tuple[KeptNode, ...]
    pods_without_node: tuple[PodWithoutNode, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    latencies: tuple[Latency, ...]
    seed: int
    prices: str
    """Source of the prices, as a sentence."""


class BrokenLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that a preview exceeds."""

    limit: str
    message: str
