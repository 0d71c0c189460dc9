"""Keeps a mirror equal to the API server: lists once, then watches for ever."""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.auth.credentials import NoCredentials
from dovetail.kube.client import PAGE, pages, revision_of
from dovetail.kube.connection import Connection
from dovetail.kube.errors import refused
from dovetail.kube.paths import path_of
from dovetail.ports.api_resources import Resource
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
    Unavailable,
)
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Mirror

_LASTS: Final = 300
"""Seconds that a watch is asked to last, and up to twice that: not all may end together."""
_SILENCE: Final = 150.0
"""Bookmarks come every minute; a connection without them is dead and does not know it."""
_SHORT: Final = timedelta(seconds=1)
_FIRST_PAUSE: Final = timedelta(milliseconds=200)
_LONGEST_PAUSE: Final = timedelta(seconds=30)
_LONGEST_WISH: Final = 60
"""Seconds; a server, or what stands before it, that wants to be left alone for longer is not."""
STUCK_AFTER: Final = timedelta(minutes=5)
"""Without a word or a try for so long, a watch has been forgotten: silence ends it far sooner."""
_HOPELESS: Final = (Forbidden, NotFound, Unauthorized, NoCredentials)
"""What does not go away by itself when it is so from the start."""


class _Event(msgspec.Struct):
    type: str
    object: Object


_DECODER: Final = msgspec.json.Decoder(_Event)


class Listing(Protocol):
    """Takes a whole list that comes page by page."""

    def take(self, objects: Iterable[Object]) -> None: ...

    def end(self, revision: str) -> None: ...


class Keeper(Protocol):
    """Keeps what is heard, as ``state.cluster.cache.Mirror`` does."""

    def relist(self, resource: Resource) -> Listing: ...

    def put(self, resource: Resource, obj: Object) -> None: ...

    def remove(self, resource: Resource, obj: Object) -> None: ...


class Feed:
    """Fills a mirror and keeps it up to date, each kind by itself."""

    def __init__(
        self,
        mirror: Mirror,
        connection: Connection,
        *,
        loop: Loop,
        chance: Chance,
        log: Log,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_end`` is called when a kind is no longer watched, which is a bug or the end."""
        self._loop = loop
        self._on_end = on_end
        self._watchers = [
            Watcher(mirror, one, connection, loop=loop, chance=chance, log=log)
            for one in mirror.tables
        ]

    async def start(self) -> None:
        """Come back when every kind has been listed; raises when one cannot be.

        An API server that is merely away or busy is waited for.
        """
        for outcome in await self._loop.together([self._begin(one) for one in self._watchers]):
            if isinstance(outcome, Exception):
                raise outcome

    def stuck(self) -> list[str]:
        """Name the kinds that are no longer followed, though nobody has said so."""
        before = self._loop.now() - STUCK_AFTER
        return [one.kind for one in self._watchers if one.stirred < before]

    def lost_since(self) -> datetime | None:
        """Return since when a kind, or more, has not been followed; None when all are."""
        return min((one.lost_since for one in self._watchers if one.lost_since), default=None)

    async def _begin(self, watcher: "Watcher") -> None:
        await watcher.list_first()
        self._loop.spawn(self._follow(watcher))

    async def _follow(self, watcher: "Watcher") -> None:
        try:
            await watcher.run()
        finally:
            self._on_end()


class Watcher:
    """Mirrors one kind.

    What breaks a watch is survived by going on from the last revision heard of.
    Only when the server has forgotten that (410) is everything listed again.
    """

    def __init__(
        self,
        mirror: Keeper,
        resource: Resource,
        connection: Connection,
        *,
        loop: Loop,
        chance: Chance,
        log: Log,
        page: int = PAGE,
    ) -> None:
        self._mirror = mirror
        self._resource = resource
        self._connection = connection
        self._loop = loop
        self._chance = chance
        self._log = log
        self._page = page
        self._revision = ""
        """Up to which everything is known; empty when that has to be listed."""
        self._failures = 0
        self.kind = resource.qualified
        self.stirred = loop.now()
        """When it last heard something, or tried to."""
        self.lost_since: datetime | None = None
        """Since when the server has not answered; None while it does."""

    async def list_first(self) -> None:
        """List once, however long the server is away; raises what is hopeless."""
        while not self._revision:
            try:
                await self._list()
            except _HOPELESS:
                raise
            except DovetailError as error:
                await self._pause(error)

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            try:
                if not self._revision:
                    await self._list()
                await self._watch()
            except Gone as error:
                self._revision = ""
                await self._pause(error)
            except DovetailError as error:
                await self._pause(error)

    async def _list(self) -> None:
        try:
            await self._take_pages(self._page)
        except Gone:
            # Reading took longer than the server remembers; all at once is always possible.
            await self._take_pages(0)

    async def _take_pages(self, size: int) -> None:
        listing = self._mirror.relist(self._resource)
        revision = ""
        async with aclosing(pages(self._connection, self._resource, size=size)) as read:
            async for page in read:
                listing.take(page.items)
                self.stirred = self._loop.now()
                revision = page.revision
        listing.end(revision)
        self._revision = revision

    async def _watch(self) -> None:
        """Take events until the watch ends, in whatever way."""
        started, heard = self._loop.now(), False
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
            "timeoutSeconds": str(int(_LASTS * (1 + self._chance.fraction()))),
        }
        lines = self._connection.lines(path_of(self._resource), query=query, silence=_SILENCE)
        async with aclosing(lines) as read:
            async for batch in read:
                self.stirred, self.lost_since = self._loop.now(), None
                for line in batch:
                    self._hear(line)
                    heard, self._failures = True, 0
        if not heard and self._loop.now() - started < _SHORT:
            raise Unavailable("the watch ended as soon as it had begun")

    def _hear(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            event = _DECODER.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise Unavailable(f"the watch says what is no event: {error}") from error
        if event.type == "ERROR":
            raise refused(event.object)
        revision = revision_of(event.object)
        if event.type == "DELETED":
            self._mirror.remove(self._resource, event.object)
        elif event.type != "BOOKMARK":
            self._mirror.put(self._resource, event.object)
        self._revision = revision

    async def _pause(self, error: DovetailError) -> None:
        self._failures += 1
        self.lost_since = self.lost_since or self._loop.now()
        # 2**10 times the first is beyond the longest.
        wait = min(_LONGEST_PAUSE, _FIRST_PAUSE * (1 << min(self._failures - 1, 10)))
        # All kinds lose their watches together; they need not come back together.
        wait = max(wait * (0.5 + self._chance.fraction()), _asked_for(error))
        # Watches end all the time; those that cannot be resumed are worth a line.
        tell = self._log.debug if self._failures == 1 else self._log.error
        tell(
            "watch interrupted",
            resource=self._resource.qualified,
            error=str(error),
            again_in=f"{wait.total_seconds():.1f}s",
        )
        await self._loop.sleep(wait)
        self.stirred = self._loop.now()


def _asked_for(error: DovetailError) -> timedelta:
    """Return how long the server itself wants to be left alone, within reason."""
    seconds: Any = error.details.get("retryAfterSeconds") if isinstance(error, ApiError) else None
    if not isinstance(seconds, int):
        return timedelta()
    return timedelta(seconds=max(0, min(seconds, _LONGEST_WISH)))
