"""What a live object says about the fields that we want, and about no others."""

from collections.abc import Mapping
from typing import Any

from dovetail.model.quantity import parse_quantity


def projected(wanted: Any, live: Any) -> Any:
    """Return ``live`` reduced to what ``wanted`` speaks of.

    The API server fills in defaults, also inside lists, and writes quantities in
    its own way. What says the same comes out as it is wanted, so that plain
    comparison finds what differs.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return {
            key: projected(inner, live.get(key))
            for key, inner in wanted.items()
            if key in live or _is_nothing(inner)
        }
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return [projected(one, other) for one, other in zip(wanted, live, strict=True)]
    if wanted == live or (_is_nothing(wanted) and _is_nothing(live)):
        return wanted
    return wanted if _is_same_quantity(wanted, live) else live


def _is_nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def _is_same_quantity(wanted: Any, live: Any) -> bool:
    try:
        return parse_quantity(wanted) == parse_quantity(live)
    except ValueError:
        return False
