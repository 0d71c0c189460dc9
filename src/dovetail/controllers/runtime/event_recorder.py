"""Kubernetes Events, told once: the same thing is not repeated for a while."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.quantities import show_instant
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EVENTS, Resource
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import DEDUPE, Log

COMPONENT: Final = "karpenter"
"""Dashboards and habits look for Events of this source."""
_FEWEST_TO_SWEEP: Final = 20_000
_MANY: Final = {"Nominated": (10.0, 5.0), "Unconsolidatable": (500.0, 2.0)}
"""Reasons of which thousands are told at once, by a scale-up or a look at a large cluster.

Only so many are written: a burst, then so many a second. Of nodes that stay
the others are told at the next look, before anybody is told again.
"""
_OF_ONE_BURST, _OF_ONE_PER_SECOND = 25.0, 1 / 300
"""Of one object, whatever is told: a message with a number in it is another one each time."""


class Allowance:
    """How many may be told: a burst, then so many a second."""

    __slots__ = ("_burst", "_filled", "_left", "_per_second")

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._filled: datetime | None = None

    def take(self, now: datetime) -> bool:
        """Use one up, if there is one."""
        self._fill(now)
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_whole(self, now: datetime) -> bool:
        """Tell whether it is as if none had ever been taken."""
        self._fill(now)
        return self._left == self._burst

    def _fill(self, now: datetime) -> None:
        if self._filled is not None:
            grown = (now - self._filled).total_seconds() * self._per_second
            self._left = min(self._burst, self._left + grown)
        self._filled = now


class Recorder:
    """``ports.telemetry.Events`` through the API server."""

    def __init__(self, *, kube: Kube, loop: Loop, chance: Chance, log: Log) -> None:
        self._kube = kube
        self._loop = loop
        self._chance = chance
        self._log = log
        self._told: dict[tuple[str, ...], datetime] = {}
        self._sweep_at = _FEWEST_TO_SWEEP
        self._allowance = {reason: Allowance(*some) for reason, some in _MANY.items()}
        self._of_one: dict[tuple[str, str, str], Allowance] = {}
        self._thin_out_at = _FEWEST_TO_SWEEP

    def publish(
        self,
        resource: Resource,
        name: str,
        *,
        reason: str,
        message: str,
        namespace: str = "",
        uid: str = "",
        warning: bool = False,
        same: tuple[str, ...] = (),
        dedupe: timedelta = DEDUPE,
    ) -> None:
        """Tell something about an object, unless it was told lately."""
        now = self._loop.now()
        about = same or (resource.plural, namespace, name, message)
        key = (reason.lower(), *about)
        until = self._told.get(key)
        if until is not None and now < until:
            return
        allowance = self._allowance.get(reason)
        if allowance is not None and not allowance.take(now):
            return
        if not self._allowance_of((resource.plural, namespace, name), now).take(now):
            return
        self._remember(key, now + dedupe, now)
        event = {
            "metadata": {"name": f"{name}.{self._chance.letters(16)}"},
            "involvedObject": _reference(resource, name, namespace, uid),
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": show_instant(now),
            "lastTimestamp": show_instant(now),
            "count": 1,
        }
        self._loop.spawn(self._write(event, namespace or "default"))

    def _allowance_of(self, key: tuple[str, str, str], now: datetime) -> Allowance:
        known = self._of_one.get(key)
        if known is None:
            if len(self._of_one) >= self._thin_out_at:
                used = {one: left for one, left in self._of_one.items() if not left.is_whole(now)}
                self._of_one, self._thin_out_at = used, max(_FEWEST_TO_SWEEP, 2 * len(used))
            known = self._of_one[key] = Allowance(_OF_ONE_BURST, _OF_ONE_PER_SECOND)
        return known

    def _remember(self, key: tuple[str, ...], until: datetime, now: datetime) -> None:
        if len(self._told) >= self._sweep_at:
            self._told = {known: at for known, at in self._told.items() if at > now}
            self._sweep_at = max(_FEWEST_TO_SWEEP, 2 * len(self._told))
        self._told[key] = until

    async def _write(self, event: Object, namespace: str) -> None:
        try:
            await self._kube.create(EVENTS, event, namespace)
        except DovetailError as error:
            # Its namespace may be going away; an Event lost is no harm.
            self._log.debug("event lost", reason=event["reason"], error=str(error))


def _reference(resource: Resource, name: str, namespace: str, uid: str) -> Object:
    known = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "namespace": namespace,
        "uid": uid,
    }
    return {field: value for field, value in known.items() if value}
