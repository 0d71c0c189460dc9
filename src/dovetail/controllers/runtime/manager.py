"""Controller manager: watch events become keys, keys become reconciles.

    cluster cache --watch event--> event handler --keys--> work queue
        --key--> Reconciler.reconcile(key) --RequeueAfter--> work queue

Each controller has its own work queue and a limit of concurrent reconciles. A
key is never reconciled twice at the same time. A reconcile that raises is
retried with exponential backoff; the other keys are not affected.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.runtime.workqueue import Backoff, WorkQueue
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import Resource
from dovetail.ports.event_loop import Timer
from dovetail.ports.kube_errors import Conflict
from dovetail.ports.metrics import RECONCILE, RECONCILE_DURATION, RECONCILE_ERRORS, ControllerLabels
from dovetail.state.cluster.cache import ClusterCache, ObjectChange

SINGLETON: Final = ""
"""Key of a controller that reconciles the whole cluster."""
STUCK_AFTER: Final = timedelta(minutes=15)
"""A reconcile takes milliseconds, or minutes if the cloud throttles; a longer one hangs."""


class RequeueAfter(msgspec.Struct, frozen=True):
    """Reconcile the key again after a delay.

    A reconcile before that time replaces the delay by its own result.
    """

    delay: timedelta


SYNC_POLL: Final = RequeueAfter(timedelta(seconds=1))
"""Result of controllers that must wait until the cluster cache has synced."""


def raise_first(results: Iterable[object]) -> None:
    """Raise the first exception among the results of concurrent calls, if any.

    The effects of successful calls are in the cache; the retry does the rest.
    """
    for result in results:
        if isinstance(result, Exception):
            raise result


class Reconciler(Protocol):
    """Moves one object, or the whole cluster, towards its desired state."""

    async def reconcile(self, key: Any) -> RequeueAfter | None:
        """Reconcile a key. Idempotent: it may be called again at any time."""


EventHandler = Callable[[ObjectChange], Iterable[Hashable]]
"""Maps a watch event to the keys to reconcile."""


def enqueue_object(change: ObjectChange) -> tuple[str]:
    """Event handler: reconcile the object that changed, by name."""
    return (change.latest.name,)


def is_unchanged(change: ObjectChange, get_state: Callable[[Any], object]) -> bool:
    """Return True for an update that changes nothing that ``get_state`` returns."""
    old, new = change.old, change.new
    return old is not None and new is not None and get_state(old) == get_state(new)


Source = Callable[[Callable[[Any], None]], None]
"""A source of keys other than watches; it receives the function that adds a key."""


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """Registration of a controller: its reconciler and what triggers it."""

    name: str
    reconciler: Reconciler
    watches: Sequence[tuple[Resource, EventHandler]] = ()
    initial_keys: Sequence[Hashable] = ()
    """Keys to reconcile at start, such as ``SINGLETON``."""
    sources: Sequence[Source] = ()
    backoff: Backoff = Backoff()
    workers: int = 100
    """Maximum number of concurrent reconciles."""
    long_poll: bool = False
    """The reconcile waits for external messages.

    It never counts as stuck, and shutdown does not wait for it.
    """


class QueueMetrics(NamedTuple):
    """Queue depth and active workers of one controller."""

    controller: str
    depth: int
    """Keys that are due."""
    active: int
    """Keys that are being reconciled."""


class ControllerManager:
    """Runs all controllers on one event loop, each with its own work queue."""

    def __init__(self, controllers: Sequence[Controller], context: ControllerContext) -> None:
        self._runners = [_Runner(controller, context) for controller in controllers]
        self._cache = context.cache

    def start(self) -> None:
        """Start watches and reconcile what is in the cache."""
        for runner in self._runners:
            runner.start(self._cache)

    def stop(self) -> None:
        """Start no new reconciles; running ones finish."""
        for runner in self._runners:
            runner.stop()

    def active_count(self) -> int:
        """Return the number of running reconciles that shutdown waits for."""
        return sum(runner.active_count for runner in self._runners)

    def queue_metrics(self) -> list[QueueMetrics]:
        return [runner.queue_metrics() for runner in self._runners]

    def stuck_controllers(self) -> list[str]:
        """Return controllers with a reconcile that runs longer than ``STUCK_AFTER``."""
        return [runner.name for runner in self._runners if runner.is_stuck()]

    def enqueue(self, name: str, key: Hashable) -> None:
        """Add a key to the work queue of the named controller."""
        for runner in self._runners:
            if runner.name == name:
                runner.enqueue(key)


class _Runner:
    """Work queue and running reconciles of one controller."""

    def __init__(self, controller: Controller, context: ControllerContext) -> None:
        self.name = controller.name
        self._controller = controller
        self._labels = ControllerLabels(controller=self.name)
        self._queue: WorkQueue[Hashable] = WorkQueue(controller.backoff)
        self._loop = context.loop
        self._log = context.log
        self._metrics = context.metrics
        self._started: dict[Hashable, datetime] = {}
        """Keys that are being reconciled, with the start time."""
        self._timer: Timer | None = None
        self._wakes_at: datetime | None = None
        self._stopped = False

    @property
    def active_count(self) -> int:
        return 0 if self._controller.long_poll else len(self._started)

    def queue_metrics(self) -> QueueMetrics:
        depth = self._queue.count_due(self._loop.now())
        return QueueMetrics(self.name, depth, len(self._started))

    def is_stuck(self) -> bool:
        limit = self._loop.now() - STUCK_AFTER
        return not self._controller.long_poll and any(started < limit for started in self._started.values())

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def start(self, cache: ClusterCache) -> None:
        for resource, handler in self._controller.watches:
            cache.subscribe(resource, self._subscriber(handler))
        for source in self._controller.sources:
            source(self.enqueue)
        for key in self._controller.initial_keys:
            self.enqueue(key)

    def _subscriber(self, handler: EventHandler) -> Callable[[ObjectChange], None]:
        def enqueue_keys(change: ObjectChange) -> None:
            for key in handler(change):
                self.enqueue(key)

        return enqueue_keys

    def enqueue(self, key: Hashable) -> None:
        self._queue.add(key, self._loop.now())
        self._schedule()

    def _schedule(self) -> None:
        """Set the timer for the next due key.

        Reconciles start from the timer only, never inside the caller's stack: a
        handler may run in the middle of another controller's write.
        """
        due = self._queue.next_at()
        if due is None or self._stopped or len(self._started) >= self._controller.workers:
            return
        if self._wakes_at is not None and self._wakes_at <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = due
        self._timer = self._loop.call_at(due, self._start_due)

    def _start_due(self) -> None:
        self._wakes_at = self._timer = None
        while len(self._started) < self._controller.workers:
            key = self._queue.get(self._loop.now())
            if key is None:
                break
            self._started[key] = self._loop.now()
            self._loop.spawn(self._reconcile(key))
        self._schedule()

    async def _reconcile(self, key: Hashable) -> None:
        try:
            result = await self._controller.reconciler.reconcile(key)
        except Conflict:
            # Stale read: another writer was first, and the cache now has its write.
            # This is normal operation, so it is not logged.
            self._queue.requeue_with_backoff(key, self._loop.now())
        except DovetailError as error:
            self._record_failure(key, str(error))
        except Exception as error:  # noqa: BLE001 - one broken key must not stop the others
            self._record_failure(key, f"{type(error).__name__}: {error}")
        else:
            requeue_at = None if result is None else self._loop.now() + result.delay
            self._queue.done(key, requeue_at=requeue_at)
        self._metrics.inc(RECONCILE, self._labels)
        seconds = (self._loop.now() - self._started.pop(key)).total_seconds()
        self._metrics.observe(RECONCILE_DURATION, seconds, self._labels)
        self._schedule()

    def _record_failure(self, key: Hashable, message: str) -> None:
        delay = self._queue.requeue_with_backoff(key, self._loop.now())
        self._metrics.inc(RECONCILE_ERRORS, self._labels)
        self._log.error(
            "reconciler error",
            controller=self.name,
            key=str(key),
            error=message,
            again_in=f"{delay.total_seconds():g}s",
        )
