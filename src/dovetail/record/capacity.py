"""Interruptions and capacity errors, from Events of the autoscaler.

Karpenter and Dovetail publish the same reasons on NodeClaims. An Event names the NodeClaim
only; its labels and requirements say which offering was hit.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.model import labels as label_keys
from dovetail.trace.model import CapacityError, Event, Interruption

INTERRUPTED: Final = ("SpotInterrupted", "CapacityReservationInstanceInterrupted", "InstanceUnhealthy")
NO_CAPACITY: Final = "InsufficientCapacityError"
FIELDS: Final = "involvedObject.kind=NodeClaim"
"""Field selector of the Events to list."""
_MAX_CLAIMS: Final = 5000
"""NodeClaims that are remembered: one without capacity is deleted before its Event is read."""
_MAX_SEEN: Final = 20_000
_MAX_OFFERINGS: Final = 200
_OFFERING: Final = re.compile(r"\b([a-z][a-z0-9-]*\.[a-z0-9-]+)/(spot|on-demand|reserved)/([a-z0-9-]+)\b")
"""An offering in a message: m5.large/spot/us-east-1a."""


class CapacityObserver:
    """Turns Events of NodeClaims into events of a trace."""

    def __init__(self) -> None:
        self._claims: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()

    def observe_claim(self, claim: Mapping[str, Any]) -> None:
        """Remember where a NodeClaim runs or may run."""
        name = str(claim["metadata"]["name"])
        self._claims[name] = claim
        self._claims.move_to_end(name)
        while len(self._claims) > _MAX_CLAIMS:
            self._claims.popitem(last=False)

    def skip(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Ignore Events that are older than the recording."""
        for event in events:
            self._is_new(event)

    def observe(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        """Yield what new Events say, at time 0."""
        for event in events:
            reason = event.get("reason")
            if reason not in INTERRUPTED and reason != NO_CAPACITY:
                continue
            claim = self._claims.get(str((event.get("involvedObject") or {}).get("name")))
            if not self._is_new(event) or claim is None:
                continue
            if reason == NO_CAPACITY:
                yield from _capacity_errors(str(event.get("message") or ""), claim)
            else:
                yield _interruption(claim)

    def _is_new(self, event: Mapping[str, Any]) -> bool:
        """Return True once for each occurrence; the API server counts repetitions."""
        count = (event.get("series") or {}).get("count") or event.get("count") or 1
        key = (str((event.get("metadata") or {}).get("uid")), int(count))
        if key in self._seen:
            return False
        self._seen[key] = None
        while len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        return True


def _interruption(claim: Mapping[str, Any]) -> Interruption:
    labels = claim["metadata"].get("labels") or {}
    return Interruption(
        t=0,
        instance_type=labels.get(label_keys.INSTANCE_TYPE, "*"),
        zone=labels.get(label_keys.ZONE, "*"),
        capacity_type=labels.get(label_keys.CAPACITY_TYPE, "spot"),
        count=1,
    )


def _capacity_errors(message: str, claim: Mapping[str, Any]) -> Iterator[CapacityError]:
    """Yield the offerings that the message names; else all that the NodeClaim allows."""
    named = _OFFERING.findall(message)
    if named and "more offerings" not in message:
        for instance_type, capacity_type, zone in named:
            yield CapacityError(t=0, instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        return
    allowed = {
        requirement.get("key"): requirement.get("values") or ["*"]
        for requirement in (claim.get("spec") or {}).get("requirements") or ()
        if requirement.get("operator") == "In"
    }
    offerings = (
        CapacityError(t=0, instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        for instance_type in allowed.get(label_keys.INSTANCE_TYPE, ())
        for zone in allowed.get(label_keys.ZONE, ("*",))
        for capacity_type in allowed.get(label_keys.CAPACITY_TYPE, ("*",))
    )
    for _, error in zip(range(_MAX_OFFERINGS), offerings, strict=False):
        yield error
