"""Decoder and encoder of status conditions."""

from datetime import UTC, datetime
from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.quantities import decode_time, encode_time
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, READY, Condition, Conditions

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def decode_conditions(field: Field) -> Conditions:
    """Decode a list of conditions; a missing observedGeneration is 0."""
    if not field.value:
        return NO_CONDITIONS
    return FrozenDict(
        {
            item.text_of("type"): Condition(
                status=item.text_of("status"),
                reason=item.text_of("reason"),
                message=item.text_of("message"),
                last_transition_time=decode_time(item["lastTransitionTime"]),
                observed_generation=item["observedGeneration"].integer() or 0,
            )
            for item in field.items()
        }
    )


def encode_conditions(conditions: Conditions, *, root: str = READY) -> list[dict[str, Any]]:
    """Encode conditions by transition time, the root condition last."""
    ordered = sorted(
        conditions.items(),
        key=lambda item: (item[0] == root, item[1].last_transition_time or _LONG_AGO, item[0]),
    )
    return [_encode_condition(kind, condition) for kind, condition in ordered]


def _encode_condition(kind: str, condition: Condition) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "type": kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.last_transition_time:
        encoded["lastTransitionTime"] = encode_time(condition.last_transition_time)
    if condition.observed_generation:
        encoded["observedGeneration"] = condition.observed_generation
    return encoded
