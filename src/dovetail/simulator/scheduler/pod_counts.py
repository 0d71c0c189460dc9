"""Pods per node, counted for inter-pod rules.

Two kinds of counts are updated with every pod that comes or goes: pods that a selector
matches, and pods that have an affinity term.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import PodAffinityTerm
from dovetail.model.kube.selectors import LabelSelector
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_table import NodeColumn, NodeTable


class PodSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """The pods that an affinity term or spread constraint selects."""

    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None

    def matches(self, pod_class: PodClass, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        if self.selector is None or not self.selector.is_valid:
            return False
        if pod_class.namespace not in self.namespaces and not self._matches_namespace(pod_class, namespaces):
            return False
        return self.selector.matches(pod_class.labels)

    def _matches_namespace(self, pod_class: PodClass, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        namespace_selector = self.namespace_selector
        return namespace_selector is not None and namespace_selector.matches(
            namespaces.get(pod_class.namespace, {})
        )


def term_selector(term: PodAffinityTerm, namespace: str) -> PodSelector:
    """Return the selector of a term of a pod in a namespace."""
    if not term.namespaces and term.namespace_selector is None:
        return PodSelector(term.selector, (namespace,))
    return PodSelector(term.selector, term.namespaces, term.namespace_selector)


@dataclass(slots=True, eq=False)
class SelectorCount:
    """Number of pods per node that match all of several selectors."""

    selectors: tuple[PodSelector, ...]
    per_slot: NodeColumn
    live_only: bool


@dataclass(slots=True, eq=False)
class TermCount:
    """Number of pods per node that have an affinity term."""

    selector: PodSelector
    key: str
    weight: int
    """0 for required anti-affinity; else the weight of the preference."""
    per_slot: NodeColumn


_HARD_AFFINITY: Final = 1
"""Weight of a required affinity term in scores, as in kube-scheduler."""


class PodCounts:
    """Updates the counts as pods come and go."""

    def __init__(self, table: NodeTable, classes: Callable[[], Iterable[PodClass]]) -> None:
        self._table = table
        self._classes = classes
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._counts: dict[tuple[tuple[PodSelector, ...], bool], SelectorCount] = {}
        self._term_counts: dict[tuple[PodSelector, str, int], TermCount] = {}
        self._counts_of_class: dict[PodClass, tuple[int, list[SelectorCount]]] = {}
        self._terms_of_class: dict[PodClass, list[TermCount]] = {}
        self._terms_matching_class: dict[PodClass, tuple[int, list[TermCount]]] = {}

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Set a namespace's labels; return True if selectors may match other pods now."""
        before = self._namespaces.get(name)
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = FrozenDict(labels)
        changed = before is not None and labels is not None and before != labels
        if changed:
            self._recount()
        return changed

    def matches(self, selector: PodSelector, pod_class: PodClass) -> bool:
        return selector.matches(pod_class, self._namespaces)

    def count(self, selectors: tuple[PodSelector, ...], *, live_only: bool) -> NodeColumn:
        """Return the number of pods per node that match all selectors."""
        key = (selectors, live_only)
        count = self._counts.get(key)
        if count is None:
            count = SelectorCount(selectors, self._table.column(), live_only=live_only)
            self._counts[key] = count
            for pod_class in self._classes():
                self._fill(count, pod_class)
        return count.per_slot

    def add(self, pod_class: PodClass, slot: int, amount: int, *, live: bool) -> None:
        """Count a pod that came (1) or went (-1); ``live`` if it is not terminating."""
        _adjust(pod_class.bound, slot, amount)
        for count in self._counts_of(pod_class):
            if not count.live_only:
                count.per_slot.values[slot] += amount
        for term_count in self._term_counts_of(pod_class):
            term_count.per_slot.values[slot] += amount
        if live:
            self.add_live(pod_class, slot, amount)

    def add_live(self, pod_class: PodClass, slot: int, amount: int) -> None:
        """Count a live pod that came (1) or went (-1)."""
        _adjust(pod_class.live, slot, amount)
        for count in self._counts_of(pod_class):
            if count.live_only:
                count.per_slot.values[slot] += amount

    def terms_matching(self, pod_class: PodClass) -> list[TermCount]:
        """Return the terms of other pods that select pods of this class."""
        cached = self._terms_matching_class.get(pod_class)
        if cached is None or cached[0] != len(self._term_counts):
            matching = [
                term_count
                for term_count in self._term_counts.values()
                if self.matches(term_count.selector, pod_class)
            ]
            cached = self._terms_matching_class[pod_class] = (len(self._term_counts), matching)
        return cached[1]

    def forget(self, pod_class: PodClass) -> None:
        """Drop the caches of a class that has no pods left."""
        self._counts_of_class.pop(pod_class, None)
        self._terms_of_class.pop(pod_class, None)
        self._terms_matching_class.pop(pod_class, None)

    def _counts_of(self, pod_class: PodClass) -> list[SelectorCount]:
        cached = self._counts_of_class.get(pod_class)
        if cached is None or cached[0] != len(self._counts):
            matching = [count for count in self._counts.values() if self._counts_class(count, pod_class)]
            cached = self._counts_of_class[pod_class] = (len(self._counts), matching)
        return cached[1]

    def _counts_class(self, count: SelectorCount, pod_class: PodClass) -> bool:
        return all(self.matches(selector, pod_class) for selector in count.selectors)

    def _term_counts_of(self, pod_class: PodClass) -> list[TermCount]:
        cached = self._terms_of_class.get(pod_class)
        if cached is None:
            cached = self._terms_of_class[pod_class] = [
                self._term_count(term_selector(term, pod_class.namespace), term.topology_key, weight)
                for term, weight in _weighted_terms(pod_class)
            ]
        return cached

    def _term_count(self, selector: PodSelector, key: str, weight: int) -> TermCount:
        term_count = self._term_counts.get((selector, key, weight))
        if term_count is None:
            term_count = TermCount(selector, key, weight, self._table.column())
            self._term_counts[selector, key, weight] = term_count
        return term_count

    def _fill(self, count: SelectorCount, pod_class: PodClass) -> None:
        slots = pod_class.live if count.live_only else pod_class.bound
        if slots and self._counts_class(count, pod_class):
            for slot, amount in slots.items():
                count.per_slot.values[slot] += amount

    def _recount(self) -> None:
        """Count all pods again: selectors may match other pods now."""
        self._counts_of_class.clear()
        self._terms_matching_class.clear()
        for count in self._counts.values():
            count.per_slot.values[:] = 0
            for pod_class in self._classes():
                self._fill(count, pod_class)


def _weighted_terms(pod_class: PodClass) -> list[tuple[PodAffinityTerm, int]]:
    spec = pod_class.spec
    return [
        *((term, 0) for term in spec.anti_affinity),
        *((term, _HARD_AFFINITY) for term in spec.affinity),
        *((preference.term, preference.weight) for preference in spec.preferred_affinity),
        *((preference.term, -preference.weight) for preference in spec.preferred_anti_affinity),
    ]


def _adjust(slots: dict[int, int], slot: int, amount: int) -> None:
    total = slots.get(slot, 0) + amount
    if total:
        slots[slot] = total
    else:
        slots.pop(slot, None)
