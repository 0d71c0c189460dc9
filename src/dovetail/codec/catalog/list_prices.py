"""The compact tables behind our own list prices.

Three small CSV files with ``#`` comments: listed prices, families that are
priced like others, and what a region charges relative to us-east-1.
"""

import csv
from collections.abc import Iterator

from dovetail.errors import CatalogError

Table = dict[str, tuple[str, ...]]


def decode_table(text: str, *, columns: tuple[str, ...], file: str) -> Table:
    """Return first column → the other columns, in the file's order."""
    rows = _rows(text)
    header = tuple(next(rows, []))
    if header != columns:
        raise CatalogError(f"{file}: the header must be {','.join(columns)}")
    table: Table = {}
    for row in rows:
        if len(row) != len(columns):
            raise CatalogError(f"{file}: {','.join(row)!r} has not {len(columns)} fields")
        table[row[0]] = tuple(row[1:])
    return table


def comment_value(text: str, key: str) -> str:
    """Return the value of a ``# key: value`` comment, or nothing."""
    for line in text.splitlines():
        name, _, value = line.removeprefix("#").partition(":")
        if line.startswith("#") and name.strip() == key:
            return value.strip()
    return ""


def _rows(text: str) -> Iterator[list[str]]:
    return csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
