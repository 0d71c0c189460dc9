"""Work queues and watches of the simulated components, on virtual time.

Simulated components work like controllers: a watch event adds keys to a work
queue, and the queue calls back with each key in a scheduled call of its own.

A component may fail on one object. The error ends the run unless the owner of the clock
handles it (``VirtualClock.on_error``): then the key is retried with backoff, and other keys
and events are processed as if nothing had happened.
"""

from collections.abc import Callable, Hashable, Iterator
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.interface import ApiClient
from dovetail.simulator.apiserver.options import WatchOptions
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.clock import ScheduledCall, VirtualClock

Key = TypeVar("Key", bound=Hashable)

_MIN_BACKOFF: Final = timedelta(seconds=1)
_MAX_BACKOFF: Final = timedelta(minutes=5)
"""Delay before a key that failed is processed again; it doubles with every failure."""


class WorkQueue(Generic[Key]):
    """Deduplicating work queue: a key is queued at most once.

    Keys are processed in a scheduled call, never inside the write that added them.
    """

    def __init__(self, clock: VirtualClock, process: Callable[[Key], None]) -> None:
        self._clock = clock
        self._process = process
        self._queued: dict[Key, ScheduledCall] = {}
        self._failures: dict[Key, int] = {}
        """Key → failures since it was last processed without one."""

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
        self._failures.pop(key, None)
        queued = self._queued.pop(key, None)
        if queued is not None:
            queued.cancel()

    def _run(self, key: Key) -> None:
        del self._queued[key]
        try:
            self._process(key)
        except Exception as error:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            self.add(key, after=min(_MIN_BACKOFF * 2 ** min(failures, 10), _MAX_BACKOFF))
            error.add_note(_key_text(key))
            raise
        self._failures.pop(key, None)


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
        deliver_all(iter(watch.poll()))

    def deliver_all(events: Iterator[WatchEvent]) -> None:
        event = None
        try:
            for event in events:
                handler(event)
        except Exception as error:
            # The others follow at once, before any later event.
            clock.call_later(timedelta(), lambda: deliver_all(events), priority=-1)
            if event is not None:
                error.add_note(_key_text(object_key(event.object)))
            raise

    def schedule_delivery() -> None:
        clock.call_later(timedelta(), deliver)

    watch = api.watch(resource, options or WatchOptions(), notify=schedule_delivery)
    return watch.stop


def _key_text(key: Hashable) -> str:
    """Return ``namespace/name`` of a key; empty if it names no object."""
    if isinstance(key, tuple):
        return "/".join(filter(None, map(_key_text, key)))
    return key if isinstance(key, str) else ""
