"""Work queues and watches of the simulated components, on virtual time.

Simulated components work like controllers: a watch event adds keys to a work
queue, and the queue calls back with each key in a scheduled call of its own.
"""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.interface import ApiClient
from dovetail.simulator.apiserver.options import WatchOptions
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.clock import ScheduledCall, VirtualClock

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Deduplicating work queue: a key is queued at most once.

    Keys are processed in a scheduled call, never inside the write that added them.
    """

    def __init__(self, clock: VirtualClock, process: Callable[[Key], None]) -> None:
        self._clock = clock
        self._process = process
        self._queued: dict[Key, ScheduledCall] = {}

    def add(self, key: Key, *, after: timedelta = timedelta()) -> None:
        """Queue a key; of two due times for one key, the earlier counts."""
        at = self._clock.now() + after
        queued = self._queued.get(key)
        if queued is not None:
            if queued.at <= at:
                return
            queued.cancel()
        self._queued[key] = self._clock.call_at(at, lambda: self._run(key))

    def due(self, key: Key) -> datetime | None:
        """Return when a key is due; None if it is not queued."""
        queued = self._queued.get(key)
        return None if queued is None else queued.at

    def discard(self, key: Key) -> None:
        """Remove a key from the queue, if it is there."""
        queued = self._queued.pop(key, None)
        if queued is not None:
            queued.cancel()

    def _run(self, key: Key) -> None:
        del self._queued[key]
        self._process(key)


def start_watch(
    api: ApiClient,
    clock: VirtualClock,
    resource: Resource,
    handler: Callable[[WatchEvent], None],
    *,
    options: WatchOptions | None = None,
) -> Callable[[], None]:
    """Call ``handler`` for all objects and every change; return a stop function.

    Events arrive at the virtual time of the change, in a scheduled call of their own.
    """

    def deliver() -> None:
        for event in watch.poll():
            handler(event)

    def schedule_delivery() -> None:
        clock.call_later(timedelta(), deliver)

    watch = api.watch(resource, options or WatchOptions(), notify=schedule_delivery)
    return watch.stop
