"""The catalogue of one NodePool, compiled into arrays.

``alloc[row, resource]`` is what pods can have of a type once its DaemonSets are
there; ``price[row, column]`` is the price through an offering column (zone and
capacity type), infinite where it cannot be had.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays import Bools, Floats
from dovetail.model import labels as label_keys
from dovetail.model.catalog import InstanceType, Offering, allocatable
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Operator, Requirement, Requirements
from dovetail.model.resources import NODES, Resources

NEVER = float("inf")


class Row(NamedTuple):
    """A type, or the part of its offerings that share one allocatable."""

    type: InstanceType
    allocatable: Resources
    capacity: Resources
    offerings: tuple[Offering, ...]


class PoolTable:
    """What one NodePool could buy, as arrays."""

    def __init__(
        self,
        pool: NodePool,
        types: Sequence[InstanceType],
        axis: Sequence[str],
        *,
        reservations: bool = True,
    ) -> None:
        self.pool = pool
        self.base = pool.requirements()
        self._reservations = reservations
        self.rows = [row for one in sorted(types, key=lambda t: t.name) for row in _rows(one)]
        self.axis = tuple(axis)
        self.alloc: Floats = _matrix((row.allocatable for row in self.rows), axis, len(self.rows))
        self.daemon_requests: list[Resources] = [Resources()] * len(self.rows)
        self.columns: list[Requirements] = []
        self.price: Floats
        self.reserved: list[tuple[int, Offering]] = []
        """(row, offering) of capacity that is paid for already."""
        self._price_columns()
        self._masks: dict[Requirement, Bools] = {}
        self._column_masks: dict[Requirement, Bools] = {}
        self._codes: dict[
            str, tuple[list[Requirement | None], np.ndarray[tuple[int], np.dtype[np.int64]]]
        ] = {}

    def charge_daemons(self, requests: Sequence[Resources]) -> None:
        """Take each row's DaemonSets off what pods can have."""
        self.daemon_requests = list(requests)
        self.alloc = self.alloc - _matrix(requests, self.axis, len(self.rows))
        for index, (row, asked) in enumerate(zip(self.rows, requests, strict=True)):
            if not asked.fits_in(row.allocatable):
                self.alloc[index] = -1.0  # Its DaemonSets alone are too much for it.

    def _price_columns(self) -> None:
        known: dict[tuple[str, str, str], int] = {}
        rows: list[int] = []
        columns: list[int] = []
        prices: list[float] = []
        for index, row in enumerate(self.rows):
            for offering in row.offerings:
                if not offering.available:
                    continue
                if offering.capacity_type == label_keys.RESERVED:
                    if self._reservations and offering.reservation_capacity > 0:
                        self.reserved.append((index, offering))
                    continue
                key = (offering.zone, offering.capacity_type, offering.zone_id)
                column = known.get(key)
                if column is None:
                    column = known[key] = len(known)
                    self.columns.append(offering.requirements())
                rows.append(index)
                columns.append(column)
                prices.append(offering.price)
        self.price = np.full((len(self.rows), len(known)), NEVER)
        if prices:
            np.minimum.at(self.price, (rows, columns), prices)

    def rows_allowing(self, one: Requirement) -> Bools:
        """Return which rows have a value that ``one`` allows (or do not know the key)."""
        mask = self._masks.get(one)
        if mask is None:
            kinds, codes = self._kinds_of(one.key)
            fine = [kind is None or _together(one, kind) for kind in kinds]
            mask = self._masks[one] = np.array(fine, dtype=bool)[codes]
        return mask

    def _kinds_of(
        self, key: str
    ) -> tuple[list[Requirement | None], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Return the distinct requirements of rows on ``key``, and each row's number."""
        known = self._codes.get(key)
        if known is None:
            numbers: dict[Requirement | None, int] = {}
            codes = [
                numbers.setdefault(row.type.requirements.get(key), len(numbers))
                for row in self.rows
            ]
            known = self._codes[key] = (list(numbers), np.array(codes, dtype=np.int64))
        return known

    def columns_allowing(self, one: Requirement) -> Bools:
        mask = self._column_masks.get(one)
        if mask is None:
            fine = [
                one.key not in column or _together(one, column[one.key]) for column in self.columns
            ]
            mask = self._column_masks[one] = np.array(fine, dtype=bool)
        return mask

    def values_of(self, key: str) -> set[str]:
        """Return the values of ``key`` that nodes of this pool could have."""
        wanted = self.base.get(key)
        found: set[str] = set(wanted.values) if wanted and not wanted.complement else set()
        kinds: list[Requirement | None] = [*self._kinds_of(key)[0]]
        kinds += [column.get(key) for column in self.columns]
        for kind in kinds:
            if kind is not None and not kind.complement:
                found |= {v for v in kind.values if wanted is None or wanted.has(v)}
        if not found and wanted is not None and key not in label_keys.WELL_KNOWN:
            found = {some_value(wanted)} - {""}  # The value its nodes will be given.
        return found if self._reservations else found - {label_keys.RESERVED}

    def defines(self, key: str) -> bool:
        """Tell whether a type's own label decides the value of ``key``."""
        return any(kind is not None for kind in self._kinds_of(key)[0])

    def capacities(self, names: Sequence[str]) -> Floats:
        """Return the full capacity of each row, for comparison with limits."""
        return _matrix(
            (Resources({**row.capacity, NODES: 1}) for row in self.rows), names, len(self.rows)
        )


def _together(one: Requirement, other: Requirement) -> bool:
    return one.overlaps(other) or (one.tolerates_absence and other.tolerates_absence)


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


def _matrix(many: Iterable[Mapping[str, int]], axis: Sequence[str], count: int) -> Floats:
    table = np.zeros((count, len(axis)))
    for index, one in enumerate(many):
        for place, name in enumerate(axis):
            table[index, place] = one.get(name, 0)
    return table


def some_value(one: Requirement) -> str:
    """Return a value that a requirement allows: the first by name, or the smallest number."""
    if one.operator is Operator.IN:
        return min(one.values)
    if one.operator is Operator.DOES_NOT_EXIST:
        return ""
    number = one.gte if one.gte is not None else 0
    while str(number) in one.values:
        number += 1
    return str(number) if one.has(str(number)) else ""


def vector(amounts: Mapping[str, int], axis: Sequence[str]) -> Floats:
    """Write amounts as an array along ``axis``."""
    return np.array([float(amounts.get(name, 0)) for name in axis])
