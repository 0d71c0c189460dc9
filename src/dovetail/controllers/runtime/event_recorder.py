"""Event recorder: publishes Kubernetes Events with deduplication and rate limits."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.quantities import encode_time
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EVENTS
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import EventObject, EventReason, Log, get_resource

COMPONENT: Final = "karpenter"
"""Source of the Events; dashboards and alerts filter by it."""
_PRUNE_INTERVAL: Final = timedelta(minutes=1)
"""Minimum time between two removals of expired entries."""
_OBJECT_BURST, _OBJECT_PER_SECOND = 25.0, 1 / 300
"""Limit per object, the same as client-go's event correlator.

A message with a number in it is a new Event each time.
"""


class TokenBucket:
    """Rate limit: a burst, then a number of tokens per second."""

    __slots__ = ("_burst", "_per_second", "_tokens", "_updated")

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = self._tokens = burst
        self._per_second = per_second
        self._updated: datetime | None = None

    def take(self, now: datetime) -> bool:
        """Take a token; return False if there is none."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def is_full(self, now: datetime) -> bool:
        self._refill(now)
        return self._tokens == self._burst

    def _refill(self, now: datetime) -> None:
        if self._updated is not None:
            new_tokens = (now - self._updated).total_seconds() * self._per_second
            self._tokens = min(self._burst, self._tokens + new_tokens)
        self._updated = now


class KubeEventRecorder:
    """``ports.telemetry.EventRecorder`` that writes to the API server."""

    def __init__(self, *, kube: KubeClient, loop: EventLoop, random: RandomSource, log: Log) -> None:
        self._kube = kube
        self._loop = loop
        self._random = random
        self._log = log
        self._published: dict[int, datetime] = {}
        """Hash of a deduplication key → time until which an equal Event is dropped.

        The key has a message of up to 1 kB, which would stay in memory.
        """
        self._reason_buckets: dict[str, TokenBucket] = {}
        self._object_buckets: dict[tuple[str, str, str], TokenBucket] = {}
        self._prune_at: datetime | None = None

    def publish(
        self, obj: EventObject, event: EventReason, message: str, *, dedupe_key: tuple[str, ...] = ()
    ) -> None:
        """Publish an Event unless it is a duplicate or a rate limit is reached."""
        now = self._loop.now()
        self._prune(now)
        key = hash((event.reason.lower(), *(dedupe_key or (*_get_target(obj), message))))
        drop_until = self._published.get(key)
        if drop_until is not None and now < drop_until:
            return
        target = _get_target(obj)
        if not self._take_reason_token(event, now) or not self._take_object_token(target, now):
            return
        self._published[key] = now + event.dedupe_timeout
        reference = _get_reference(obj)
        body = {
            "metadata": {"name": f"{obj.name}.{self._random.alphanumeric(16)}"},
            "involvedObject": reference,
            "reason": event.reason,
            "message": message,
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": encode_time(now),
            "lastTimestamp": encode_time(now),
            "count": 1,
        }
        self._loop.spawn(self._create(body, reference.get("namespace", "default")))

    def _take_reason_token(self, event: EventReason, now: datetime) -> bool:
        if event.rate is None:
            return True
        bucket = self._reason_buckets.setdefault(event.reason, TokenBucket(*event.rate))
        return bucket.take(now)

    def _take_object_token(self, target: tuple[str, str, str], now: datetime) -> bool:
        bucket = self._object_buckets.get(target)
        if bucket is None:
            bucket = TokenBucket(_OBJECT_BURST, _OBJECT_PER_SECOND)
            self._object_buckets[target] = bucket
        return bucket.take(now)

    def _prune(self, now: datetime) -> None:
        """Remove entries without effect, which most are: their objects are gone."""
        if self._prune_at is not None and now < self._prune_at:
            return
        self._prune_at = now + _PRUNE_INTERVAL
        self._published = {key: until for key, until in self._published.items() if until > now}
        self._object_buckets = {
            target: bucket for target, bucket in self._object_buckets.items() if not bucket.is_full(now)
        }

    async def _create(self, body: Object, namespace: str) -> None:
        try:
            await self._kube.create(EVENTS, body, namespace)
        except DovetailError as error:
            # For example, the namespace is being deleted. Events are best effort.
            self._log.debug("event lost", reason=body["reason"], error=str(error))


def _get_target(obj: EventObject) -> tuple[str, str, str]:
    """Return resource, namespace and name."""
    return get_resource(obj).plural, getattr(obj, "namespace", ""), obj.name


def _get_reference(obj: EventObject) -> Object:
    resource = get_resource(obj)
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj.name,
        "namespace": getattr(obj, "namespace", ""),
        "uid": obj.uid,
    }
    return {field: value for field, value in reference.items() if value}
