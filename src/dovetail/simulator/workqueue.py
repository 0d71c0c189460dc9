"""How simulated actors work: they are told of changes and keep a desk of things to look at."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.interface import Verbs
from dovetail.simulator.apiserver.options import WatchOptions
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.clock import Appointment, Engine

Key = TypeVar("Key", bound=Hashable)


class Desk(Generic[Key]):
    """Keys to look at, each at most once however often it is asked for.

    Work happens in an event of its own, never inside the write that asked for it.
    """

    def __init__(self, engine: Engine, work: Callable[[Key], None]) -> None:
        self._engine = engine
        self._work = work
        self._due: dict[Key, Appointment] = {}

    def ask(self, key: Key, *, after: timedelta = timedelta()) -> None:
        """Have a key looked at; an earlier appointment for it stands, a later one moves up."""
        at = self._engine.now() + after
        known = self._due.get(key)
        if known is not None:
            if known.at <= at:
                return
            known.cancel()
        self._due[key] = self._engine.at(at, lambda: self._look(key))

    def due(self, key: Key) -> datetime | None:
        """Tell when a key will be looked at."""
        known = self._due.get(key)
        return None if known is None else known.at

    def forget(self, key: Key) -> None:
        known = self._due.pop(key, None)
        if known is not None:
            known.cancel()

    def _look(self, key: Key) -> None:
        del self._due[key]
        self._work(key)


def follow(
    api: Verbs,
    engine: Engine,
    resource: Resource,
    handle: Callable[[WatchEvent], None],
    *,
    which: WatchOptions | None = None,
) -> Callable[[], None]:
    """Have ``handle`` told of everything there is and of every change; returns how to stop.

    Events arrive at the virtual instant of the change, in an event of their own.
    """

    def deliver() -> None:
        for event in watch.take():
            handle(event)

    def soon() -> None:
        engine.after(timedelta(), deliver)

    watch = api.watch(resource, which or WatchOptions(), notify=soon)
    return watch.stop
