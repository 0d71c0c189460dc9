"""The instance types of one NodePool as arrays, after DaemonSet overhead.

Rows are instance types, columns are offerings (zone and capacity type)::

    alloc [rows, resources]   allocatable that DaemonSet pods leave for other pods
    price [rows, columns]     USD per hour; infinite where not available
    surplus, premium [rows]   parts of the price: CPU credits; added in plans alone
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np

from dovetail.core.scheduling.arrays.instance_types import compile_instance_types
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import LAST_RESORT_PRICE
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, Requirement
from dovetail.model.kube.resources import CPU, MEMORY, NO_RESOURCES, Resources

_MAX_MASKS: Final = 4096
"""Requirements whose rows and columns are kept in a table."""


class NodePoolTable:
    """Instance types that one NodePool could launch."""

    def __init__(
        self,
        pool: NodePool,
        types: tuple[InstanceType, ...],
        axis: Sequence[str],
        *,
        reservations: bool = True,
        node_cost: float = 0.0,
    ) -> None:
        self.pool = pool
        self.node_cost = node_cost
        """USD per hour of each node beyond its instance."""
        self.requirements = pool.requirements()
        self.resource_names = tuple(axis)
        self._reservations = reservations
        self._types = compile_instance_types(types)
        self.rows = self._types.rows
        self.columns = self._types.columns
        self.price = self._types.price
        self.surplus = self._types.surplus
        self.premium = self._types.premium
        self.reserved = self._types.reserved if reservations else ()
        """(row, offering) of capacity reservations."""
        columns = [self._types.allocatable(name) for name in self.resource_names]
        self.alloc: Floats = self._stack_columns(columns)
        self.daemon_requests: list[Resources] = [NO_RESOURCES] * len(self.rows)
        self._daemon_memory: Floats = np.zeros(len(self.rows))
        self._row_masks: dict[Requirement, Bools] = {}
        self._column_masks: dict[Requirement, Bools] = {}

    def with_pool(self, pool: NodePool) -> "NodePoolTable":
        """Return a copy for the current state of the NodePool, whose template is the same."""
        for masks in (self._row_masks, self._column_masks):
            if len(masks) > _MAX_MASKS:
                masks.clear()
        table = copy(self)
        table.pool = pool
        return table

    def _stack_columns(self, columns: Sequence[Floats]) -> Floats:
        return np.column_stack(columns) if columns else np.zeros((len(self.rows), 0))

    def subtract_daemonsets(self, rows: Ints, requests: Resources) -> None:
        """Subtract the requests of DaemonSet pods from ``alloc`` of rows, by index."""
        for row in rows.tolist():
            self.daemon_requests[row] = requests
        self._daemon_memory[rows] = requests.get(MEMORY, 0)
        self.alloc[rows] -= to_vector(requests, self.resource_names)
        for name, amount in requests.items():
            if amount > 0:  # DaemonSet pods alone do not fit: the type takes no pods.
                self.alloc[rows[self._types.allocatable(name)[rows] < amount]] = -1.0

    def add_memory_premium(self, min_memory: int) -> None:
        """Make types with less memory left than ``min_memory`` bytes a last resort.

        Pods without memory requests would fit, and be killed. DaemonSets must have been
        subtracted.
        """
        # Types of unknown memory are taken as they are.
        is_known = self._types.capacity(MEMORY) > 0
        is_short = is_known & (self._types.allocatable(MEMORY) - self._daemon_memory < min_memory)
        if is_short.any():
            added = np.where(is_short, LAST_RESORT_PRICE * self._types.capacity(CPU) / 1000, 0.0)
            self.price = self.price + added[:, None]
            self.premium = self.premium + added

    @property
    def surcharge(self) -> Floats:
        """[rows]: the part of the price that is not the list price."""
        return self.surplus + self.premium

    def included_cpu(self, rows: Ints) -> Floats:
        """Return [rows]: millicores for pods that the list price of a burstable type includes."""
        included = np.zeros(len(rows))
        for at in np.flatnonzero(self._types.credit_price[rows]).tolist():
            instance_type = self.rows[rows[at]].type
            daemons = self.daemon_requests[rows[at]]
            if instance_type.cpu_credits is not None:
                included[at] = instance_type.cpu_credits.baseline - instance_type.expected_cpu(daemons)
        return included

    def credit_price(self, rows: Ints) -> Floats:
        """Return [rows]: USD per hour for each millicore above ``included_cpu``."""
        return self._types.credit_price[rows]

    def rows_matching(self, requirement: Requirement) -> Bools:
        """Return [rows]: True where a type may have a label value that is allowed.

        A type that does not know the label is allowed.
        """
        mask = self._row_masks.get(requirement)
        if mask is None:
            distinct, codes = self._types.label_codes(requirement.key)
            allowed = [
                requirement_of_rows is None or _overlap(requirement, requirement_of_rows)
                for requirement_of_rows in distinct
            ]
            mask = self._row_masks[requirement] = np.array(allowed, dtype=bool)[codes]
        return mask

    def columns_matching(self, requirement: Requirement) -> Bools:
        """Return [columns]: True where an offering may have an allowed label value."""
        mask = self._column_masks.get(requirement)
        if mask is None:
            allowed = [
                requirement.key not in column or _overlap(requirement, column[requirement.key])
                for column in self.columns
            ]
            mask = self._column_masks[requirement] = np.array(allowed, dtype=bool)
        return mask

    def label_values(self, key: str, rows: Bools | None = None) -> set[str]:
        """Return the values that a label may have on nodes of this pool, or of these rows of it."""
        own = self.requirements.get(key)
        values: set[str] = set(own.values) if own and not own.complement else set()
        of_types, codes = self._types.label_codes(key)
        present = range(len(of_types)) if rows is None else np.unique(np.asarray(codes)[rows]).tolist()
        distinct: list[Requirement | None] = [of_types[code] for code in present]
        distinct += [column.get(key) for column in self.columns]
        for requirement_of_rows in distinct:
            if requirement_of_rows is not None and not requirement_of_rows.complement:
                values |= {v for v in requirement_of_rows.values if own is None or own.has(v)}
        if not values and own is not None and key not in label_keys.WELL_KNOWN:
            values = {pick_value(own)} - {""}  # The value that the plan builder sets.
        return values if self._reservations else values - {label_keys.RESERVED}

    def label_requirements(self, key: str) -> list[Requirement]:
        """Return the requirements on a label of the pool and of all types, allowed or not."""
        requirements = [*self._types.label_codes(key).distinct, *(column.get(key) for column in self.columns)]
        requirements.append(self.requirements.get(key))
        return [requirement for requirement in requirements if requirement is not None]

    def defines_label(self, key: str) -> bool:
        """Return True if instance types define a label themselves."""
        return any(requirement is not None for requirement in self._types.label_codes(key).distinct)

    def capacities(self, names: Sequence[str]) -> Floats:
        """Return [rows, names]: capacity of each type, for comparison with limits."""
        return self._stack_columns([self._types.capacity(name) for name in names])


def _overlap(requirement: Requirement, other: Requirement) -> bool:
    return requirement.overlaps(other) or (requirement.allows_absence and other.allows_absence)


def pick_value(requirement: Requirement) -> str:
    """Return an allowed value: the first by name, or the smallest number.

    Empty: the label must not exist, or the range is empty.
    """
    if requirement.operator is Operator.IN:
        return min(requirement.values)
    if requirement.operator is Operator.DOES_NOT_EXIST:
        return ""
    number = requirement.gte if requirement.gte is not None else 0
    while str(number) in requirement.values:
        number += 1
    return str(number) if requirement.has(str(number)) else ""


def to_vector(amounts: Mapping[str, int], axis: Sequence[str]) -> Floats:
    """Return amounts as a vector [names]."""
    return np.array([float(amounts.get(name, 0)) for name in axis])
