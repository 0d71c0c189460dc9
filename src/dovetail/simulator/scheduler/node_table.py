"""All nodes as columns of numbers, one place (slot) for each node.

A slot is used again when its node is gone. Whoever keeps something per node
keeps it in a ``PerSlot``, which the table lets grow along.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.requirements import taints
from dovetail.codec.quantities import resources
from dovetail.model.kube.taints import Taint
from dovetail.simulator.apiserver.storage.frozen_object import Object

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FIRST_SLOTS: Final = 64
_MOST_TOUCHES: Final = 100_000
"""So many changes are remembered one by one."""


class PerSlot:
    """A number for each slot; read ``values`` afresh each time, for it may grow."""

    __slots__ = ("empty", "values")

    def __init__(self, slots: int, empty: int) -> None:
        self.empty = empty
        self.values: Ints = np.full(slots, empty, dtype=np.int64)

    def grow(self, slots: int) -> None:
        more = np.full(slots - len(self.values), self.empty, dtype=np.int64)
        self.values = np.concatenate([self.values, more])


class NodeFacts(msgspec.Struct, frozen=True):
    """What of a node decides who can run there."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]


class Domains:
    """The values of one topology label, numbered; -1 where a node lacks it."""

    __slots__ = ("codes", "key", "numbers")

    def __init__(self, key: str, codes: PerSlot) -> None:
        self.key = key
        self.codes = codes
        self.numbers: dict[str, int] = {}

    def set(self, slot: int, labels: Mapping[str, str]) -> None:
        value = labels.get(self.key)
        number = -1 if value is None else self.numbers.setdefault(value, len(self.numbers))
        self.codes.values[slot] = number


class NodeTable:
    """Which nodes there are, what they offer and how much of it is taken."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.facts: list[NodeFacts | None] = [None] * _FIRST_SLOTS
        self._columns: list[PerSlot] = []
        self._free = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._there = self.column()
        self.stamps = self.column()
        """Grows with every change of what a node says of itself."""
        self.room: dict[str, PerSlot] = {}
        self.used: dict[str, PerSlot] = {}
        self._domains: dict[str, Domains] = {}
        self.changes = 0
        """How often what some node says of itself has changed."""
        self._touched: list[int] = []
        self._touched_before = 0
        self._ranks: Ints | None = None
        self._shared: dict[Any, Any] = {}

    def column(self, empty: int = 0) -> PerSlot:
        """Return a number per slot that grows with the table."""
        made = PerSlot(len(self.facts), empty)
        self._columns.append(made)
        return made

    @property
    def presence(self) -> Ints:
        """1 for each slot in which there is a node."""
        return self._there.values

    @property
    def there(self) -> Bools:
        """Whether there is a node in each slot."""
        return self._there.values > 0

    @property
    def ranks(self) -> Ints:
        """The place of each node among all by name; ties are broken by it."""
        if self._ranks is None:
            self._ranks = np.zeros(len(self.facts), dtype=np.int64)
            for rank, name in enumerate(sorted(self.slots)):
                self._ranks[self.slots[name]] = rank
        return self._ranks

    @property
    def touches(self) -> int:
        """How often something about some node, or what is taken of it, has changed."""
        return self._touched_before + len(self._touched)

    def touch(self, slot: int) -> None:
        """Note that something about a node, or what is taken of it, has changed."""
        self._touched.append(slot)
        if len(self._touched) > _MOST_TOUCHES:
            self._touched_before += len(self._touched)
            self._touched.clear()

    def changed_since(self, touches: int) -> Ints | None:
        """Return the slots touched since then; None when that is too long ago to tell."""
        if touches < self._touched_before:
            return None
        recent = self._touched[touches - self._touched_before :]
        if len(recent) > len(self.facts):
            return None
        if len(recent) > 1:
            recent = sorted(set(recent))
        return np.array(recent, dtype=np.int64)

    def domains(self, key: str) -> Domains:
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = Domains(key, self.column(-1))
            for slot in self.slots.values():
                known.set(slot, self.at(slot).labels)
        return known

    def at(self, slot: int) -> NodeFacts:
        found = self.facts[slot]
        if found is None:
            raise LookupError(f"no node in slot {slot}")
        return found

    def put(self, node: Object) -> tuple[int, NodeFacts | None] | None:
        """Take a node over; None when nothing changed that matters, else slot and facts before."""
        facts = self._read(node)
        slot = self.slots.get(facts.name)
        before = None if slot is None else self.at(slot)
        if before == facts:
            return None
        if slot is None:
            slot = self._new_slot(facts.name)
        self.facts[slot] = facts
        self.changes += 1
        self.stamps.values[slot] = self.changes
        self.touch(slot)
        for name, column in self.room.items():
            column.values[slot] = facts.allocatable.get(name, 0)
        for name in facts.allocatable:
            if name not in self.room:
                self.need(name).values[slot] = facts.allocatable[name]
        for domains in self._domains.values():
            domains.set(slot, facts.labels)
        return slot, before

    def remove(self, name: str) -> int | None:
        """Forget a node; returns the slot it had, which must be emptied of pods first."""
        slot = self.slots.pop(name, None)
        if slot is None:
            return None
        self.facts[slot] = None
        for column in self._columns:
            column.values[slot] = column.empty
        self._free.append(slot)
        self._ranks = None
        self.changes += 1
        self.touch(slot)
        return slot

    def use(self, requests: Iterable[tuple[str, int]], slot: int, sign: int) -> None:
        """Count what somebody takes of a node (1), or gives back (-1)."""
        for name, amount in requests:
            self.need(name)
            self.used[name].values[slot] += sign * amount
        self.touch(slot)

    def need(self, resource: str) -> PerSlot:
        """Return how much of a resource each node has; all resources are known after this."""
        known = self.room.get(resource)
        if known is None:
            known = self.room[resource] = self.column()
            self.used[resource] = self.column()
        return known

    def _new_slot(self, name: str) -> int:
        if not self._free:
            before = len(self.facts)
            self.facts.extend([None] * before)
            self._free = list(range(2 * before - 1, before - 1, -1))
            for column in self._columns:
                column.grow(2 * before)
        slot = self._free.pop()
        self.slots[name] = slot
        self._there.values[slot] = 1
        self._ranks = None
        return slot

    def _read(self, node: Object) -> NodeFacts:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        findings = Findings(written_by_hand=False, pool=self._shared)
        offered = "allocatable" if status.get("allocatable") else "capacity"
        return NodeFacts(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            taints(Field(spec.get("taints"), findings)),
            bool(spec.get("unschedulable")),
            resources(Field(status.get(offered), findings)),
        )
