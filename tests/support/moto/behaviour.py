"""Failures of AWS: throttling, lost responses, missing capacity.

``Behaviour`` is plain data, so that a test sets it in process (``MotoAws.behave``) or
over HTTP (``PUT /behaviour`` with the same fields as JSON). FailureInjector are drawn by the
seed and the number of the call: the same calls fail in the same way, in any order of
operations.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from threading import Lock

import msgspec


class CapacityShortage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An override of CreateFleet without capacity, by globs."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    """``spot`` or ``on-demand``."""
    probability: float = 1.0
    code: str = "InsufficientInstanceCapacity"

    def matches(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(capacity_type, self.capacity_type)
        )


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Failures that the server injects; operations are globs such as ``Describe*``."""

    seed: int = 0
    throttled: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Operation → probability of ``RequestLimitExceeded``."""
    lost_requests: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Operation → probability that the connection closes before the request takes effect."""
    lost_responses: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Operation → probability that the request takes effect and the connection closes."""
    shortages: tuple[CapacityShortage, ...] = ()
    request_rates: bool = False
    """Throttle EC2 by token buckets of the published sizes."""
    instance_delay: float = 0.0
    """Seconds for which EC2 does not know a launched instance."""
    profile_delay: float = 0.0
    """Seconds for which EC2 does not know a created instance profile."""
    terminated_visible: float = 3600.0
    """Seconds for which DescribeInstances shows a terminated instance."""
    max_spot_instances: int | None = None
    """Quota of the account; None: unlimited."""
    max_on_demand_vcpus: int | None = None
    """Quota of the account; None: unlimited."""
    limits: bool = True
    """Refuse requests beyond the limits of EC2: tags, sizes, names."""
    unsupported_settings: bool = True
    """Refuse launches with what the type does not support, or with a missing profile."""


DEFAULT = Behaviour()


class Bucket(msgspec.Struct, frozen=True):
    """Size of a token bucket, and tokens that it gets back per second."""

    size: float
    refill: float


_READ = Bucket(100, 20)
_UNFILTERED_READ = Bucket(50, 10)
_MUTATION = Bucket(50, 5)
_REQUEST_BUCKETS: Mapping[str, Bucket] = {
    "CreateTags": Bucket(100, 10),
    "RunInstances": Bucket(5, 2),
    "TerminateInstances": Bucket(100, 5),
}
"""Operations with their own bucket; the default of an account and region."""
_RESOURCE_BUCKETS: Mapping[str, Bucket] = {
    "RunInstances": Bucket(1000, 2),
    "TerminateInstances": Bucket(1000, 20),
}
"""Operations that also take a token for each instance."""


def request_bucket(operation: str, *, is_unfiltered: bool) -> Bucket:
    """Return the token bucket that EC2 publishes for an operation."""
    if operation in _REQUEST_BUCKETS:
        return _REQUEST_BUCKETS[operation]
    if operation.startswith(("Describe", "Get", "List", "Search")):
        return _UNFILTERED_READ if is_unfiltered else _READ
    return _MUTATION


class SeededDraws:
    """Draws by seed, name and how often the name was drawn before; thread-safe."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = Lock()
        self._drawn: Counter[str] = Counter()

    def hit(self, name: str, probability: float) -> bool:
        """Return True in this share of the calls with this name."""
        with self._lock:
            number = self._drawn[name]
            self._drawn[name] += 1
        digest = sha256(f"{self._seed}/{name}/{number}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < probability


class TokenBuckets:
    """Tokens by name; they refill with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = Lock()
        self._levels: dict[str, tuple[float, float]] = {}
        """Name → tokens, and when they were counted."""

    def take(self, name: str, bucket: Bucket, count: int = 1) -> bool:
        """Take tokens; return False, and take none, if there are not enough."""
        with self._lock:
            now = self.clock()
            level, counted = self._levels.get(name, (bucket.size, now))
            level = min(bucket.size, level + (now - counted) * bucket.refill)
            enough = level >= count
            self._levels[name] = (level - count if enough else level, now)
            return enough


class FailureInjector:
    """Decides by a ``Behaviour`` what happens to each call; thread-safe."""

    def __init__(self, behaviour: Behaviour = DEFAULT, clock: Callable[[], float] = time.monotonic) -> None:
        self.behaviour = behaviour
        self.clock = clock
        self._draws = SeededDraws(behaviour.seed)
        self._buckets = TokenBuckets(clock)
        self.counts: Counter[str] = Counter()
        """``throttled CreateFleet`` → how often."""

    def is_throttled(self, operation: str) -> bool:
        """Return True if the call is throttled by probability."""
        return self._hits("throttled", self.behaviour.throttled, operation)

    def exceeds_rate(self, operation: str, *, is_unfiltered: bool, instances: int) -> bool:
        """Return True if EC2 throttles the call by its rate; ``instances``: how many it names."""
        if not self.behaviour.request_rates:
            return False
        bucket = request_bucket(operation, is_unfiltered=is_unfiltered)
        name = f"{operation} unfiltered" if bucket is _UNFILTERED_READ else operation
        by_instance = _RESOURCE_BUCKETS.get(operation)
        enough = self._buckets.take(name, bucket) and (
            by_instance is None or self._buckets.take(f"{operation} instances", by_instance, instances)
        )
        if not enough:
            self.counts[f"throttled {operation}"] += 1
        return not enough

    def loses_request(self, operation: str) -> bool:
        return self._hits("lost request", self.behaviour.lost_requests, operation)

    def loses_response(self, operation: str) -> bool:
        return self._hits("lost response", self.behaviour.lost_responses, operation)

    def shortage(self, instance_type: str, zone: str, capacity_type: str) -> CapacityShortage | None:
        """Return why an override has no capacity now; None if it has."""
        pool = f"{instance_type}/{zone}/{capacity_type}"
        for number, shortage in enumerate(self.behaviour.shortages):
            if shortage.matches(instance_type, zone, capacity_type) and self._draws.hit(
                f"shortage {number} {pool}", shortage.probability
            ):
                self.counts[f"{shortage.code} {pool}"] += 1
                return shortage
        return None

    def _hits(self, what: str, shares: Mapping[str, float], operation: str) -> bool:
        share = max((value for glob, value in shares.items() if fnmatchcase(operation, glob)), default=0.0)
        hit = share > 0 and self._draws.hit(f"{what} {operation}", share)
        if hit:
            self.counts[f"{what} {operation}"] += 1
        return hit
