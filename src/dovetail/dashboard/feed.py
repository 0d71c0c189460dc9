"""Feed of the dashboard: the current document, and recent changes for browsers that follow it."""

import asyncio
from collections import deque
from typing import Final

import msgspec

from dovetail.dashboard.history import History, Sample
from dovetail.dashboard.sources.source import SourceStatus, ViewUpdate
from dovetail.view.diff import Patch, diff
from dovetail.view.document import View

_MAX_CHANGES: Final = 120
"""Changes that are kept for browsers that were disconnected: two minutes at one a second."""
_MAX_BYTES: Final = 8 << 20
"""Of all kept changes; a browser that misses more loads the document again."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """First response to a browser: document, history and status."""

    revision: str
    view: View
    history: tuple[Sample, ...]
    status: SourceStatus


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Change that a browser applies to its snapshot."""

    patch: Patch
    sample: Sample | None = None
    replaces_last: bool = False
    """The sample takes the place of the last one."""
    status: SourceStatus | None = None
    """None: unchanged."""


class NumberedChange(msgspec.Struct, frozen=True):
    """An encoded change."""

    number: int
    data: bytes


class ViewFeed:
    """Numbers the changes of a document.

    A revision is ``EPOCH-NUMBER``; the epoch differs in every process, so that a browser never
    applies changes of a new server to a document of an old one.
    """

    def __init__(self, first: ViewUpdate, *, epoch: str) -> None:
        self._epoch = epoch
        self._number = 0
        self._latest = first
        self._history = History()
        self._history.record(first.view)
        self._changes: deque[NumberedChange] = deque()
        self._bytes = 0
        self._snapshot: tuple[int, bytes] | None = None
        self._published = asyncio.Event()

    @property
    def number(self) -> int:
        """Number of the newest change."""
        return self._number

    def revision(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def publish(self, update: ViewUpdate) -> None:
        """Record a newer document, and wake the browsers that wait."""
        before = self._latest
        if update is before:
            return
        recorded = self._history.record(update.view)
        change = Change(
            patch=diff(before.view, update.view),
            sample=recorded.sample if recorded is not None else None,
            replaces_last=recorded is not None and recorded.replaces_last,
            status=update.status if update.status != before.status else None,
        )
        self._latest = update
        self._number += 1
        self._append(NumberedChange(self._number, msgspec.json.encode(change)))
        published, self._published = self._published, asyncio.Event()
        published.set()

    def mark_stale(self, reason: str) -> None:
        """Publish the newest document again, as stale."""
        status = SourceStatus(stale=True, reason=reason, since=self._latest.view.at)
        self.publish(ViewUpdate(self._latest.view, status))

    def encode_snapshot(self) -> bytes:
        """Return the document with its history; encoded once per revision."""
        if self._snapshot is None or self._snapshot[0] != self._number:
            snapshot = Snapshot(
                revision=self.revision(self._number),
                view=self._latest.view,
                history=self._history.samples,
                status=self._latest.status,
            )
            self._snapshot = (self._number, msgspec.json.encode(snapshot))
        return self._snapshot[1]

    def parse_revision(self, text: str) -> int | None:
        """Return the number of a revision of this feed; None if it is not one."""
        epoch, _, number = text.rpartition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        return int(number) if int(number) <= self._number else None

    def changes_since(self, number: int) -> list[NumberedChange] | None:
        """Return all later changes; None if some of them are no longer kept."""
        first = self._changes[0].number if self._changes else self._number + 1
        if number + 1 < first:
            return None
        return [change for change in self._changes if change.number > number]

    async def wait_for_change(self, number: int, timeout_seconds: float) -> None:
        """Return when there is a later change, or after the timeout."""
        if self._number > number:
            return
        published = self._published
        try:
            async with asyncio.timeout(timeout_seconds):
                await published.wait()
        except TimeoutError:
            return

    def _append(self, change: NumberedChange) -> None:
        self._changes.append(change)
        self._bytes += len(change.data)
        while len(self._changes) > _MAX_CHANGES or (self._bytes > _MAX_BYTES and len(self._changes) > 1):
            self._bytes -= len(self._changes.popleft().data)
