"""Status conditions on the wire, read and written."""

from datetime import UTC, datetime
from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.quantities import instant, show_instant
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, Condition, Conditions

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def conditions(field: Field) -> Conditions:
    """Read a list of conditions; kinds that have no generation say 0."""
    if not field.value:
        return NO_CONDITIONS
    return FrozenDict(
        {
            one["type"].text(): Condition(
                status=one["status"].text(),
                reason=one["reason"].text(),
                message=one["message"].text(),
                since=instant(one["lastTransitionTime"]),
                generation=one["observedGeneration"].whole() or 0,
            )
            for one in field.items()
        }
    )


def show_conditions(known: Conditions, *, root: str = "Ready") -> list[dict[str, Any]]:
    """Write conditions in the order in which they came about, the root last."""
    ordered = sorted(
        known.items(), key=lambda item: (item[0] == root, item[1].since or _LONG_AGO, item[0])
    )
    return [_show(kind, condition) for kind, condition in ordered]


def _show(kind: str, condition: Condition) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": show_instant(condition.since),
        "observedGeneration": condition.generation,
    }
    return {name: value for name, value in shown.items() if value or name in ("reason", "message")}
