"""Source of documents: the current one, later ones as they come, and whether they are stale."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

import msgspec

from dovetail.view.document import View


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """State of a source; a stale document is shown with the reason."""

    stale: bool = False
    reason: str = ""
    since: datetime | None = None
    """Start of the disconnection."""
    final: bool = False
    """No later document will come: a dump, or a simulation that has ended."""


class ViewUpdate(msgspec.Struct, frozen=True):
    """A document and the status of its source."""

    view: View
    status: SourceStatus


class ViewSource(Protocol):
    """Where documents come from; all methods belong to one asyncio loop."""

    async def start(self) -> None:
        """Return when the first document is there; raise ``DovetailError`` if there will be none."""

    def current(self) -> ViewUpdate:
        """Return the newest document; only after ``start``."""

    def updates(self) -> AsyncIterator[ViewUpdate]:
        """Yield the newest document at once, then each newer one; a slow reader skips some."""

    async def close(self) -> None:
        """End watches and all iterations."""


class Publisher:
    """Keeps the newest update, and wakes the iterations that wait for it."""

    def __init__(self) -> None:
        self._latest: ViewUpdate | None = None
        self._changed = asyncio.Condition()
        self._serial = 0
        self._closed = False

    @property
    def has_update(self) -> bool:
        return self._latest is not None

    def current(self) -> ViewUpdate:
        if self._latest is None:
            raise RuntimeError("the source has not been started")
        return self._latest

    async def publish(self, update: ViewUpdate) -> None:
        async with self._changed:
            self._latest = update
            self._serial += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """End all iterations after the newest update."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def updates(self) -> AsyncIterator[ViewUpdate]:
        seen = 0
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._serial > seen or self._closed)  # noqa: B023
                if self._serial == seen:
                    return
                seen, update = self._serial, self._latest
            if update is not None:
                yield update
