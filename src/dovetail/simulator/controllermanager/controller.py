"""Base classes of the controllers: a work queue, and the pods of workloads."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Final, Generic, TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.owner_references import controller_of, owner_key
from dovetail.simulator.controllermanager.ownership.adoption import ControllerRefManager
from dovetail.simulator.workqueue import WorkQueue, start_watch

Key = TypeVar("Key", bound=Hashable)

_FAILURE_DELAY: Final = timedelta(seconds=1)


class FailureDelay(Generic[Key]):
    """Delays the replacement of failed pods by a second.

    A kubelet can reject a pod at the instant it is bound. A real controller is slowed down
    by latency; a simulated one would replace the pod forever at the same instant. Losing
    the delay only makes the next pod start a second earlier.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._until: dict[Key, datetime] = {}

    def record(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Delay ``key`` if this change is a pod's failure."""
        if _has_failed(new) and not _has_failed(old):
            self.start(key)

    def start(self, key: Key) -> None:
        """Delay ``key``, such as after an admission error."""
        self._until[key] = self._clock.now() + _FAILURE_DELAY

    def remaining(self, key: Key) -> timedelta:
        """Return the remaining delay; zero or less if there is none."""
        until = self._until.get(key)
        if until is None:
            return timedelta()
        remaining = until - self._clock.now()
        if remaining <= timedelta():
            del self._until[key]
        return remaining


class Controller(ABC):
    """Syncs the objects of one kind: an event adds the object's key to a work queue."""

    resource: ClassVar[Resource]

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, self._sync)
        self._start_watch()

    def _start_watch(self) -> None:
        start_watch(self._context.api, self._context.clock, self.resource, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        key = object_key(event.object)
        if event.type is EventType.DELETED:
            self._forget(key)
        else:
            self._queue.add(key)

    def _forget(self, key: ObjectKey) -> None:
        """Drop what is kept for a deleted object."""
        self._queue.discard(key)

    def _enqueue_owners(self, _: WatchEvent, owners: Iterable[tuple[str, ObjectKey]]) -> None:
        """Queue the owners of a changed object that are of the controller's kind."""
        for kind, key in owners:
            if kind == self.resource.kind:
                self._queue.add(key)

    @abstractmethod
    def _sync(self, key: ObjectKey) -> None:
        """Bring the object of a key to its desired state."""


class WorkloadController(Controller):
    """A controller of workloads: adopts pods, and delays new ones after a failure."""

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._failure_delay: FailureDelay[ObjectKey] = FailureDelay(context.clock)
        self._ref_manager = ControllerRefManager(context, self._queue.add)
        context.pods.add_owner_handler(self.resource.kind, self._pod_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        if event.type is not EventType.DELETED:
            self._ref_manager.update_selector(event.object)
        super()._handle_event(event)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._ref_manager.forget(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is not None and owner is not None:
            key = owner_key(pod, owner)
            self._failure_delay.record(key, old, new)
            self._queue.add(key)


def _has_failed(pod: Object | None) -> bool:
    return bool(get_field(pod, "status", "phase") == "Failed")
