"""Printer columns of custom resources, from additionalPrinterColumns of their CRDs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dovetail.codec.crds.definition import Column as CrdColumn
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.ports.api_resources import Resource, find_resource
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.tables.column import NAME, Cell, CellPrinter, Column, format_age

_PATH_ELEMENT: Final = re.compile(
    r"""\[(?P<index>\d+)\]                                                  # [0]
    |\.(?P<name>(?:[^.\[\\]|\\.)+)                                       # .field or .a\.b
    |\[\?\(@\.(?P<key>\w+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]  # [?(@.type=="x")]
    """,
    re.VERBOSE,
)
"""The part of JSONPath that printer columns use."""

_PathElement = str | int | tuple[str, str]
"""Name of a field, index of a list item, or field and value of the list item to select."""
_UNKNOWN_PATH: Final[tuple[_PathElement, ...]] = ("",)


def custom_resource_columns() -> Iterator[tuple[Resource, tuple[Column, ...]]]:
    """Yield the columns of each custom resource; as in Kubernetes, the name is the first."""
    for crd in DEFINITIONS:
        resource = find_resource(f"{crd.group}/{crd.version}", crd.kind)
        if resource is not None:
            yield resource, (NAME, *map(_column, crd.columns))


def definition_columns(columns: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of a client's CustomResourceDefinition.

    A column whose JSONPath is not supported is left empty.
    """
    printed = []
    for column in columns:
        try:
            path = _parse_json_path(column["jsonPath"])
        except ValueError:
            path = _UNKNOWN_PATH
        printer = _cell_printer(column["type"], path)
        is_wide = bool(column.get("priority"))
        printed.append(Column(column["name"], printer, wide=is_wide, type=column["type"]))
    return (NAME, *printed)


def _column(column: CrdColumn) -> Column:
    printer = _cell_printer(column.type, _parse_json_path(column.path))
    return Column(column.name, printer, wide=column.wide, type=column.type)


def _parse_json_path(path: str) -> tuple[_PathElement, ...]:
    elements: list[_PathElement] = []
    end = 0
    while end < len(path):
        match = _PATH_ELEMENT.match(path, end)
        if match is None:
            raise ValueError(f"unsupported JSONPath: {path}")
        if match["index"]:
            elements.append(int(match["index"]))
        elif match["name"]:
            elements.append(re.sub(r"\\(.)", r"\1", match["name"]))
        else:
            elements.append((match["key"], match["value"]))
        end = match.end()
    return tuple(elements)


def _cell_printer(column_type: str, path: Sequence[_PathElement]) -> CellPrinter:
    def print_cell(obj: Object, now: datetime) -> Cell | None:
        value = _find_value(obj, path)
        # A missing value is a null cell, which kubectl leaves empty.
        if value is None:
            return None
        if column_type == "date":
            return format_age(value, now)
        if column_type == "integer":
            return value if isinstance(value, int) else None
        return str(value)

    return print_cell


def _find_value(value: Any, path: Sequence[_PathElement]) -> Any:
    for element in path:
        if isinstance(element, str):
            value = value.get(element) if isinstance(value, dict) else None
        elif isinstance(element, int):
            value = value[element] if isinstance(value, list) and len(value) > element else None
        else:
            key, expected = element
            items = value if isinstance(value, list) else ()
            value = next((item for item in items if item.get(key) == expected), None)
    return value
