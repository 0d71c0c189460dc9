"""Queueing hints: which unschedulable pods a cluster change may help."""

import numpy as np

from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.scheduler.equivalence import ClassifiedPod, PodClass
from dovetail.simulator.scheduler.framework import SchedulingFramework
from dovetail.simulator.scheduler.interpod_filters import spread_selector
from dovetail.simulator.scheduler.node_table import Ints
from dovetail.simulator.scheduler.pod_counts import PodCounts, PodSelector, term_selector
from dovetail.simulator.scheduler.queue import Group, SchedulingQueue
from dovetail.simulator.workqueue import WorkQueue


class _ClusterChanges:
    """Changes since the last evaluation."""

    __slots__ = ("added", "domains", "removed", "slots", "storage")

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.added: dict[PodClass, None] = {}
        self.removed: dict[PodClass, None] = {}
        self.domains = False
        self.storage = False


class QueueingHints:
    """Activates unschedulable groups, and versions the cluster for each class.

    Changes are collected and evaluated together in a scheduled call at the same instant: a
    thousand deleted pods activate each group once.
    """

    def __init__(
        self,
        clock: VirtualClock,
        queue: SchedulingQueue,
        framework: SchedulingFramework,
        pod_counts: PodCounts,
    ) -> None:
        self._queue = queue
        self._framework = framework
        self._pod_counts = pod_counts
        self._work_queue = WorkQueue[None](clock, lambda _: self._process_changes())
        self._release_version = 0
        """Grows with every change that may release resources."""
        self._assign_version = 0
        """Grows with every pod that is assigned to a node."""
        self._changes = _ClusterChanges()

    def version(self, pod_class: PodClass) -> int:
        """Return a version; while it is the same, an unschedulable class stays so."""
        # More bound pods can only help classes with rules about other pods.
        return (
            self._release_version
            if pod_class.is_independent
            else -2 - self._release_version - self._assign_version
        )

    def node_changed(self, slot: int, *, new_labels: bool) -> None:
        """Record a new or changed node."""
        self._changes.slots.add(slot)
        self._changes.domains |= new_labels
        self._record_release()

    def domains_changed(self) -> None:
        """Record a deleted node, or selectors that match other pods than before."""
        self._changes.domains = True
        self._record_release()

    def storage_changed(self) -> None:
        self._changes.storage = True
        self._record_release()

    def pod_removed(self, pod_class: PodClass, slot: int | None) -> None:
        """Record a pod that left a slot, or (None) is terminating and no longer counted."""
        if slot is not None:
            self._changes.slots.add(slot)
        self._changes.removed[pod_class] = None
        self._record_release()

    def resources_released(self, slot: int) -> None:
        """Record a released reservation on a node."""
        self._changes.slots.add(slot)
        self._record_release()

    def pod_assigned(self, pod_class: PodClass) -> None:
        """Record a pod that was assigned to a node."""
        self._assign_version += 1
        if self._queue.unschedulable:
            self._changes.added[pod_class] = None
            self._work_queue.add(None)

    def _record_release(self) -> None:
        self._release_version += 1
        if self._queue.unschedulable:
            self._work_queue.add(None)

    def _process_changes(self) -> None:
        changes, self._changes = self._changes, _ClusterChanges()
        slots = np.fromiter(changes.slots, dtype=np.int64)
        for group in tuple(self._queue.unschedulable):
            if self._may_help(changes, slots, group):
                self._queue.activate(group)

    def _may_help(self, changes: _ClusterChanges, slots: Ints, group: Group) -> bool:
        pod_class, spec = group[0], group[0].spec
        return (
            (changes.domains and not pod_class.is_independent)
            or (changes.storage and bool(spec.volumes))
            or self._framework.may_fit_on(ClassifiedPod(*group), slots)
            or any(self._selects(pod_class, changed) for changed in (*changes.added, *changes.removed))
            or any(self._repels(removed, pod_class) for removed in changes.removed)
        )

    def _selects(self, pod_class: PodClass, other: PodClass) -> bool:
        if pod_class.is_independent:
            return False
        return any(self._pod_counts.matches(selector, other) for selector in _selectors(pod_class))

    def _repels(self, pod_class: PodClass, other: PodClass) -> bool:
        terms = pod_class.spec.anti_affinity
        own = pod_class.namespace
        return any(self._pod_counts.matches(term_selector(term, own), other) for term in terms)


def _selectors(pod_class: PodClass) -> list[PodSelector]:
    spec = pod_class.spec
    terms = (*spec.affinity, *spec.anti_affinity)
    return [
        *(term_selector(term, pod_class.namespace) for term in terms),
        *(spread_selector(pod_class, spread) for spread in spec.spreads if spread.required),
    ]
