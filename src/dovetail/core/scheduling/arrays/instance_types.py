"""Instance types as arrays, compiled once per tuple of types.

The instance type provider returns the same tuple until something changes, and
compiling the types of a region takes a tenth of a second. So the compiled arrays
are cached by the identity of that tuple.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering, compute_allocatable
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import CPU, NODES, Resources

UNAVAILABLE = float("inf")
_MAX_COMPILED = 32
"""Compiled tuples in the cache: NodePools with their own node class have their own."""
_MAX_CACHED_KEYS = 256
"""Resources and labels cached per table. Pods may use any; most use the same few."""

_T = TypeVar("_T")


class Row(NamedTuple):
    """An instance type, or the part of its offerings that share one allocatable.

    A burstable type has several rows: the more CPU, the higher the surcharge.
    """

    type: InstanceType
    allocatable: Resources
    capacity: Resources
    offerings: tuple[Offering, ...]
    surplus: float = 0.0
    """USD per hour of CPU credits for all of the allocatable."""
    premium: float = 0.0
    """USD per hour that only plans add, so that the row is a last resort."""


class LabelCodes(NamedTuple):
    """The requirements of all rows on one label, dictionary-encoded."""

    distinct: tuple[Requirement | None, ...]
    codes: Ints
    """[rows]: index into ``distinct``."""


class InstanceTypeTable:
    """Instance types and offerings as arrays; shared, so it must not be changed.

    Rows are sorted by type name, which breaks all ties between types.
    """

    def __init__(self, types: Sequence[InstanceType]) -> None:
        ordered = sorted(types, key=lambda instance_type: instance_type.name)
        self.rows = tuple(row for instance_type in ordered for row in _rows(instance_type))
        self.columns: tuple[Requirements, ...]
        """Zone, capacity type and zone id of each offering column."""
        self.price: Floats
        """[rows, columns]: USD per hour; infinite where there is no available offering.

        Surplus and premium of the row are included.
        """
        self.surplus: Floats = np.array([row.surplus for row in self.rows])
        """[rows]: USD per hour; see ``Row``."""
        self.premium: Floats = np.array([row.premium for row in self.rows])
        """[rows]: USD per hour; see ``Row``."""
        self.reserved: tuple[tuple[int, Offering], ...]
        """(row, offering) of capacity reservations with free slots."""
        self.credit_price: Floats = np.array([_credit_price(row.type) for row in self.rows])
        """[rows]: USD per hour for each millicore above the baseline."""
        self._price_columns()
        self._allocatable: dict[str, Floats] = {}
        self._capacity: dict[str, Floats] = {}
        self._label_codes: dict[str, LabelCodes] = {}

    def _price_columns(self) -> None:
        column_ids: dict[tuple[str, str, str], int] = {}
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
                column = column_ids.get(key)
                if column is None:
                    column = column_ids[key] = len(column_ids)
                    described.append(offering.requirements())
                rows.append(index)
                columns.append(column)
                prices.append(offering.price + row.surplus + row.premium)
        self.columns = tuple(described)
        self.reserved = tuple(reserved)
        self.price = np.full((len(self.rows), len(column_ids)), UNAVAILABLE)
        if prices:
            np.minimum.at(self.price, (rows, columns), prices)
        self.price.setflags(write=False)

    def allocatable(self, name: str) -> Floats:
        """Return [rows]: allocatable for DaemonSets and pods."""
        rows = self.rows
        return _cached(self._allocatable, name, lambda: _column(row.allocatable.get(name, 0) for row in rows))

    def capacity(self, name: str) -> Floats:
        """Return [rows]: capacity that counts against NodePool limits."""
        if name == NODES:
            return np.ones(len(self.rows))
        return _cached(self._capacity, name, lambda: _column(row.capacity.get(name, 0) for row in self.rows))

    def label_codes(self, key: str) -> LabelCodes:
        """Return the distinct requirements of all rows on a label, and each row's code."""
        return _cached(self._label_codes, key, lambda: self._compute_label_codes(key))

    def _compute_label_codes(self, key: str) -> LabelCodes:
        codes_by_requirement: dict[Requirement | None, int] = {}
        codes = [
            codes_by_requirement.setdefault(row.type.requirements.get(key), len(codes_by_requirement))
            for row in self.rows
        ]
        return LabelCodes(tuple(codes_by_requirement), np.array(codes, dtype=np.int64))


