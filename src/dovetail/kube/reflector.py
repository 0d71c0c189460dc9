"""Reflector: lists and watches one kind into a store, as client-go's does.

    list (paged) ──> replace the store ──> watch from that resourceVersion ──┐
         ^                                     │  ^                           │
         │                                     │  └── connection lost: resume │
         └──────────── 410 Gone ───────────────┘                             events
                                                                              │
                                                      store <─────────────────┘

A watch that breaks is resumed from the last resourceVersion, with backoff. Only
if the API server no longer has that version (410) everything is listed again: at
once, because a server that answers 410 is up; a second 410 in a row backs off.
"""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.auth.credentials import CredentialsError
from dovetail.kube.client import PAGE_SIZE, list_pages, resource_version
from dovetail.kube.connection import Connection, resource_path
from dovetail.kube.errors import decode_status
from dovetail.ports.api_resources import Resource
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import ApiError, Forbidden, Gone, NotFound, Unauthorized, Unavailable
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import ClusterCache

_WATCH_TIMEOUT: Final = 300
"""Minimum ``timeoutSeconds`` of a watch; jitter up to twice that spreads the ends."""
_IDLE_TIMEOUT: Final = 150.0
"""Seconds. Bookmarks come every minute, so a silent connection is dead."""
_MIN_WATCH_DURATION: Final = timedelta(seconds=1)
_INITIAL_BACKOFF: Final = timedelta(milliseconds=200)
_MAX_WATCH_BACKOFF: Final = timedelta(seconds=5)
"""A watch is cheap to start, and until then changes of its kind are not seen."""
_MAX_LIST_BACKOFF: Final = timedelta(seconds=30)
_MAX_RETRY_AFTER: Final = 60
"""Seconds; a longer Retry-After of the API server or a proxy is shortened."""
STUCK_AFTER: Final = timedelta(minutes=5)
"""Without an event or an attempt for so long, a reflector is stuck: timeouts are shorter."""
_PERMANENT_ERRORS: Final = (Forbidden, NotFound, Unauthorized, CredentialsError)
"""Errors of the first list that a retry does not solve."""


class _Event(msgspec.Struct):
    type: str
    object: Object


_DECODER: Final = msgspec.json.Decoder(_Event)


class Relist(Protocol):
    """A list that replaces the contents of a store, page by page."""

    def add(self, objects: Iterable[Object]) -> None:
        """Add a page."""

    def finish(self, revision: str) -> None:
        """Delete what the list does not contain; ``revision`` is its resourceVersion."""


class ReflectorStore(Protocol):
    """Store that reflectors write to, such as ``state.cluster.cache.ClusterCache``."""

    def begin_relist(self, resource: Resource) -> Relist:
        """Begin to replace all objects of a kind."""

    def apply_event(self, resource: Resource, obj: Object) -> None:
        """Add or update an object."""

    def delete(self, resource: Resource, obj: Object) -> None:
        """Delete an object."""


