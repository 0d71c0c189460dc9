"""What arrives in the interruption queue, understood: EventBridge's JSON into ``Message``."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.ports.cloudprovider import Interruption, Message

_STATES: Final = {
    "stopping": Interruption.STOPPING,
    "stopped": Interruption.STOPPING,
    "shutting-down": Interruption.TERMINATING,
    "terminated": Interruption.TERMINATING,
}
"""Of an instance's states, those that a node does not survive."""


class Unreadable(DovetailError):
    """A message is not what EventBridge sends."""


class _Envelope(msgspec.Struct, frozen=True):
    """What all events have around them."""

    version: str = ""
    source: str = ""
    detail_type: str = msgspec.field(default="", name="detail-type")
    time: str = ""
    detail: msgspec.Raw = msgspec.Raw(b"{}")


class _OfInstance(msgspec.Struct, frozen=True):
    instance_id: str = msgspec.field(name="instance-id")
    state: str = ""


class _Entity(msgspec.Struct, frozen=True):
    value: str = msgspec.field(default="", name="entityValue")


class _OfHealth(msgspec.Struct, frozen=True):
    service: str = ""
    category: str = msgspec.field(default="", name="eventTypeCategory")
    entities: tuple[_Entity, ...] | None = msgspec.field(default=(), name="affectedEntities")


_Meaning = tuple[Interruption, tuple[str, ...]]
_NOTHING: Final[_Meaning] = (Interruption.NOTHING, ())


def parse(body: str, *, receipt: str) -> Message:
    """Return what a message says; raises ``Unreadable``.

    What is well-formed but no concern of ours is ``Interruption.NOTHING``.
    """
    if not body.strip():
        return Message(id=receipt, kind=Interruption.NOTHING)
    try:
        event = msgspec.json.decode(body, type=_Envelope)
        read = _READERS.get((event.version, event.source, event.detail_type))
        kind, instances = _NOTHING if read is None else read(event.detail)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unreadable(str(error)) from error
    return Message(id=receipt, kind=kind, instance_ids=instances, sent=_moment(event.time))


def _warning(kind: Interruption) -> Callable[[msgspec.Raw], _Meaning]:
    def read(detail: msgspec.Raw) -> _Meaning:
        return kind, (msgspec.json.decode(detail, type=_OfInstance).instance_id,)

    return read


def _state_change(detail: msgspec.Raw) -> _Meaning:
    told = msgspec.json.decode(detail, type=_OfInstance)
    kind = _STATES.get(told.state.lower())
    return _NOTHING if kind is None else (kind, (told.instance_id,))


def _health(detail: msgspec.Raw) -> _Meaning:
    told = msgspec.json.decode(detail, type=_OfHealth)
    if (told.service, told.category) != ("EC2", "scheduledChange"):
        return _NOTHING
    entities = told.entities or ()
    return Interruption.SCHEDULED_CHANGE, tuple(one.value for one in entities)


def _moment(told: str) -> datetime | None:
    """Read when an event happened; a warning is not less true for an odd date."""
    try:
        moment = datetime.fromisoformat(told)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_READERS: Final[dict[tuple[str, str, str], Callable[[msgspec.Raw], _Meaning]]] = {
    ("0", source, title): read
    for source, title, read in (
        ("aws.ec2", "EC2 Spot Instance Interruption Warning", _warning(Interruption.SPOT)),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation", _warning(Interruption.REBALANCE)),
        ("aws.ec2", "EC2 Instance State-change Notification", _state_change),
        (
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
            _warning(Interruption.RESERVATION),
        ),
        ("aws.health", "AWS Health Event", _health),
    )
}