def compile_instance_types(types: tuple[InstanceType, ...]) -> InstanceTypeTable:
    """Return the compiled table of these types; the same object for the same tuple."""
    return _compile(_Identity(types))


def forget_compiled_types() -> None:
    """Free all compiled tables, and with them types that nothing else uses any more."""
    _compile.cache_clear()


class _Identity:
    """Cache key that compares a tuple by identity and keeps it alive.

    While the key is cached, the id of the tuple cannot be reused.
    """

    __slots__ = ("types",)

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.types is other.types

    def __hash__(self) -> int:
        return id(self.types)


@lru_cache(maxsize=_MAX_COMPILED)
def _compile(identity: _Identity) -> InstanceTypeTable:
    return InstanceTypeTable(identity.types)


def _cached(cache: dict[str, _T], key: str, make: Callable[[], _T]) -> _T:
    value = cache.get(key)
    if value is None:
        value = make()
        if len(cache) >= _MAX_CACHED_KEYS:
            cache.clear()
        cache[key] = value
    return value


def _column(amounts: Iterable[int]) -> Floats:
    array = np.fromiter(amounts, dtype=np.float64)
    array.setflags(write=False)
    return array


def _rows(instance_type: InstanceType) -> list[Row]:
    """Return the rows of a type: one per allocatable, and step of CPU credits.

    Nearly all types have one row.
    """
    rows = _rows_by_capacity(instance_type)
    if instance_type.cpu_credits is None:
        return rows
    steps = instance_type.cpu_credits.steps()
    return [
        row._replace(allocatable=_limit_cpu(row, step.cpu), surplus=step.surplus, premium=step.premium)
        for row in rows
        for step in steps
        # A step that overhead alone exceeds would be too cheap for pods without CPU requests.
        if step is steps[-1] or step.cpu >= instance_type.overhead.get(CPU, 0)
    ]


def _credit_price(instance_type: InstanceType) -> float:
    cpu_credits = instance_type.cpu_credits
    return cpu_credits.surplus_price / 1000 if cpu_credits is not None and cpu_credits.has_surplus else 0.0


def _limit_cpu(row: Row, cpu: int) -> Resources:
    """Return the allocatable of a row if the node delivers ``cpu`` millicores."""
    missing = max(0, row.capacity.get(CPU, 0) - cpu)
    return Resources({**row.allocatable, CPU: max(0, row.allocatable.get(CPU, 0) - missing)})


def _rows_by_capacity(instance_type: InstanceType) -> list[Row]:
    """Return one row per distinct allocatable: NodeOverlays may change it."""
    if not any(o.capacity_override or o.overhead_override for o in instance_type.offerings):
        return (
            [Row(instance_type, instance_type.allocatable, instance_type.capacity, instance_type.offerings)]
            if instance_type.offerings
            else []
        )
    groups: dict[tuple[Resources | None, Resources | None], list[Offering]] = {}
    for offering in instance_type.offerings:
        key = (offering.capacity_override, offering.overhead_override)
        groups.setdefault(key, []).append(offering)
    rows = []
    for (capacity, overhead), offerings in groups.items():
        full = Resources({**instance_type.capacity, **(capacity or {})})
        lost = Resources({**instance_type.overhead, **(overhead or {})})
        rows.append(Row(instance_type, compute_allocatable(full, lost), full, tuple(offerings)))
    return rows