class Reflectors:
    """One reflector for each kind of the cluster cache."""

    def __init__(
        self,
        cache: ClusterCache,
        connection: Connection,
        *,
        loop: EventLoop,
        random: RandomSource,
        log: Log,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_end`` is called if a reflector ends, which only shutdown or a bug causes."""
        self._loop = loop
        self._on_end = on_end
        self._reflectors = [
            Reflector(cache, resource, connection, loop=loop, random=random, log=log)
            for resource in cache.stores
        ]

    async def start(self) -> None:
        """Return when every kind is listed, and keep watching; raise permanent errors.

        While the API server is unavailable or throttles, the lists are retried.
        """
        results = await self._loop.gather([self._start(reflector) for reflector in self._reflectors])
        for result in results:
            if isinstance(result, Exception):
                raise result

    def stuck_kinds(self) -> list[str]:
        """Return the kinds whose reflector is stuck."""
        before = self._loop.now() - STUCK_AFTER
        return [reflector.kind for reflector in self._reflectors if reflector.last_activity < before]

    def disconnected_since(self) -> datetime | None:
        """Return the start of the longest current disconnection; None if all watch."""
        starts = [reflector.disconnected_since for reflector in self._reflectors]
        return min((start for start in starts if start is not None), default=None)

    async def _start(self, reflector: "Reflector") -> None:
        await reflector.initial_list()
        self._loop.spawn(self._run(reflector))

    async def _run(self, reflector: "Reflector") -> None:
        try:
            await reflector.run()
        finally:
            self._on_end()


class Reflector:
    """Keeps a store equal to the API server for one kind."""

    def __init__(
        self,
        store: ReflectorStore,
        resource: Resource,
        connection: Connection,
        *,
        loop: EventLoop,
        random: RandomSource,
        log: Log,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._store = store
        self.resource = resource
        self._connection = connection
        self._loop = loop
        self._random = random
        self._log = log
        self._page_size = page_size
        self._resource_version = ""
        """The store contains everything up to here; empty if a list is needed."""
        self._failures = 0
        """Failures since the last event or complete list."""
        self._expirations = 0
        """410 responses since the last event."""
        self.kind = resource.qualified_name
        self.last_activity = loop.now()
        """Time of the last event or attempt."""
        self.disconnected_since: datetime | None = None
        """Time of the first failure since the last event; None while connected."""
        self.last_error = ""
        """The newest failure, in one line."""
        self._logged_errors: set[str] = set()
        """Kinds of failures that were logged as errors since the connection was lost."""

    async def initial_list(self) -> None:
        """List once, with retries; raise permanent errors."""
        while not self._resource_version:
            try:
                await self._list()
            except _PERMANENT_ERRORS:
                raise
            except DovetailError as error:
                await self._back_off(error)

    async def run(self) -> None:
        """Watch, and list again when needed, until cancelled."""
        while True:
            try:
                if not self._resource_version:
                    await self._list()
                await self._watch()
            except Gone as error:
                self._resource_version = ""
                self._expirations += 1
                if self._expirations > 1:
                    self._failures = max(self._failures, self._expirations - 2)
                    await self._back_off(error)
            except DovetailError as error:
                await self._back_off(error)

    async def _list(self) -> None:
        try:
            await self._list_pages(self._page_size)
        except Gone:
            # The continue token expired while reading; a list without pages cannot.
            await self._list_pages(0)

    async def _list_pages(self, size: int) -> None:
        relist = self._store.begin_relist(self.resource)
        version = ""
        async with aclosing(list_pages(self._connection, self.resource, size=size)) as pages:
            async for page in pages:
                relist.add(page.items)
                self.last_activity = self._loop.now()
                version = page.resource_version
        relist.finish(version)
        self._resource_version, self._failures = version, 0

    async def _watch(self) -> None:
        """Apply events until the watch ends."""
        started, has_events = self._loop.now(), False
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resource_version,
            "timeoutSeconds": str(int(_WATCH_TIMEOUT * (1 + self._random.random()))),
        }
        path = resource_path(self.resource)
        stream = self._connection.stream_lines(path, query=query, idle_timeout=_IDLE_TIMEOUT)
        async with aclosing(stream) as batches:
            async for lines in batches:
                self._note_connected()
                for line in lines:
                    self._apply_line(line)
                    has_events, self._failures, self._expirations = True, 0, 0
        if not has_events and self._loop.now() - started < _MIN_WATCH_DURATION:
            raise Unavailable("the watch ended within a second and without an event")

    def _note_connected(self) -> None:
        now, since = self._loop.now(), self.disconnected_since
        self.last_activity, self.disconnected_since = now, None
        if self._logged_errors and since is not None:
            self._logged_errors.clear()
            seconds = (now - since).total_seconds()
            self._log.info("watch resumed", resource=self.kind, interrupted_for=f"{seconds:.1f}s")

    def _apply_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            event = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Unavailable(f"the watch sent an invalid event: {error}") from error
        if event.type == "ERROR":
            raise decode_status(event.object)
        version = resource_version(event.object)
        if event.type == "DELETED":
            self._store.delete(self.resource, event.object)
        elif event.type != "BOOKMARK":
            self._store.apply_event(self.resource, event.object)
        self._resource_version = version

    async def _back_off(self, error: DovetailError) -> None:
        self._failures += 1
        self.last_error = str(error)
        self.disconnected_since = self.disconnected_since or self._loop.now()
        limit = _MAX_WATCH_BACKOFF if self._resource_version else _MAX_LIST_BACKOFF
        # 2**10 times the initial backoff is beyond the maximum.
        delay = min(limit, _INITIAL_BACKOFF * (1 << min(self._failures - 1, 10)))
        # Jitter: all kinds lose their watches together and must not reconnect together.
        delay = max(delay * (0.5 + self._random.random()), _retry_after(error))
        # A watch ends every few minutes; only one that cannot be resumed is an error. An outage
        # concerns all resources and may last: each logs an error of one text once.
        is_new = self._failures > 1 and str(error) not in self._logged_errors
        if is_new:
            self._logged_errors.add(str(error))
        log = self._log.error if is_new else self._log.debug
        log(
            "watch interrupted",
            resource=self.resource.qualified_name,
            error=str(error),
            again_in=f"{delay.total_seconds():.1f}s",
        )
        await self._loop.sleep(delay)
        self.last_activity = self._loop.now()


def _retry_after(error: DovetailError) -> timedelta:
    """Return the Retry-After of the API server, at most a minute."""
    seconds: Any = error.details.get("retryAfterSeconds") if isinstance(error, ApiError) else None
    if not isinstance(seconds, int):
        return timedelta()
    return timedelta(seconds=max(0, min(seconds, _MAX_RETRY_AFTER)))
