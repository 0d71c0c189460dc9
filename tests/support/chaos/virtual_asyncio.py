"""asyncio on virtual time: the loop of one process, which can be killed.

The production code runs on it unchanged: tasks, futures and ``asyncio.sleep`` are
those of asyncio; only the time is that of a ``VirtualClock``.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.simulator.clock import VirtualClock

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SendRequest = Callable[["VirtualAsyncioLoop", str, Callable[[], Any]], "asyncio.Future[Any]"]
"""Sends a request of a process over the network: loop, name of its thread pool, request."""


class VirtualAsyncioLoop(asyncio.AbstractEventLoop):
    """Runs callbacks between two calls of the virtual clock.

    Everything that threads do for the production code is a request over the
    network: ``run_in_executor`` passes it to ``send``.
    """

    def __init__(self, clock: VirtualClock, send: SendRequest) -> None:
        self.clock = clock
        self._send = send
        self._ready: deque[asyncio.Handle] = deque()
        self._is_scheduled = False
        self._steps_left: int | None = None
        self._on_last_step: Callable[[], None] = lambda: None
        self.killed = False
        self.errors: list[BaseException | str] = []
        """Errors that no task handled."""

    def kill(self) -> None:
        """Run nothing any more: no callback, no ``finally``, no ``except``."""
        self.killed = True
        self._ready.clear()
        for task in asyncio.all_tasks(self):
            # The garbage collector would close them later, in any order. What runs in
            # them now reaches nothing: this loop and the network ignore the dead.
            try:
                task.get_coro().close()  # type: ignore[union-attr]
            except RuntimeError:
                pass  # It awaits in a ``finally``.

    def call_after_steps(self, steps: int, callback: Callable[[], None]) -> None:
        """Call back between two steps of tasks, after so many of them."""
        self._steps_left, self._on_last_step = steps, callback

    def _run_ready(self) -> None:
        self._is_scheduled = False
        asyncio._set_running_loop(self)
        try:
            while self._ready and not self.killed:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                    self._count_step()
        finally:
            asyncio._set_running_loop(None)

    def _count_step(self) -> None:
        if self._steps_left is None:
            return
        self._steps_left -= 1
        if self._steps_left <= 0:
            self._steps_left = None
            self._on_last_step()

    # asyncio.AbstractEventLoop.

    def time(self) -> float:
        return (self.clock.now() - _EPOCH).total_seconds()

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.killed

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.killed:
            self._ready.append(handle)
            if not self._is_scheduled:
                self._is_scheduled = True
                self.clock.call_later(timedelta(), self._run_ready)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)

        def fire() -> None:
            if not self.killed and not handle.cancelled():
                self._ready.append(handle)
                self._run_ready()

        if not self.killed:
            self.clock.call_later(timedelta(seconds=max(0.0, delay)), fire)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer does not fire."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> "asyncio.Task[Any]":
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return self._send(self, getattr(executor, "_thread_name_prefix", ""), lambda: func(*args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.killed:
            self.errors.append(context.get("exception") or context["message"])


class VirtualHostLoop(AsyncioEventLoop):
    """The production event loop port, with the time of the virtual clock."""

    def __init__(self, loop: VirtualAsyncioLoop) -> None:
        self._loop = loop
        self._tasks = set()
        self._clock = loop.clock

    def now(self) -> datetime:
        return self._clock.now()
