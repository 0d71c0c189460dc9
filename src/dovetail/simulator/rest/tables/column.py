"""One column of a Table, and what many columns are made of."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.selectors import selector_text
from dovetail.simulator.rest.tables.ages import age

Cell = str | int | bool
Show = Callable[[Object, datetime], Cell]
"""What stands in a column for an object, now."""

NONE: Final = "<none>"


class Column(msgspec.Struct, frozen=True):
    """A heading and what stands below it."""

    name: str
    show: Show
    wide: bool = False
    """Shown with ``-o wide`` only."""
    type: str = "string"
    format: str = ""

    def definition(self) -> dict[str, Any]:
        """Return the column's definition in the wire format."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": int(self.wide),
        }


def name_of(obj: Object, _: datetime) -> Cell:
    """Show an object's name."""
    return str(obj["metadata"]["name"])


def age_of(obj: Object, now: datetime) -> Cell:
    """Show how long ago an object was created."""
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME: Final = Column("Name", name_of, format="name")
AGE: Final = Column("Age", age_of)


def text(*path: str, missing: str = "") -> Show:
    """Show a field as text."""

    def show(obj: Object, _: datetime) -> Cell:
        value = look(obj, *path)
        return missing if value is None or value == "" else str(value)

    return show


def count(*path: str) -> Show:
    """Show a number; what is not there counts nothing."""

    def show(obj: Object, _: datetime) -> Cell:
        value = look(obj, *path)
        return value if isinstance(value, int) else 0

    return show


def size(*path: str) -> Show:
    """Show how many entries a map or list has."""

    def show(obj: Object, _: datetime) -> Cell:
        return len(look(obj, *path) or ())

    return show


def yes_or_no(*path: str) -> Show:
    """Show a truth value."""

    def show(obj: Object, _: datetime) -> Cell:
        return bool(look(obj, *path))

    return show


def condition(kind: str) -> Show:
    """Show the status of a condition."""

    def show(obj: Object, _: datetime) -> Cell:
        for one in look(obj, "status", "conditions") or ():
            if one.get("type") == kind:
                return str(one.get("status", ""))
        return ""

    return show


def label(key: str) -> Show:
    """Show the value of a label."""

    def show(obj: Object, _: datetime) -> Cell:
        return str((obj["metadata"].get("labels") or {}).get(key, ""))

    return show


def selector(obj: Object, _: datetime) -> Cell:
    """Show a workload's label selector."""
    return selector_text(look(obj, "spec", "selector") or {}) or NONE


def joined(values: Iterable[Any], between: str = ",") -> str:
    """Write a list, or that it is empty."""
    return between.join(str(one) for one in values) or NONE


def pairs(entries: Mapping[str, Any] | None) -> str:
    """Write a map, or that it is empty."""
    return joined(f"{key}={value}" for key, value in sorted((entries or {}).items()))
