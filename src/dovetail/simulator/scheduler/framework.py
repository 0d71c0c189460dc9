"""Scheduling framework: filters and scores nodes, and explains failures."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm, PreferredSchedulingTerm
from dovetail.model.kube.resources import PODS, Resources
from dovetail.model.kube.taints import Toleration
from dovetail.simulator.scheduler.equivalence import ClassifiedPod, PodClass
from dovetail.simulator.scheduler.host_ports import HostPorts
from dovetail.simulator.scheduler.interpod_filters import Floats, InterPodFilters
from dovetail.simulator.scheduler.node_filters import (
    NodeAffinityFilter,
    PerNodeCache,
    TaintFilter,
    preferred_affinity_weights,
)
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeTable
from dovetail.simulator.scheduler.pod_counts import PodCounts
from dovetail.simulator.scheduler.scoring import Scoring
from dovetail.simulator.scheduler.volumes import VolumeConstraints, VolumeFilters

INFEASIBLE: Final = -np.inf
Reasons = Callable[[Bools], list[tuple[str, int]]]
"""Return the reasons and node counts for the nodes in a mask."""
NodeRequirements = tuple[
    FrozenDict[str, str], tuple[NodeSelectorTerm, ...], tuple[Toleration, ...], Resources
]
"""Requirements of a pod on a node, regardless of other pods."""


class NodeFilterCache:
    """Scores of all nodes by labels, taints and resources, or ``INFEASIBLE``."""

    def __init__(
        self,
        table: NodeTable,
        scoring: Scoring,
        pod_class: PodClass,
        affinity_filter: NodeAffinityFilter,
        taint_filter: TaintFilter,
    ) -> None:
        self._table = table
        self._scoring = scoring
        self._pod_class = pod_class
        self.affinity_filter = affinity_filter
        self.taint_filter = taint_filter
        for name, _ in pod_class.requests:
            table.ensure_resource(name)
        self._scores: Floats = np.zeros(0)
        self._seen = 0

    @property
    def scores(self) -> Floats:
        """The score of each slot; read only."""
        if self._seen == self._table.change_count and len(self._scores) == len(self._table.facts):
            return self._scores
        changed = self._table.changed_since(self._seen)
        self._seen = self._table.change_count
        if changed is None or len(self._scores) != len(self._table.facts):
            self._scores = np.full(len(self._table.facts), INFEASIBLE)
            changed = np.flatnonzero(self._table.present)
        if changed.size:
            self._scores[changed] = self._evaluate(changed)
        return self._scores

    def insufficient(self, slots: Ints) -> Bools:
        """Return a mask of the slots that lack a requested resource."""
        table, insufficient = self._table, np.zeros(len(slots), dtype=np.bool_)
        for name, amount in self._pod_class.requests:
            insufficient |= (
                table.allocatable[name].values[slots] - table.requested[name].values[slots] < amount
            )
        return insufficient

    def _evaluate(self, slots: Ints) -> Floats:
        closed = self.insufficient(slots) | ~self.affinity_filter.at(slots) | self.taint_filter.rejects(slots)
        if closed.all():
            return np.full(len(slots), INFEASIBLE)
        return np.where(closed, INFEASIBLE, self._scoring.resource_scores(self._pod_class, slots))


class Unschedulable(Exception):
    """No node fits the pod; the message is that of its PodScheduled condition."""

    def __init__(self, message: str, reasons: frozenset[str]) -> None:
        super().__init__(message)
        self.message = message
        self.reasons = reasons


class SchedulingFramework:
    """Runs filters and scores for one pod class at a time."""

    def __init__(self, table: NodeTable, pod_counts: PodCounts, volume_filters: VolumeFilters) -> None:
        self._table = table
        self._volume_filters = volume_filters
        self.interpod_filters = InterPodFilters(table, pod_counts)
        self.scoring = Scoring(table, self.interpod_filters)
        self.ports = HostPorts(table)
        # Shared by classes with equal requirements; weak, so it goes with the last of them.
        self._node_caches: WeakValueDictionary[NodeRequirements, NodeFilterCache] = WeakValueDictionary()
        self._cache_of_class: dict[PodClass, NodeFilterCache] = {}
        self._affinity_filters: dict[
            tuple[FrozenDict[str, str], tuple[NodeSelectorTerm, ...]], NodeAffinityFilter
        ] = {}
        self._taint_filters: dict[tuple[Toleration, ...], TaintFilter] = {}
        self._preferred_weights: dict[tuple[PreferredSchedulingTerm, ...], PerNodeCache] = {}

    def select_node(self, pod: ClassifiedPod, volumes: VolumeConstraints) -> int:
        """Return the slot of the best node; raise ``Unschedulable`` if none fits."""
        pod_class = pod.pod_class
        node_cache = self._node_cache(pod_class)
        scores = node_cache.scores
        for rejected, _ in self._pod_filters(pod, volumes):
            if rejected is not None:
                scores = np.where(rejected, INFEASIBLE, scores)
        best = scores.max()
        if best == INFEASIBLE:
            raise self._explain(pod, volumes)
        prefer_no_schedule = node_cache.taint_filter.prefer_no_schedule
        preferred = self._preferred(pod_class)
        if prefer_no_schedule is not None or preferred is not None or self.scoring.has_preferences(pod_class):
            candidates = np.flatnonzero(scores > INFEASIBLE)
            scores = scores.copy()
            scores[candidates] += self.scoring.preference_scores(
                pod_class,
                candidates,
                prefer_no_schedule=prefer_no_schedule,
                preferred=None if preferred is None else preferred.values,
            )
            best = scores.max()
        ties = np.flatnonzero(scores == best)
        return int(ties[0] if len(ties) == 1 else ties[np.argmin(self._table.ranks[ties])])

    def check_node(self, pod: ClassifiedPod, volumes: VolumeConstraints, node: str) -> int | None:
        """Return the slot of a node if it passes all filters; ignores the score."""
        slot = self._table.slots.get(node)
        if slot is None or self._node_cache(pod.pod_class).scores[slot] == INFEASIBLE:
            return None
        rejected = any(bool(mask[slot]) for mask, _ in self._pod_filters(pod, volumes) if mask is not None)
        return None if rejected else slot

    def forget(self, pod_class: PodClass) -> None:
        """Drop the caches of a class that has no pods left."""
        self._cache_of_class.pop(pod_class, None)

    def may_fit_on(self, pod: ClassifiedPod, slots: Ints) -> bool:
        """Return True if one of the changed nodes may now fit the pod."""
        if pod.pinned_node:
            slots = slots[slots == self._table.slots.get(pod.pinned_node, -1)]
        return bool((self._node_cache(pod.pod_class).scores[slots] > INFEASIBLE).any())

    def tolerates(self, pod: ClassifiedPod, slot: int) -> bool:
        """Return True if a pod tolerates a node's taints."""
        return not self._node_cache(pod.pod_class).taint_filter.rejects(np.array([slot])).any()

    def _all_filters(
        self, pod: ClassifiedPod, volumes: VolumeConstraints
    ) -> Iterator[tuple[Bools | None, Reasons | str]]:
        """Yield a mask of the nodes that each filter rejects, and the reason.

        In kube-scheduler's order of plugins, which decides how a node is counted.
        """
        node_cache = self._node_cache(pod.pod_class)
        taint_filter, all_slots = node_cache.taint_filter, np.arange(len(self._table.facts))
        yield taint_filter.unschedulable, "node(s) were unschedulable"
        yield taint_filter.codes > 0, lambda mask: _taint_reasons(taint_filter, mask)
        yield ~node_cache.affinity_filter.mask, "node(s) didn't match Pod's node affinity/selector"
        yield (node_cache.insufficient(all_slots), lambda mask: self._resource_reasons(pod.pod_class, mask))
        yield from self._pod_filters(pod, volumes)

    def _pod_filters(
        self, pod: ClassifiedPod, volumes: VolumeConstraints
    ) -> Iterator[tuple[Bools | None, str]]:
        """Yield the masks of filters that depend on other pods and volumes."""
        pod_class, spec = pod.pod_class, pod.pod_class.spec
        if pod.pinned_node:
            yield (self._all_except(pod.pinned_node), "node(s) didn't match Pod's node affinity/selector")
        if spec.host_ports:
            ports = self.ports.violations(spec.host_ports)
            yield ports, "node(s) didn't have free ports for the requested pod ports"
        yield from self._volume_filters.violations(volumes)
        if not pod_class.is_independent:
            node_cache = self._node_cache(pod_class)
            spread = self.interpod_filters.spread_violations(
                pod_class, lambda: node_cache.affinity_filter.mask, lambda: node_cache.taint_filter.codes == 0
            )
            yield spread, "node(s) didn't match pod topology spread constraints"
            affinity = self.interpod_filters.affinity_violations(pod_class)
            yield affinity, "node(s) didn't match pod affinity rules"
            anti_affinity = self.interpod_filters.anti_affinity_violations(pod_class)
            yield anti_affinity, "node(s) didn't match pod anti-affinity rules"
        existing = self.interpod_filters.existing_anti_affinity_violations(pod_class)
        yield existing, "node(s) didn't satisfy existing pods anti-affinity rules"

    def _all_except(self, name: str) -> Bools:
        others = np.ones(len(self._table.facts), dtype=np.bool_)
        slot = self._table.slots.get(name)
        if slot is not None:
            others[slot] = False
        return others

    def _explain(self, pod: ClassifiedPod, volumes: VolumeConstraints) -> Unschedulable:
        remaining = self._table.present
        total = int(remaining.sum())
        if not total:
            return Unschedulable("no nodes available to schedule pods", frozenset())
        counts: Counter[str] = Counter()
        for rejected, reason in self._all_filters(pod, volumes):
            if rejected is None:
                continue
            mask = remaining & rejected
            remaining = remaining & ~rejected
            if not mask.any():
                continue
            counted = [(reason, int(mask.sum()))] if isinstance(reason, str) else reason(mask)
            for text, number in counted:
                counts[text] += number
        text_of_counts = ", ".join(sorted(f"{number} {text}" for text, number in counts.items()))
        return Unschedulable(f"0/{total} nodes are available: {text_of_counts}.", frozenset(counts))

    def _resource_reasons(self, pod_class: PodClass, mask: Bools) -> list[tuple[str, int]]:
        reasons = []
        for name, amount in pod_class.requests:
            insufficient = (
                self._table.ensure_resource(name).values - self._table.requested[name].values < amount
            )
            number = int((insufficient & mask).sum())
            if number:
                reasons.append(("Too many pods" if name == PODS else f"Insufficient {name}", number))
        return reasons

    def _node_cache(self, pod_class: PodClass) -> NodeFilterCache:
        cached = self._cache_of_class.get(pod_class)
        if cached is not None:
            return cached
        spec = pod_class.spec
        key = (spec.node_selector, spec.node_terms, spec.tolerations, spec.requests)
        node_cache = self._node_caches.get(key)
        if node_cache is None:
            taint_filter = self._taint_filters.get(spec.tolerations)
            if taint_filter is None:
                taint_filter = TaintFilter(self._table, spec.tolerations)
                self._taint_filters[spec.tolerations] = taint_filter
            affinity_filter = self._affinity_filters.get(key[:2])
            if affinity_filter is None:
                affinity_filter = self._affinity_filters[key[:2]] = NodeAffinityFilter(self._table, *key[:2])
            node_cache = NodeFilterCache(self._table, self.scoring, pod_class, affinity_filter, taint_filter)
            self._node_caches[key] = node_cache
        self._cache_of_class[pod_class] = node_cache
        return node_cache

    def _preferred(self, pod_class: PodClass) -> PerNodeCache | None:
        key = pod_class.spec.preferred_node_terms
        if not key:
            return None
        weights = self._preferred_weights.get(key)
        if weights is None:
            weights = self._preferred_weights[key] = preferred_affinity_weights(self._table, key)
        return weights


def _taint_reasons(taint_filter: TaintFilter, mask: Bools) -> list[tuple[str, int]]:
    numbers: Ints = np.bincount(taint_filter.codes[mask], minlength=len(taint_filter.reasons))
    return [
        (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", int(number))
        for taint, number in zip(taint_filter.reasons, numbers, strict=True)
        if taint is not None and number
    ]
