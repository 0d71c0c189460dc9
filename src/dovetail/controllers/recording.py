"""Kubernetes Events, told once: the same thing is not repeated for a while."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.amounts import show_instant
from dovetail.errors import DovetailError
from dovetail.ports.chance import Chance
from dovetail.ports.kube import Kube, Object
from dovetail.ports.loop import Loop
from dovetail.ports.resources import EVENTS, Resource
from dovetail.ports.telemetry import DEDUPE, Log

COMPONENT: Final = "karpenter"
"""Dashboards and habits look for Events of this source."""
_MOST_REMEMBERED: Final = 20_000


class Recorder:
    """``ports.telemetry.Events`` through the API server."""

    def __init__(self, *, kube: Kube, loop: Loop, chance: Chance, log: Log) -> None:
        self._kube = kube
        self._loop = loop
        self._chance = chance
        self._log = log
        self._told: dict[tuple[str, ...], datetime] = {}

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

    def _remember(self, key: tuple[str, ...], until: datetime, now: datetime) -> None:
        if len(self._told) >= _MOST_REMEMBERED:
            self._told = {known: at for known, at in self._told.items() if at > now}
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
