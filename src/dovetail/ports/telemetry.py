"""Telemetry ports: logs, metrics and Kubernetes Events."""

from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar, assert_never

import msgspec

from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.metric_types import Counter, Gauge, Histogram

L = TypeVar("L", bound=msgspec.Struct)


class Log(Protocol):
    """Structured log: constant messages with values as fields.

    One line per change that is made to the cluster or the cloud.
    """

    def debug(self, message: str, **fields: Any) -> None: ...

    def info(self, message: str, **fields: Any) -> None: ...

    def error(self, message: str, **fields: Any) -> None: ...


class Metrics(Protocol):
    """Reports the metrics of ``ports.metrics``.

    Labels of another type than the metric's raise ``TypeError``.
    """

    def inc(self, counter: Counter[L], labels: L, by: float = 1) -> None: ...

    def observe(self, histogram: Histogram[L], value: float, labels: L) -> None: ...

    def set(self, gauge: Gauge[L], value: float, labels: L) -> None: ...


class _NoMetrics:
    """``Metrics`` that drops everything."""

    def inc(self, counter: Counter[L], labels: L, by: float = 1) -> None:
        """Do nothing."""

    def observe(self, histogram: Histogram[L], value: float, labels: L) -> None:
        """Do nothing."""

    def set(self, gauge: Gauge[L], value: float, labels: L) -> None:
        """Do nothing."""


NO_METRICS: Final[Metrics] = _NoMetrics()


class EventRate(NamedTuple):
    """Token bucket for Events of one reason."""

    burst: float
    per_second: float


class EventReason(msgspec.Struct, frozen=True):
    """A kind of Kubernetes Event: reason, type and rate limits."""

    reason: str
    is_warning: bool = False
    dedupe_timeout: timedelta = timedelta(minutes=2)
    """An equal Event is published again after this time only."""
    rate: EventRate | None = None
    """Limit for reasons that concern thousands of objects at once."""


EventObject = NodeClaim | NodeObject | NodePool | EC2NodeClass | Pod
"""Objects that Events are published about."""


def get_resource(obj: EventObject) -> Resource:
    """Return the API resource of an object."""
    match obj:
        case NodeClaim():
            return NODE_CLAIMS
        case NodeObject():
            return NODES
        case NodePool():
            return NODE_POOLS
        case EC2NodeClass():
            return EC2_NODE_CLASSES
        case Pod():
            return PODS
        case _:
            assert_never(obj)


class EventRecorder(Protocol):
    """Publishes Kubernetes Events, which users read with ``kubectl describe``.

    Publishing never fails and never blocks; an Event may be lost.
    """

    def publish(
        self, obj: EventObject, event: EventReason, message: str, *, dedupe_key: tuple[str, ...] = ()
    ) -> None:
        """Publish an Event about an object, once per ``event.dedupe_timeout``.

        Two Events are equal if reason and ``dedupe_key`` are (by default: reason,
        object and message).
        """
