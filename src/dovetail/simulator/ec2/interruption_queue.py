"""The queue in which virtual EC2 leaves its warnings."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from dovetail.ports.cloudprovider import Interruption, Message
from dovetail.ports.event_loop import Loop
from dovetail.simulator.event_loop import Pause

RETENTION: Final = timedelta(minutes=5)
VISIBILITY: Final = timedelta(seconds=20)
"""A message that was received and not removed is delivered again after this."""
LONGEST_POLL: Final = timedelta(seconds=20)
_MOST_AT_ONCE: Final = 10


class Queue:
    """Messages, each hidden for a while once it is received."""

    def __init__(self) -> None:
        self._messages: dict[str, tuple[Message, datetime]] = {}
        """Oldest first; with the time from which it can be received."""
        self._numbers = count(1)
        self._waiting: list[Callable[[], object]] = []

    def send(self, kind: Interruption, instance_ids: Sequence[str], *, now: datetime) -> None:
        """Put a message in; those that nobody removed in time go."""
        message = Message(
            id=f"message-{next(self._numbers)}",
            kind=kind,
            instance_ids=tuple(instance_ids),
            sent=now,
        )
        self._drop_stale(now)
        self._messages[message.id] = (message, now)
        for wake in self._waiting:
            wake()

    def receive(self, now: datetime) -> list[Message]:
        """Return some messages and hide them for a while."""
        self._drop_stale(now)
        found: list[Message] = []
        for message, visible in self._messages.values():
            if visible <= now:
                found.append(message)
                if len(found) == _MOST_AT_ONCE:
                    break
        for message in found:
            self._messages[message.id] = (message, now + VISIBILITY)
        return found

    def remove(self, message: Message) -> None:
        self._messages.pop(message.id, None)

    def next_visible(self) -> datetime | None:
        """Tell when a hidden message can be received again."""
        return min((visible for _, visible in self._messages.values()), default=None)

    def when_sent(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Have ``wake`` called at every message; returns how to stop that."""
        self._waiting.append(wake)
        return lambda: self._waiting.remove(wake)

    def _drop_stale(self, now: datetime) -> None:
        while self._messages:
            oldest = next(iter(self._messages))
            sent = self._messages[oldest][0].sent
            if sent is None or now - sent <= RETENTION:
                return
            del self._messages[oldest]


class SimInterruptions:
    """``ports.cloudprovider.Interruptions`` with SQS' long polling."""

    def __init__(self, queue: Queue, *, loop: Loop) -> None:
        self._queue = queue
        self._loop = loop

    async def receive(self) -> Sequence[Message]:
        """Return up to ten messages; wait for a while when there is none.

        What is not removed comes again after ``VISIBILITY``.
        """
        found = self._queue.receive(self._loop.now())
        if not found:
            await self._arrival()
            found = self._queue.receive(self._loop.now())
        return found

    async def remove(self, message: Message) -> None:
        self._queue.remove(message)

    async def _arrival(self) -> None:
        loop, pause = self._loop, Pause()
        awake = False

        def wake() -> None:
            nonlocal awake
            if not awake:
                awake = True
                timer.cancel()
                forget()
                pause.end()

        latest = loop.now() + LONGEST_POLL
        timer = loop.at(min(latest, self._queue.next_visible() or latest), wake)
        # Through the loop, so that nothing of a killed process wakes up.
        forget = self._queue.when_sent(lambda: loop.at(loop.now(), wake))
        await pause
