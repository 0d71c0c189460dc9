"""Decodes EventBridge events of the interruption queue as ``InterruptionMessage``."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.ports.cloudprovider import InterruptionKind, InterruptionMessage

_STATES: Final = {
    "stopping": InterruptionKind.INSTANCE_STOPPED,
    "stopped": InterruptionKind.INSTANCE_STOPPED,
    "shutting-down": InterruptionKind.INSTANCE_TERMINATED,
    "terminated": InterruptionKind.INSTANCE_TERMINATED,
}
"""Instance states that end a node."""


class InvalidMessageError(DovetailError):
    """A message is not an EventBridge event."""


class _Envelope(msgspec.Struct, frozen=True):
    """Fields that all EventBridge events have."""

    version: str = ""
    source: str = ""
    detail_type: str = msgspec.field(default="", name="detail-type")
    time: str = ""
    detail: msgspec.Raw = msgspec.Raw(b"{}")


class _InstanceDetail(msgspec.Struct, frozen=True):
    instance_id: str = msgspec.field(name="instance-id")
    state: str = ""


class _Entity(msgspec.Struct, frozen=True):
    value: str = msgspec.field(default="", name="entityValue")


class _HealthDetail(msgspec.Struct, frozen=True):
    service: str = ""
    category: str = msgspec.field(default="", name="eventTypeCategory")
    entities: tuple[_Entity, ...] | None = msgspec.field(default=(), name="affectedEntities")


_Decoded = tuple[InterruptionKind, tuple[str, ...]]
_NO_OP: Final[_Decoded] = (InterruptionKind.NO_OP, ())


def decode_message(body: str, *, receipt_handle: str) -> InterruptionMessage:
    """Decode a message; raise ``InvalidMessageError`` if it is malformed.

    Well-formed events of no interest are ``InterruptionKind.NO_OP``.
    """
    if not body.strip():
        return InterruptionMessage(id=receipt_handle, kind=InterruptionKind.NO_OP)
    try:
        event = msgspec.json.decode(body, type=_Envelope)
        decode = _DECODERS.get((event.version, event.source, event.detail_type))
        kind, instances = _NO_OP if decode is None else decode(event.detail)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidMessageError(str(error)) from error
    return InterruptionMessage(
        id=receipt_handle, kind=kind, instance_ids=instances, sent_at=_parse_time(event.time)
    )


def _instance_event(kind: InterruptionKind) -> Callable[[msgspec.Raw], _Decoded]:
    def decode(detail: msgspec.Raw) -> _Decoded:
        return kind, (msgspec.json.decode(detail, type=_InstanceDetail).instance_id,)

    return decode


def _state_change(detail: msgspec.Raw) -> _Decoded:
    payload = msgspec.json.decode(detail, type=_InstanceDetail)
    kind = _STATES.get(payload.state.lower())
    return _NO_OP if kind is None else (kind, (payload.instance_id,))


def _health(detail: msgspec.Raw) -> _Decoded:
    payload = msgspec.json.decode(detail, type=_HealthDetail)
    if (payload.service, payload.category) != ("EC2", "scheduledChange"):
        return _NO_OP
    entities = payload.entities or ()
    return InterruptionKind.SCHEDULED_CHANGE, tuple(entity.value for entity in entities)


def _parse_time(text: str) -> datetime | None:
    """Return the time of an event; None if it is malformed, which is no error."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_INSTANCE_EVENTS: Final = {
    "EC2 Spot Instance Interruption Warning": InterruptionKind.SPOT_INTERRUPTED,
    "EC2 Instance Rebalance Recommendation": InterruptionKind.REBALANCE_RECOMMENDATION,
    "EC2 Capacity Reservation Instance Interruption Warning": (
        InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED
    ),
}
"""Detail type of events that name one instance → kind."""
_DECODERS: Final[dict[tuple[str, str, str], Callable[[msgspec.Raw], _Decoded]]] = {
    **{("0", "aws.ec2", title): _instance_event(kind) for title, kind in _INSTANCE_EVENTS.items()},
    ("0", "aws.ec2", "EC2 Instance State-change Notification"): _state_change,
    ("0", "aws.health", "AWS Health Event"): _health,
}
