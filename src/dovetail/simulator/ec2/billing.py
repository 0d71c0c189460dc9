"""What was bought, for whom, and what it costs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.instancetypes.discounts import Place

_NANO: Final = 1_000_000_000
_HOUR: Final = 3600 * 1_000_000
"""In microseconds."""


class Purchase(msgspec.Struct, kw_only=True):
    """One launch, to its end."""

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
    """When it began to cost."""
    shutting_down: datetime | None = None
    """When it ceased to cost."""
    terminated: datetime | None = None


class Ledger:
    """Every launch in order; sums are kept exact, in whole nano-dollars."""

    def __init__(self) -> None:
        self._purchases: list[Purchase] = []
        self._rate = 0
        self._spent = 0
        """Nano-dollars an hour, times microseconds."""
        self._since: datetime | None = None
        self.listeners: list[Callable[[Purchase], None]] = []
        """Told of every launch and of every end."""
        self.machines = 0
        """How many were launched and not yet told to end."""
        self.held: Counter[Place] = Counter()
        """The same, by type, zone and capacity type."""
        self._running: Counter[Place] = Counter()
        self.tariff: Callable[[Mapping[Place, int]], float] | None = None
        """What an hour of all that runs costs, in USD; None: the sum of the prices."""

    @property
    def purchases(self) -> Sequence[Purchase]:
        return self._purchases

    def launched(self, purchase: Purchase) -> None:
        self._purchases.append(purchase)
        self.machines += 1
        self.held[_place(purchase)] += 1
        self._tell(purchase)

    def runs(self, purchase: Purchase, *, now: datetime) -> None:
        """Let an instance cost from now on."""
        self._settle(now)
        purchase.running = now
        self._running[_place(purchase)] += 1
        if self.tariff is None:
            self._rate += _rate_of(purchase)
            return
        before, self._rate = self._rate, round(self.tariff(self._running) * _NANO)
        purchase.price = (self._rate - before) / _NANO

    def shuts_down(self, purchase: Purchase, *, now: datetime) -> None:
        """Let it cost no more."""
        self._settle(now)
        purchase.shutting_down = now
        self.machines -= 1
        _less(self.held, _place(purchase))
        if purchase.running is not None:
            _less(self._running, _place(purchase))
            if self.tariff is None:
                self._rate -= _rate_of(purchase)
            else:
                self._rate = round(self.tariff(self._running) * _NANO)
        self._tell(purchase)

    def price_per_hour(self) -> float:
        """Return what all that runs costs, in USD."""
        return self._rate / _NANO

    def cost(self, now: datetime) -> float:
        """Return what was spent so far, in USD."""
        self._settle(now)
        return self._spent / _NANO / _HOUR

    def bought_twice(self) -> list[str]:
        """Return the uids of claims for which more than one instance was launched."""
        counts = Counter(one.claim_uid for one in self._purchases)
        return sorted(uid for uid, many in counts.items() if many > 1)

    def _tell(self, purchase: Purchase) -> None:
        for listener in self.listeners:
            listener(purchase)

    def _settle(self, now: datetime) -> None:
        if self._since is not None:
            self._spent += self._rate * ((now - self._since) // timedelta(microseconds=1))
        self._since = now


def _place(purchase: Purchase) -> Place:
    return (purchase.instance_type, purchase.zone, purchase.capacity_type)


def _less(counts: Counter[Place], place: Place) -> None:
    counts[place] -= 1
    if not counts[place]:
        del counts[place]


def _rate_of(purchase: Purchase) -> int:
    return round(purchase.price * _NANO)
