"""Rules of the leader election lease, without clock and connection.

At most one of several replicas writes at a time. Clocks of other hosts are not
trusted. A candidate measures with its own clock how long it has observed a lease
unchanged, and acquires it only after the whole lease duration. The holder
measures from the start of its last successful renewal, and stops writing a third
of the lease duration earlier. So two replicas never write at the same time,
unless one clock runs more than half as fast again as the other.

The same holds for a lease that was deleted or cleared by hand, because its holder
notices only at the next renewal: a candidate that has observed the lease waits
for its whole duration. Only a candidate that finds no lease when it starts
acquires it at once.
"""

from enum import Enum
from typing import Final

import msgspec

from dovetail.errors import DovetailError


class NotLeaderError(DovetailError):
    """A write was prevented, because another replica may be the leader."""


class LeaseLostError(DovetailError):
    """The lease could not be renewed; caches may be out of date."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds, named as in client-go."""

    lease_duration: float = 15.0
    """Other replicas may acquire a lease that was not renewed for so long."""
    renew_deadline: float = 10.0
    """The holder stops writing if it could not renew for so long."""
    retry_period: float = 2.0
    jitter: float = 0.2
    """Fraction by which each wait is extended at random."""


DEFAULT_TIMING: Final = LeaseTiming()


def scale_timing(lease_duration: float) -> LeaseTiming:
    """Return the timing of a shorter or longer lease, in the default proportions.

    Replicas with different timings are safe: candidates wait for the longer lease.
    """
    factor = lease_duration / DEFAULT_TIMING.lease_duration
    return LeaseTiming(
        lease_duration=lease_duration,
        renew_deadline=DEFAULT_TIMING.renew_deadline * factor,
        retry_period=DEFAULT_TIMING.retry_period * factor,
    )


RELEASED_DURATION: Final = 1
"""``leaseDurationSeconds`` of a released lease; the same as client-go writes."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a Lease."""

    holder: str = ""
    """Empty: released, or cleared by hand."""
    duration: float = 0.0
    """Seconds; one or less if its holder released it."""
    transitions: int = 0
    resource_version: str = ""
    """Changes with every write."""

    @property
    def is_released(self) -> bool:
        """Return True if the holder released the lease."""
        return not self.holder and self.duration <= RELEASED_DURATION


class LeaseAction(Enum):
    """Next step of a candidate."""

    CREATE = "no lease exists"
    ACQUIRE = "the lease has expired or was released"
    RENEW = "we hold the lease"
    WAIT = "another replica holds the lease"


class LeaseCandidate:
    """State of one replica in the election.

    ``now`` is always a time of one monotonic clock of this host, which continues
    while the process or the host is suspended.
    """

    def __init__(self, identity: str, timing: LeaseTiming = DEFAULT_TIMING) -> None:
        self.identity = identity
        self._timing = timing
        self._observed: LeaseRecord | None = None
        self._observed_since: float | None = None
        """When the record was first observed as it is; None if there never was one."""
        self._leader_until: float | None = None
        """End of our leadership unless we renew; None before the first write."""
        self._is_resigned = False

    @property
    def observed(self) -> LeaseRecord | None:
        """Return the lease as it was last read or written."""
        return self._observed

    def observe(self, record: LeaseRecord | None, *, now: float) -> None:
        """Record a response of the API server, received before ``now``."""
        if _version(record) != _version(self._observed):
            self._observed_since = now
        self._observed = record

    def next_action(self, *, now: float) -> LeaseAction:
        """Return the next step for the lease as it was last observed."""
        record = self._observed
        if record is not None and record.holder == self.identity:
            return LeaseAction.RENEW
        if record is not None and record.is_released:
            return LeaseAction.ACQUIRE
        # A holder with a longer lease duration relies on it.
        duration = max(record.duration if record else 0.0, self._timing.lease_duration)
        if self._observed_since is not None and now - self._observed_since <= duration:
            return LeaseAction.WAIT
        return LeaseAction.CREATE if record is None else LeaseAction.ACQUIRE

    def record_write(self, record: LeaseRecord, *, started: float, now: float) -> None:
        """Record a successful write of the lease, which was sent at ``started``.

        A replica that has lost the lease once never leads again, even if no other
        replica acquired it: writes that the fence prevented would be missing.
        """
        self.observe(record, now=now)
        if self._leader_until is not None and started >= self._leader_until:
            self._is_resigned = True
        if not self._is_resigned:
            self._leader_until = started + self._timing.renew_deadline

    def has_lost(self, *, now: float) -> bool:
        """Return True if we held the lease and may not hold it any more."""
        if self._leader_until is None:
            return False
        is_taken = self._observed is None or self._observed.holder != self.identity
        return self._is_resigned or is_taken or now >= self._leader_until

    def is_leader(self, *, now: float) -> bool:
        """Return True if no other replica can be the leader at ``now``."""
        return self._leader_until is not None and not self.has_lost(now=now)

    def resign(self) -> None:
        """Stop leading."""
        self._is_resigned = True


def _version(record: LeaseRecord | None) -> str:
    return "" if record is None else record.resource_version
