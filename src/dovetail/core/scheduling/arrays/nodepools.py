"""The catalogue of one NodePool, with what its DaemonSets leave of each type.

``alloc[row, resource]`` is what pods can have of a type once its DaemonSets are
there; ``price[row, column]`` is the price through an offering column (zone and
capacity type), infinite where it cannot be had.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.core.scheduling.arrays.instance_types import stock_of
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, Requirement
from dovetail.model.kube.resources import NOTHING, Resources


class PoolTable:
    """What one NodePool could buy, as arrays."""

    def __init__(
        self,
        pool: NodePool,
        types: tuple[InstanceType, ...],
        axis: Sequence[str],
        *,
        reservations: bool = True,
    ) -> None:
        self.pool = pool
        self.base = pool.requirements()
        self.axis = tuple(axis)
        self._reservations = reservations
        self._stock = stock_of(types)
        self.rows = self._stock.rows
        self.columns = self._stock.columns
        self.price = self._stock.price
        self.reserved = self._stock.reserved if reservations else ()
        """(row, offering) of capacity that is paid for already."""
        self.alloc: Floats = self._beside([self._stock.allocatable(name) for name in self.axis])
        self.daemon_requests: list[Resources] = [NOTHING] * len(self.rows)
        self._masks: dict[Requirement, Bools] = {}
        self._column_masks: dict[Requirement, Bools] = {}

    def _beside(self, columns: Sequence[Floats]) -> Floats:
        return np.column_stack(columns) if columns else np.zeros((len(self.rows), 0))

    def charge_daemons(self, rows: Bools, asked: Resources) -> None:
        """Take the DaemonSets of these rows, together, off what pods can have of them."""
        for row in np.flatnonzero(rows).tolist():
            self.daemon_requests[row] = asked
        self.alloc[rows] -= vector(asked, self.axis)
        for name, amount in asked.items():
            if amount > 0:  # Types for which their DaemonSets alone are too much.
                self.alloc[rows & (self._stock.allocatable(name) < amount)] = -1.0

    def rows_allowing(self, one: Requirement) -> Bools:
        """Return which rows have a value that ``one`` allows (or do not know the key)."""
        mask = self._masks.get(one)
        if mask is None:
            kinds, codes = self._stock.kinds_of(one.key)
            fine = [kind is None or _together(one, kind) for kind in kinds]
            mask = self._masks[one] = np.array(fine, dtype=bool)[codes]
        return mask

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
        kinds: list[Requirement | None] = [*self._stock.kinds_of(key).distinct]
        kinds += [column.get(key) for column in self.columns]
        for kind in kinds:
            if kind is not None and not kind.complement:
                found |= {v for v in kind.values if wanted is None or wanted.has(v)}
        if not found and wanted is not None and key not in label_keys.WELL_KNOWN:
            found = {some_value(wanted)} - {""}  # The value its nodes will be given.
        return found if self._reservations else found - {label_keys.RESERVED}

    def defines(self, key: str) -> bool:
        """Tell whether a type's own label decides the value of ``key``."""
        return any(kind is not None for kind in self._stock.kinds_of(key).distinct)

    def capacities(self, names: Sequence[str]) -> Floats:
        """Return the full capacity of each row, for comparison with limits."""
        return self._beside([self._stock.capacity(name) for name in names])


def _together(one: Requirement, other: Requirement) -> bool:
    return one.overlaps(other) or (one.tolerates_absence and other.tolerates_absence)


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
