"""Node table: all nodes as columns of numbers, one slot per node.

A slot is reused when its node is deleted. Other modules keep a number per node in a
``NodeColumn``, which grows with the table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from dovetail.codec.fields import BoundedCache, DecodeContext, Field
from dovetail.codec.kube.requirements import decode_taints
from dovetail.codec.quantities import decode_resources
from dovetail.model.kube.taints import Taint
from dovetail.simulator.apiserver.storage.frozen_object import Object

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_INITIAL_SLOTS: Final = 64
_MAX_CHANGES: Final = 10_000
"""Changes that are kept one by one; a reader that lags more starts over."""


class NodeColumn:
    """A number for each slot; the table may replace ``values`` when it grows."""

    __slots__ = ("empty", "values")

    def __init__(self, slots: int, empty: int) -> None:
        self.empty = empty
        self.values: Ints = np.full(slots, empty, dtype=np.int64)

    def grow(self, slots: int) -> None:
        more = np.full(slots - len(self.values), self.empty, dtype=np.int64)
        self.values = np.concatenate([self.values, more])


class NodeFacts(msgspec.Struct, frozen=True):
    """The fields of a node that scheduling depends on."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]


class Domains:
    """The values of one topology label, numbered; -1 for nodes without the label."""

    __slots__ = ("codes", "key", "numbers")

    def __init__(self, key: str, codes: NodeColumn) -> None:
        self.key = key
        self.codes = codes
        self.numbers: dict[str, int] = {}

    def set(self, slot: int, labels: Mapping[str, str]) -> None:
        value = labels.get(self.key)
        number = -1 if value is None else self.numbers.setdefault(value, len(self.numbers))
        self.codes.values[slot] = number


class NodeTable:
    """Nodes with their allocatable and requested resources."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.facts: list[NodeFacts | None] = [None] * _INITIAL_SLOTS
        self._columns: list[NodeColumn] = []
        self._free = list(range(_INITIAL_SLOTS - 1, -1, -1))
        self._presence = self.column()
        self.versions = self.column()
        """Version of each node; grows with every change of its facts."""
        self.allocatable: dict[str, NodeColumn] = {}
        self.requested: dict[str, NodeColumn] = {}
        self._domains: dict[str, Domains] = {}
        self.changes = 0
        """Number of changes of node facts so far."""
        self._changed_slots: list[int] = []
        self._dropped_changes = 0
        self._ranks: Ints | None = None
        self._decode_cache = BoundedCache()

    def column(self, empty: int = 0) -> NodeColumn:
        """Return a new column that grows with the table."""
        column = NodeColumn(len(self.facts), empty)
        self._columns.append(column)
        return column

    @property
    def presence(self) -> Ints:
        """1 for each slot that has a node."""
        return self._presence.values

    @property
    def present(self) -> Bools:
        """Mask of the slots that have a node."""
        return self._presence.values > 0

    @property
    def ranks(self) -> Ints:
        """Rank of each node by name, which breaks ties."""
        if self._ranks is None:
            self._ranks = np.zeros(len(self.facts), dtype=np.int64)
            for rank, name in enumerate(sorted(self.slots)):
                self._ranks[self.slots[name]] = rank
        return self._ranks

    @property
    def change_count(self) -> int:
        """Number of changes of nodes or their requested resources so far."""
        return self._dropped_changes + len(self._changed_slots)

    def mark_changed(self, slot: int) -> None:
        """Record a change of a node or its requested resources."""
        self._changed_slots.append(slot)
        if len(self._changed_slots) > _MAX_CHANGES:
            self._dropped_changes += len(self._changed_slots)
            self._changed_slots.clear()

    def changed_since(self, change_count: int) -> Ints | None:
        """Return the slots changed since then; None if that is too long ago."""
        if change_count < self._dropped_changes:
            return None
        recent = self._changed_slots[change_count - self._dropped_changes :]
        if len(recent) > len(self.facts):
            return None
        if len(recent) > 1:
            recent = sorted(set(recent))
        return np.array(recent, dtype=np.int64)

    def domains(self, key: str) -> Domains:
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = Domains(key, self.column(-1))
            for slot in self.slots.values():
                domains.set(slot, self.at(slot).labels)
        return domains

    def at(self, slot: int) -> NodeFacts:
        facts = self.facts[slot]
        if facts is None:
            raise LookupError(f"no node in slot {slot}")
        return facts

    def update(self, node: Object) -> tuple[int, NodeFacts | None] | None:
        """Add or update a node; return its slot and former facts.

        Return None if no fact changed.
        """
        facts = self._decode_facts(node)
        slot = self.slots.get(facts.name)
        before = None if slot is None else self.at(slot)
        if before == facts:
            return None
        if slot is None:
            slot = self._new_slot(facts.name)
        self.facts[slot] = facts
        self.changes += 1
        self.versions.values[slot] = self.changes
        self.mark_changed(slot)
        for name, column in self.allocatable.items():
            column.values[slot] = facts.allocatable.get(name, 0)
        for name in facts.allocatable:
            if name not in self.allocatable:
                self.ensure_resource(name).values[slot] = facts.allocatable[name]
        for domains in self._domains.values():
            domains.set(slot, facts.labels)
        return slot, before

    def remove(self, name: str) -> int | None:
        """Remove a node and return its slot; its pods must be removed first."""
        slot = self.slots.pop(name, None)
        if slot is None:
            return None
        self.facts[slot] = None
        for column in self._columns:
            column.values[slot] = column.empty
        self._free.append(slot)
        self._ranks = None
        self.changes += 1
        self.mark_changed(slot)
        return slot

    def add_requests(self, requests: Iterable[tuple[str, int]], slot: int, sign: int) -> None:
        """Add (sign 1) or subtract (sign -1) requests from a node."""
        for name, amount in requests:
            self.ensure_resource(name)
            self.requested[name].values[slot] += sign * amount
        self.mark_changed(slot)

    def ensure_resource(self, resource: str) -> NodeColumn:
        """Return the allocatable column of a resource; create it if it is new."""
        column = self.allocatable.get(resource)
        if column is None:
            column = self.allocatable[resource] = self.column()
            self.requested[resource] = self.column()
        return column

    def _new_slot(self, name: str) -> int:
        if not self._free:
            before = len(self.facts)
            self.facts.extend([None] * before)
            self._free = list(range(2 * before - 1, before - 1, -1))
            for column in self._columns:
                column.grow(2 * before)
        slot = self._free.pop()
        self.slots[name] = slot
        self._presence.values[slot] = 1
        self._ranks = None
        return slot

    def _decode_facts(self, node: Object) -> NodeFacts:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        context = DecodeContext(strict=False, cache=self._decode_cache)
        resource_field = "allocatable" if status.get("allocatable") else "capacity"
        return NodeFacts(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            decode_taints(Field(spec.get("taints"), context)),
            bool(spec.get("unschedulable")),
            decode_resources(Field(status.get(resource_field), context)),
        )
