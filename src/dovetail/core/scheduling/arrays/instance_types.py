"""Instance types as arrays, compiled once for every pass that sees them.

Clouds answer with the same tuple of types until something changes, and it takes
a tenth of a second to compile a region's, so that what depends on nothing else
is kept by the identity of that tuple.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering, allocatable
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import NODES, Resources

NEVER = float("inf")
_MOST_STOCKS = 32
"""Tuples of types kept; a pool of its own node class or overlays has its own."""
_MOST_KEYS = 256
"""Resources and labels kept of each; pods may name any, most name the same few."""

_Kept = TypeVar("_Kept")


class Row(NamedTuple):
    """A type, or the part of its offerings that share one allocatable."""

    type: InstanceType
    allocatable: Resources
    capacity: Resources
    offerings: tuple[Offering, ...]


class Kinds(NamedTuple):
    """What rows say about one label."""

    distinct: tuple[Requirement | None, ...]
    codes: Ints
    """For each row, which of them."""


class Stock:
    """Types and their offerings; shared, so that nobody may change it."""

    def __init__(self, types: Sequence[InstanceType]) -> None:
        ordered = sorted(types, key=lambda one: one.name)
        self.rows = tuple(row for one in ordered for row in _rows(one))
        self.columns: tuple[Requirements, ...]
        """Zone and capacity type, and what else an offering decides."""
        self.price: Floats
        """``price[row, column]``; infinite where it cannot be had."""
        self.reserved: tuple[tuple[int, Offering], ...]
        """(row, offering) of capacity that is paid for already."""
        self._price_columns()
        self._allocatable: dict[str, Floats] = {}
        self._capacity: dict[str, Floats] = {}
        self._kinds: dict[str, Kinds] = {}

    def _price_columns(self) -> None:
        known: dict[tuple[str, str, str], int] = {}
        described: list[Requirements] = []
        reserved: list[tuple[int, Offering]] = []
        rows: list[int] = []
        columns: list[int] = []
        prices: list[float] = []
        for index, row in enumerate(self.rows):
            for offering in row.offerings:
                if not offering.available:
                    continue
                if offering.capacity_type == label_keys.RESERVED:
                    if offering.reservation_capacity > 0:
                        reserved.append((index, offering))
                    continue
                key = (offering.zone, offering.capacity_type, offering.zone_id)
                column = known.get(key)
                if column is None:
                    column = known[key] = len(known)
                    described.append(offering.requirements())
                rows.append(index)
                columns.append(column)
                prices.append(offering.price)
        self.columns = tuple(described)
        self.reserved = tuple(reserved)
        self.price = np.full((len(self.rows), len(known)), NEVER)
        if prices:
            np.minimum.at(self.price, (rows, columns), prices)
        self.price.setflags(write=False)

    def allocatable(self, name: str) -> Floats:
        """Return how much of a resource each row has for DaemonSets and pods."""
        rows = self.rows
        return _kept(
            self._allocatable, name, lambda: _column(row.allocatable.get(name, 0) for row in rows)
        )

    def capacity(self, name: str) -> Floats:
        """Return what each row counts for against a limit."""
        if name == NODES:
            return np.ones(len(self.rows))
        return _kept(
            self._capacity, name, lambda: _column(row.capacity.get(name, 0) for row in self.rows)
        )

    def kinds_of(self, key: str) -> Kinds:
        """Return the distinct requirements of rows on a label, and each row's number."""
        return _kept(self._kinds, key, lambda: self._find_kinds(key))

    def _find_kinds(self, key: str) -> Kinds:
        numbers: dict[Requirement | None, int] = {}
        codes = [
            numbers.setdefault(row.type.requirements.get(key), len(numbers)) for row in self.rows
        ]
        return Kinds(tuple(numbers), np.array(codes, dtype=np.int64))


def stock_of(types: tuple[InstanceType, ...]) -> Stock:
    """Return these types compiled; the same for the same tuple."""
    return _compiled(_Same(types))


class _Same:
    """A tuple that equals only itself, and lives as long as what is known of it."""

    __slots__ = ("types",)

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.types is other.types

    def __hash__(self) -> int:
        return id(self.types)


@lru_cache(maxsize=_MOST_STOCKS)
def _compiled(same: _Same) -> Stock:
    return Stock(same.types)


def _kept(known: dict[str, _Kept], key: str, make: Callable[[], _Kept]) -> _Kept:
    found = known.get(key)
    if found is None:
        found = make()
        if len(known) >= _MOST_KEYS:
            known.clear()
        known[key] = found
    return found


def _column(amounts: Iterable[int]) -> Floats:
    made = np.fromiter(amounts, dtype=np.float64)
    made.setflags(write=False)
    return made


def _rows(one: InstanceType) -> list[Row]:
    """Split a type by the allocatable that its offerings give it (nearly always one)."""
    if not any(o.capacity_override or o.overhead_override for o in one.offerings):
        return [Row(one, one.allocatable, one.capacity, one.offerings)] if one.offerings else []
    groups: dict[tuple[Resources | None, Resources | None], list[Offering]] = {}
    for offering in one.offerings:
        key = (offering.capacity_override, offering.overhead_override)
        groups.setdefault(key, []).append(offering)
    rows = []
    for (capacity, overhead), offerings in groups.items():
        full = Resources({**one.capacity, **(capacity or {})})
        lost = Resources({**one.overhead, **(overhead or {})})
        rows.append(Row(one, allocatable(full, lost), full, tuple(offerings)))
    return rows
