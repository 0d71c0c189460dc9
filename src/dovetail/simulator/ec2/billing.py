"""Billing: every launch, with its price, and the total cost."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.instancetypes.discounts import OfferingKey

_NANO: Final = 1_000_000_000
"""Nano-dollars per dollar."""
_HOUR: Final = 3600 * 1_000_000
"""In microseconds."""


class LaunchRecord(msgspec.Struct, kw_only=True):
    """One instance from launch to termination."""

    claim: str
    claim_uid: str
    provider_id: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    """USD per hour; with a tariff, what it added to the bill when it began to run."""
    launched: datetime
    running: datetime | None = None
    """When billing began."""
    shutting_down: datetime | None = None
    """When billing ended."""
    terminated: datetime | None = None


class Billing:
    """Every launch in order; sums are exact, in whole nano-dollars."""

    def __init__(self) -> None:
        self._launches: list[LaunchRecord] = []
        self._rate = 0
        self._spent = 0
        """Nano-dollars per hour, times microseconds."""
        self._since: datetime | None = None
        self.listeners: list[Callable[[LaunchRecord], None]] = []
        """Called for every launch and every shutdown."""
        self.instance_count = 0
        """Number of instances that were launched and are not shutting down."""
        self.instance_counts: Counter[OfferingKey] = Counter()
        """The same, by instance type, zone and capacity type."""
        self._running: Counter[OfferingKey] = Counter()
        self.tariff: Callable[[Mapping[OfferingKey, int]], float] | None = None
        """Cost per hour in USD of all running instances; None: the sum of their prices."""

    @property
    def launches(self) -> Sequence[LaunchRecord]:
        return self._launches

    def record_launch(self, launch: LaunchRecord) -> None:
        self._launches.append(launch)
        self.instance_count += 1
        self.instance_counts[_place(launch)] += 1
        self._notify(launch)

    def record_running(self, launch: LaunchRecord, *, now: datetime) -> None:
        """Bill an instance from now on."""
        self._accrue(now)
        launch.running = now
        self._running[_place(launch)] += 1
        if self.tariff is None:
            self._rate += _hourly_rate(launch)
            return
        before, self._rate = self._rate, round(self.tariff(self._running) * _NANO)
        launch.price = (self._rate - before) / _NANO

    def record_existing(self, launches: Iterable[LaunchRecord], *, now: datetime) -> None:
        """Bill instances from now on that were launched before."""
        self._accrue(now)
        for launch in launches:
            launch.running = now
            self._launches.append(launch)
            self.instance_count += 1
            self.instance_counts[_place(launch)] += 1
            self._running[_place(launch)] += 1
            if self.tariff is None:
                self._rate += _hourly_rate(launch)
            self._notify(launch)
        if self.tariff is not None:
            self._rate = round(self.tariff(self._running) * _NANO)

    def record_shutdown(self, launch: LaunchRecord, *, now: datetime) -> None:
        """Stop billing an instance."""
        self._accrue(now)
        launch.shutting_down = now
        self.instance_count -= 1
        _decrement(self.instance_counts, _place(launch))
        if launch.running is not None:
            _decrement(self._running, _place(launch))
            if self.tariff is None:
                self._rate -= _hourly_rate(launch)
            else:
                self._rate = round(self.tariff(self._running) * _NANO)
        self._notify(launch)

    def forget_terminated(self, before: datetime) -> int:
        """Drop launches that were terminated before a time; return their number.

        The cost stays. For runs of weeks, which would keep thousands of them.
        """
        kept = [
            launch for launch in self._launches if launch.terminated is None or launch.terminated >= before
        ]
        dropped = len(self._launches) - len(kept)
        self._launches = kept
        return dropped

    def price_per_hour(self) -> float:
        """Return the current price of all running instances, in USD per hour."""
        return self._rate / _NANO

    def cost(self, now: datetime) -> float:
        """Return the cost so far, in USD."""
        self._accrue(now)
        return self._spent / _NANO / _HOUR

    def claims_launched_twice(self) -> list[str]:
        """Return the UIDs of NodeClaims with more than one launch."""
        counts = Counter(launch.claim_uid for launch in self._launches)
        return sorted(uid for uid, many in counts.items() if many > 1)

    def _notify(self, launch: LaunchRecord) -> None:
        for listener in self.listeners:
            listener(launch)

    def _accrue(self, now: datetime) -> None:
        if self._since is not None:
            self._spent += self._rate * ((now - self._since) // timedelta(microseconds=1))
        self._since = now


def _place(launch: LaunchRecord) -> OfferingKey:
    return (launch.instance_type, launch.zone, launch.capacity_type)


def _decrement(counts: Counter[OfferingKey], place: OfferingKey) -> None:
    counts[place] -= 1
    if not counts[place]:
        del counts[place]


def _hourly_rate(launch: LaunchRecord) -> int:
    return round(launch.price * _NANO)
