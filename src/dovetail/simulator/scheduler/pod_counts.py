"""How many pods of a kind run on each node: what rules between pods look at.

Two kinds of numbers are kept up to date with every pod that comes or goes: how
many pods a selector chooses, and how many pods carry a term about others.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import PodTerm
from dovetail.model.kube.selectors import LabelSelector
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_table import NodeTable, PerSlot


class Chosen(msgspec.Struct, frozen=True, cache_hash=True):
    """The pods that one term or constraint looks at."""

    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None

    def matches(self, kind: PodClass, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        if self.selector is None or not self.selector.is_valid:
            return False
        if kind.namespace not in self.namespaces and not self._reaches(kind, namespaces):
            return False
        return self.selector.matches(kind.labels)

    def _reaches(self, kind: PodClass, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        wide = self.namespace_selector
        return wide is not None and wide.matches(namespaces.get(kind.namespace, {}))


def chosen_by(term: PodTerm, namespace: str) -> Chosen:
    """Return whom a term of a pod in a namespace is about."""
    if not term.namespaces and term.namespace_selector is None:
        return Chosen(term.selector, (namespace,))
    return Chosen(term.selector, term.namespaces, term.namespace_selector)


class Count:
    """How many pods all of some choices name, per node."""

    __slots__ = ("choices", "live_only", "per_slot")

    def __init__(self, choices: tuple[Chosen, ...], per_slot: PerSlot, *, live_only: bool) -> None:
        self.choices = choices
        self.live_only = live_only
        self.per_slot = per_slot


class Carrier:
    """How many pods carry a term, per node."""

    __slots__ = ("chosen", "key", "per_slot", "weight")

    def __init__(self, chosen: Chosen, key: str, weight: int, per_slot: PerSlot) -> None:
        self.chosen = chosen
        self.key = key
        self.weight = weight
        """0: the term forbids; else how much the pods it names are wished for."""
        self.per_slot = per_slot


_HARD_AFFINITY: Final = 1
"""What a required affinity counts when nodes are compared for the pods it names."""


class Counting:
    """Keeps the numbers as pods come and go."""

    def __init__(self, table: NodeTable, classes: Callable[[], Iterable[PodClass]]) -> None:
        self._table = table
        self._classes = classes
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._counts: dict[tuple[tuple[Chosen, ...], bool], Count] = {}
        self._carriers: dict[tuple[Chosen, str, int], Carrier] = {}
        self._counted_in: dict[PodClass, tuple[int, list[Count]]] = {}
        self._carried_by: dict[PodClass, list[Carrier]] = {}
        self._naming: dict[PodClass, tuple[int, list[Carrier]]] = {}

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Take over a namespace's labels; tells whether terms may reach others now."""
        before = self._namespaces.get(name)
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = FrozenDict(labels)
        changed = before is not None and labels is not None and before != labels
        if changed:
            self._start_over()
        return changed

    def matches(self, chosen: Chosen, kind: PodClass) -> bool:
        return chosen.matches(kind, self._namespaces)

    def count(self, choices: tuple[Chosen, ...], *, live_only: bool) -> PerSlot:
        """Return how many pods per node all choices name."""
        key = (choices, live_only)
        known = self._counts.get(key)
        if known is None:
            known = Count(choices, self._table.column(), live_only=live_only)
            self._counts[key] = known
            for kind in self._classes():
                self._fill(known, kind)
        return known.per_slot

    def add(self, kind: PodClass, slot: int, amount: int, *, live: bool) -> None:
        """Count a pod that came (1) or went (-1); ``live`` where it is not about to stop."""
        _change(kind.bound, slot, amount)
        for count in self._counts_of(kind):
            if not count.live_only:
                count.per_slot.values[slot] += amount
        for carrier in self._carriers_of(kind):
            carrier.per_slot.values[slot] += amount
        if live:
            self.add_live(kind, slot, amount)

    def add_live(self, kind: PodClass, slot: int, amount: int) -> None:
        """Count a pod as one that stays, or no longer."""
        _change(kind.live, slot, amount)
        for count in self._counts_of(kind):
            if count.live_only:
                count.per_slot.values[slot] += amount

    def naming(self, kind: PodClass) -> list[Carrier]:
        """Return the terms of other pods that name pods of this class."""
        known = self._naming.get(kind)
        if known is None or known[0] != len(self._carriers):
            found = [one for one in self._carriers.values() if self.matches(one.chosen, kind)]
            known = self._naming[kind] = (len(self._carriers), found)
        return known[1]

    def forget(self, kind: PodClass) -> None:
        """Let go of what is remembered about a class of which there are no pods."""
        self._counted_in.pop(kind, None)
        self._carried_by.pop(kind, None)
        self._naming.pop(kind, None)

    def _counts_of(self, kind: PodClass) -> list[Count]:
        known = self._counted_in.get(kind)
        if known is None or known[0] != len(self._counts):
            found = [one for one in self._counts.values() if self._covers(one, kind)]
            known = self._counted_in[kind] = (len(self._counts), found)
        return known[1]

    def _covers(self, count: Count, kind: PodClass) -> bool:
        return all(self.matches(one, kind) for one in count.choices)

    def _carriers_of(self, kind: PodClass) -> list[Carrier]:
        known = self._carried_by.get(kind)
        if known is None:
            known = self._carried_by[kind] = [
                self._carrier(chosen_by(term, kind.namespace), term.topology_key, weight)
                for term, weight in _carried(kind)
            ]
        return known

    def _carrier(self, chosen: Chosen, key: str, weight: int) -> Carrier:
        known = self._carriers.get((chosen, key, weight))
        if known is None:
            known = Carrier(chosen, key, weight, self._table.column())
            self._carriers[chosen, key, weight] = known
        return known

    def _fill(self, count: Count, kind: PodClass) -> None:
        where = kind.live if count.live_only else kind.bound
        if where and self._covers(count, kind):
            for slot, amount in where.items():
                count.per_slot.values[slot] += amount

    def _start_over(self) -> None:
        """Count everything anew: other pods may be meant now."""
        self._counted_in.clear()
        self._naming.clear()
        for count in self._counts.values():
            count.per_slot.values[:] = 0
            for kind in self._classes():
                self._fill(count, kind)


def _carried(kind: PodClass) -> list[tuple[PodTerm, int]]:
    spec = kind.spec
    return [
        *((term, 0) for term in spec.anti_affinity),
        *((term, _HARD_AFFINITY) for term in spec.affinity),
        *((one.term, one.weight) for one in spec.preferred_affinity),
        *((one.term, -one.weight) for one in spec.preferred_anti_affinity),
    ]


def _change(where: dict[int, int], slot: int, amount: int) -> None:
    left = where.get(slot, 0) + amount
    if left:
        where[slot] = left
    else:
        where.pop(slot, None)
