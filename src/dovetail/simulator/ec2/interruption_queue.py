"""Interruption queue: messages from EC2, with the semantics of SQS."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from dovetail.ports.cloudprovider import InterruptionKind, InterruptionMessage
from dovetail.ports.event_loop import EventLoop
from dovetail.simulator.event_loop import VirtualFuture

RETENTION: Final = timedelta(minutes=5)
VISIBILITY: Final = timedelta(seconds=20)
"""Visibility timeout: a message not deleted is delivered again after it."""
MAX_POLL: Final = timedelta(hours=1)
"""A message ends a poll at once, so that the 20 s of SQS would only cost time."""
_MAX_BATCH: Final = 10
"""Messages per receive call, as in SQS."""


class MessageQueue:
    """Messages, each hidden for the visibility timeout once it is received."""

    def __init__(self) -> None:
        self._messages: dict[str, tuple[InterruptionMessage, datetime]] = {}
        """Message ID → message, and from when it is visible; oldest first."""
        self._numbers = count(1)
        self._listeners: list[Callable[[], object]] = []

    def send(self, kind: InterruptionKind, instance_ids: Sequence[str], *, now: datetime) -> None:
        """Add a message, and drop those past the retention period."""
        message = InterruptionMessage(
            id=f"message-{next(self._numbers)}", kind=kind, instance_ids=tuple(instance_ids), sent_at=now
        )
        self._expire(now)
        self._messages[message.id] = (message, now)
        for wake in self._listeners:
            wake()

    def receive(self, now: datetime) -> list[InterruptionMessage]:
        """Return up to ten visible messages and hide them."""
        self._expire(now)
        received: list[InterruptionMessage] = []
        for message, visible in self._messages.values():
            if visible <= now:
                received.append(message)
                if len(received) == _MAX_BATCH:
                    break
        for message in received:
            self._messages[message.id] = (message, now + VISIBILITY)
        return received

    def delete(self, message: InterruptionMessage) -> None:
        self._messages.pop(message.id, None)

    def next_visible_at(self) -> datetime | None:
        """Return when a message is visible next; None if there are none."""
        return min((visible for _, visible in self._messages.values()), default=None)

    def add_listener(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call ``wake`` for every message; return a function that removes it."""
        self._listeners.append(wake)
        return lambda: self._listeners.remove(wake)

    def _expire(self, now: datetime) -> None:
        while self._messages:
            oldest = next(iter(self._messages))
            sent = self._messages[oldest][0].sent_at
            if sent is None or now - sent <= RETENTION:
                return
            del self._messages[oldest]


class SimulatedInterruptionQueue:
    """``ports.cloudprovider.InterruptionQueue`` with long polling."""

    def __init__(self, queue: MessageQueue, *, loop: EventLoop) -> None:
        self._queue = queue
        self._loop = loop

    async def receive(self) -> Sequence[InterruptionMessage]:
        """Return up to ten messages; wait up to ``MAX_POLL`` for the first.

        A message that is not deleted is returned again after ``VISIBILITY``.
        """
        messages = self._queue.receive(self._loop.now())
        if not messages:
            await self._wait_for_message()
            messages = self._queue.receive(self._loop.now())
        return messages

    async def delete(self, message: InterruptionMessage) -> None:
        self._queue.delete(message)

    async def _wait_for_message(self) -> None:
        loop, future = self._loop, VirtualFuture()
        awake = False

        def wake() -> None:
            nonlocal awake
            if not awake:
                awake = True
                future.set_done()

        latest = loop.now() + MAX_POLL
        timer = loop.call_at(min(latest, self._queue.next_visible_at() or latest), wake)
        # Through the event loop, so that nothing wakes up in a killed process.
        remove_listener = self._queue.add_listener(lambda: loop.call_at(loop.now(), wake))
        try:
            await future
        finally:  # Also if the process is killed: the queue outlives it.
            timer.cancel()
            remove_listener()
