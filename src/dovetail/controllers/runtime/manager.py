"""Runs controllers: what changed becomes keys, keys become reconciles."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from dovetail.controllers.runtime.workqueue import Backoff, WorkQueue
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import Resource
from dovetail.ports.event_loop import Loop, Timer
from dovetail.ports.kube_errors import Conflict
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror

SINGLETON: Final = ""
"""The key of a controller that looks at the whole cluster."""
STUCK_AFTER: Final = timedelta(minutes=15)
"""A look takes moments, with a throttled cloud minutes; what takes longer does not end at all."""


class Requeue(msgspec.Struct, frozen=True):
    """Look again after a while; a look in between decides anew when the next one is."""

    after: timedelta


def raise_first(outcomes: Iterable[object]) -> None:
    """Raise the first error among what several attempts came to, if one failed.

    What the others did is in the mirror by then; a look again does the rest.
    """
    for one in outcomes:
        if isinstance(one, Exception):
            raise one


class Controller(Protocol):
    """Looks at one thing and moves it closer to what it should be."""

    async def reconcile(self, key: Any) -> Requeue | None:
        """Do what is to do for a key. May be called again at any time, without harm."""


Keys = Callable[[Change], Iterable[Hashable]]
"""Which keys a change of the picture concerns."""

Source = Callable[[Callable[[Any], None]], None]
"""Takes the one to tell of keys, now and later."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A controller, and what it wants to be told of."""

    name: str
    controller: Controller
    watches: Sequence[tuple[Resource, Keys]] = ()
    at_start: Sequence[Hashable] = ()
    """Keys to look at when starting, such as ``SINGLETON``."""
    sources: Sequence[Source] = ()
    """Others, beside the mirror, who have keys to look at."""
    backoff: Backoff = Backoff()
    workers: int = 100
    listens: bool = False
    """It spends its time waiting for news from outside, and may be cut off in that."""


class Load(NamedTuple):
    """How much one controller has to do."""

    controller: str
    waiting: int
    """Keys that are due."""
    working: int
    """Keys that are looked at."""


class Runtime:
    """All controllers on one loop, each with a queue of its own."""

    def __init__(
        self,
        registrations: Sequence[Registration],
        *,
        mirror: Mirror,
        loop: Loop,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._hands = [_Hand(one, loop=loop, log=log, metrics=metrics) for one in registrations]
        self._mirror = mirror

    def start(self) -> None:
        """Begin to work on what is there and on what changes."""
        for hand in self._hands:
            hand.start(self._mirror)

    def rest(self) -> None:
        """Begin nothing new; what has begun goes on to its end."""
        for hand in self._hands:
            hand.rest()

    def busy(self) -> int:
        """Tell how many keys are being worked on."""
        return sum(hand.busy for hand in self._hands)

    def loads(self) -> list[Load]:
        """Tell how much each controller has to do."""
        return [hand.load() for hand in self._hands]

    def stuck(self) -> list[str]:
        """Name the controllers that have not come to an end with something for very long."""
        return [hand.name for hand in self._hands if hand.is_stuck()]

    def ask(self, name: str, key: Hashable) -> None:
        """Have a controller look at a key now."""
        for hand in self._hands:
            if hand.name == name:
                hand.ask(key)


class _Hand:
    """One controller at work."""

    def __init__(
        self, registration: Registration, *, loop: Loop, log: Log, metrics: Metrics
    ) -> None:
        self.name = registration.name
        self._registration = registration
        self._controller = registration.controller
        self._queue: WorkQueue[Hashable] = WorkQueue(registration.backoff)
        self._loop = loop
        self._log = log
        self._metrics = metrics
        self._began: dict[Hashable, datetime] = {}
        """Keys that are looked at, and since when."""
        self._timer: Timer | None = None
        self._wakes_at: datetime | None = None
        self._resting = False

    @property
    def busy(self) -> int:
        return 0 if self._registration.listens else len(self._began)

    def load(self) -> Load:
        return Load(self.name, self._queue.overdue(self._loop.now()), len(self._began))

    def is_stuck(self) -> bool:
        before = self._loop.now() - STUCK_AFTER
        return not self._registration.listens and any(at < before for at in self._began.values())

    def rest(self) -> None:
        self._resting = True
        if self._timer is not None:
            self._timer.cancel()

    def start(self, mirror: Mirror) -> None:
        for resource, keys in self._registration.watches:
            mirror.subscribe(resource, self._asker(keys))
        for source in self._registration.sources:
            source(self.ask)
        for key in self._registration.at_start:
            self.ask(key)

    def _asker(self, keys: Keys) -> Callable[[Change], None]:
        def ask(change: Change) -> None:
            for key in keys(change):
                self.ask(key)

        return ask

    def ask(self, key: Hashable) -> None:
        self._queue.add(key, self._loop.now())
        self._wake()

    def _wake(self) -> None:
        """Arrange to go on when the next key is due; never inside the caller's work."""
        due = self._queue.next_at()
        if due is None or self._resting or len(self._began) >= self._registration.workers:
            return
        if self._wakes_at is not None and self._wakes_at <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = due
        self._timer = self._loop.at(due, self._pump)

    def _pump(self) -> None:
        self._wakes_at = self._timer = None
        while len(self._began) < self._registration.workers:
            key = self._queue.take(self._loop.now())
            if key is None:
                break
            self._began[key] = self._loop.now()
            self._loop.spawn(self._reconcile(key))
        self._wake()

    async def _reconcile(self, key: Hashable) -> None:
        try:
            requeue = await self._controller.reconcile(key)
        except Conflict:
            # Somebody wrote in between; the news of it may be on its way already.
            self._queue.failed(key, self._loop.now())
        except DovetailError as error:
            self._failed(key, str(error))
        except Exception as error:  # noqa: BLE001 - one broken key must not stop the others
            self._failed(key, f"{type(error).__name__}: {error}")
        else:
            again = None if requeue is None else self._loop.now() + requeue.after
            self._queue.done(key, again_at=again)
        self._metrics.count("controller_runtime_reconcile_total", controller=self.name)
        took = (self._loop.now() - self._began.pop(key)).total_seconds()
        self._metrics.observe(
            "controller_runtime_reconcile_time_seconds", took, controller=self.name
        )
        self._wake()

    def _failed(self, key: Hashable, message: str) -> None:
        wait = self._queue.failed(key, self._loop.now())
        self._metrics.count("controller_runtime_reconcile_errors_total", controller=self.name)
        self._log.error(
            "reconciler error",
            controller=self.name,
            key=str(key),
            error=message,
            again_in=f"{wait.total_seconds():g}s",
        )
