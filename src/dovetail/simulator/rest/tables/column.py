"""Columns of a Table, and the cell printers that most columns use."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import format_label_selector

Cell = str | int | bool
CellPrinter = Callable[[Object, datetime], Cell | None]
"""Returns the cell of an object at a time; None is a null cell, which kubectl leaves empty."""

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


class Column(msgspec.Struct, frozen=True):
    """A column definition and its cell printer."""

    name: str
    print_cell: CellPrinter
    wide: bool = False
    """Shown only with ``-o wide`` (priority 1)."""
    type: str = "string"
    format: str = ""

    def encode_definition(self) -> dict[str, Any]:
        """Return the TableColumnDefinition in wire format."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": int(self.wide),
        }


def format_age(since: object, now: datetime) -> str:
    """Return the time since a timestamp in wire format, as kubectl prints it."""
    if not isinstance(since, str):
        return UNKNOWN
    try:
        time = datetime.fromisoformat(since)
    except ValueError:
        return UNKNOWN
    return UNKNOWN if time.tzinfo is None else format_duration(now - time)


def format_duration(duration: timedelta) -> str:
    """Return a duration in at most two units, as Kubernetes' HumanDuration."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 2:
        return f"{seconds}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _format_days(days, hours)


def _format_days(days: int, hours: int) -> str:
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def print_name(obj: Object, _: datetime) -> Cell:
    """Print the name of an object."""
    return str(obj["metadata"]["name"])


def print_age(obj: Object, now: datetime) -> Cell:
    """Print the time since the creation of an object."""
    return format_age(obj["metadata"].get("creationTimestamp"), now)


NAME: Final = Column("Name", print_name, format="name")
AGE: Final = Column("Age", print_age)


def print_text(*path: str, missing: str = "") -> CellPrinter:
    """Print a field as text."""

    def print_cell(obj: Object, _: datetime) -> Cell:
        value = get_field(obj, *path)
        return missing if value is None or value == "" else str(value)

    return print_cell


def print_int(*path: str) -> CellPrinter:
    """Print an integer field; 0 if it is missing."""
    return lambda obj, _: value if isinstance(value := get_field(obj, *path), int) else 0


def print_length(*path: str) -> CellPrinter:
    """Print the number of entries of a map or list."""
    return lambda obj, _: len(get_field(obj, *path) or ())


def print_bool(*path: str) -> CellPrinter:
    """Print a boolean field; false if it is missing."""
    return lambda obj, _: bool(get_field(obj, *path))


def print_map(*path: str) -> CellPrinter:
    """Print a map as ``key=value,…``, or ``<none>``."""

    def print_cell(obj: Object, _: datetime) -> Cell:
        entries: Mapping[str, Any] = get_field(obj, *path) or {}
        return join_or_none(f"{key}={value}" for key, value in sorted(entries.items()))

    return print_cell


def print_selector(*path: str) -> CellPrinter:
    """Print a label selector, or ``<none>``."""
    return lambda obj, _: format_label_selector(get_field(obj, *path) or {}) or NONE


def join_or_none(values: Iterable[Any], separator: str = ",") -> str:
    """Return the values joined, or ``<none>``."""
    return separator.join(str(value) for value in values) or NONE
