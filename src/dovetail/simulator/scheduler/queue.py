"""Scheduling queue: active pods, and unschedulable pods with backoff."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.scheduler.equivalence import ClassifiedPod, PodClass
from dovetail.simulator.workqueue import WorkQueue

Group = tuple[PodClass, str]
"""Pods that are scheduled alike: their class, and the node they are pinned to."""

_INITIAL_BACKOFF: Final = timedelta(seconds=1)
_MAX_BACKOFF: Final = timedelta(seconds=10)
_FLUSH_INTERVAL: Final = timedelta(minutes=5)
"""Unschedulable pods are retried after this time even if nothing changed."""


class QueuedPod:
    """A pending pod."""

    __slots__ = (
        "classified",
        "key",
        "labels",
        "nominated",
        "number",
        "priority",
        "reported_reasons",
        "spec",
        "uid",
    )

    def __init__(self, pod: Object, classified: ClassifiedPod, *, priority: int, number: int) -> None:
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.key: tuple[str, str] = (meta["name"], meta["namespace"])
        self.spec = pod["spec"]
        self.labels = meta.get("labels")
        self.nominated = nominated_node(pod)
        self.classified = classified
        self.priority = priority
        self.number = number
        """Order of arrival."""
        self.reported_reasons: frozenset[str] | None = None
        """Reasons in its PodScheduled condition."""

    @property
    def group(self) -> Group:
        return self.classified.pod_class, self.classified.pinned_node

    @property
    def sort_key(self) -> tuple[int, int]:
        return -self.priority, self.number


def nominated_node(pod: Object) -> str:
    """Return the nominated node of a pod; it is tried first."""
    name: str = pod["status"].get("nominatedNodeName") or ""
    return name


class UnschedulableGroup:
    """A group of pods that fits no node."""

    __slots__ = ("attempts", "last_attempt", "message", "pods", "reasons", "version")

    def __init__(self) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self.attempts = 0
        self.last_attempt: datetime | None = None
        self.message = ""
        self.reasons: frozenset[str] = frozenset()
        self.version = -1
        """Version of the cluster when the group was last found unschedulable."""


class SchedulingQueue:
    """Orders pending pods by priority, then arrival; retries unschedulable groups."""

    def __init__(self, clock: VirtualClock, work: Callable[[], None]) -> None:
        self._clock = clock
        self._cycle_queue = WorkQueue[None](clock, lambda _: work())
        self._backoff_queue = WorkQueue[Group](clock, self._move_to_active)
        self.pending: dict[str, QueuedPod] = {}
        self._active: dict[str, QueuedPod] = {}
        self.unschedulable: dict[Group, UnschedulableGroup] = {}

    def add(self, queued_pod: QueuedPod) -> None:
        """Add a pod to the active queue."""
        self.pending[queued_pod.uid] = queued_pod
        self._active[queued_pod.uid] = queued_pod
        self._cycle_queue.add(None)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod from the queue."""
        queued_pod = self.pending.pop(uid, None)
        if queued_pod is None:
            return None
        self._active.pop(uid, None)
        group = self.unschedulable.get(queued_pod.group)
        if group is not None and uid in group.pods:
            del group.pods[uid]
            if not group.pods:
                self._remove_group(queued_pod.group)
        return queued_pod

    def pop_batch(self) -> Iterable[QueuedPod]:
        """Yield the active pods in order; skip those removed meanwhile."""
        batch = sorted(self._active.values(), key=lambda pod: pod.sort_key)
        self._active = {}
        for queued_pod in batch:
            if queued_pod.uid in self.pending:
                yield queued_pod

    def add_unschedulable(
        self, queued_pod: QueuedPod, *, message: str, reasons: frozenset[str], version: int
    ) -> None:
        """Move a pod to its unschedulable group until a change may help."""
        group = self.unschedulable.setdefault(queued_pod.group, UnschedulableGroup())
        group.pods[queued_pod.uid] = queued_pod
        self._backoff_queue.add(queued_pod.group, after=_FLUSH_INTERVAL)
        if group.version == version:
            return
        if group.last_attempt != self._clock.now():
            group.attempts += 1
            group.last_attempt = self._clock.now()
        group.message, group.reasons, group.version = message, reasons, version

    def activate(self, group: Group) -> None:
        """Retry a group, at once or after its backoff."""
        unschedulable = self.unschedulable[group]
        backoff = min(_INITIAL_BACKOFF * 2 ** min(unschedulable.attempts - 1, 10), _MAX_BACKOFF)
        now = self._clock.now()
        due = now if unschedulable.last_attempt is None else unschedulable.last_attempt + backoff
        self._backoff_queue.add(group, after=max(due - now, timedelta()))

    def _move_to_active(self, group: Group) -> None:
        unschedulable = self.unschedulable.get(group)
        if unschedulable is not None:
            self._active.update(unschedulable.pods)
            self._cycle_queue.add(None)

    def _remove_group(self, group: Group) -> None:
        del self.unschedulable[group]
        self._backoff_queue.discard(group)
