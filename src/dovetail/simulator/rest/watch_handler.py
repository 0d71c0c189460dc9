"""Watches: one line of JSON for each event, for as long as the caller listens."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Gone
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, Watch, WatchEvent, bookmark
from dovetail.simulator.rest.encoding.accept import Form, wanted_form
from dovetail.simulator.rest.encoding.query_options import number, watch_options
from dovetail.simulator.rest.encoding.responses import encode, write
from dovetail.simulator.rest.paths import Target
from dovetail.simulator.rest.tables.render import columns_of, head, metadata_only, row

_FORMS: Final = frozenset({Form.PLAIN, Form.TABLE, Form.METADATA})
_LONGEST: Final = 1800.0
"""Seconds after which a watch ends if it does not say itself how long it wants."""
_BETWEEN_BOOKMARKS: Final = 60.0
_BATCH: Final = 250


class Watches:
    """Answers reads that go on; ``end`` ends all of them at once."""

    def __init__(self, api: ApiServer, *, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._wakers: set[asyncio.Event] = set()
        self._ended = False

    def end(self) -> None:
        self._ended = True
        for wake in self._wakers:
            wake.set()

    async def answer(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Send events until the time is over, the caller leaves, or the server stops."""
        form = wanted_form(request.headers.get("Accept", ""), _FORMS)
        options = watch_options(target, request.query, newest=self._api.resource_version)
        seconds = number(request.query, "timeoutSeconds")
        wake = asyncio.Event()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            watch = self._api.watch(target.resource, options, notify=wake.set)
        except Gone as error:
            # As Kubernetes has it: an event that ends the watch, not an answer of its own.
            await response.prepare(request)
            await response.write(_line("ERROR", error.status()))
            return response
        show = self._shower(request, target, form)
        self._wakers.add(wake)
        try:
            await response.prepare(request)
            await self._follow(
                response, target.resource, watch, wake, show, float(seconds or _LONGEST)
            )
        finally:
            self._wakers.discard(wake)
            watch.stop()
        return response

    async def _follow(
        self,
        response: web.StreamResponse,
        resource: Resource,
        watch: Watch,
        wake: asyncio.Event,
        show: Callable[[WatchEvent], bytes],
        seconds: float,
    ) -> None:
        clock = asyncio.get_running_loop().time
        end, bookmark_at = clock() + seconds, clock() + _BETWEEN_BOOKMARKS
        while not self._ended:
            # Before taking: what arrives while this writes must wake it again.
            wake.clear()
            for batch in _batches(_wanted(watch)):
                await write(response, b"".join(map(show, batch)))
            over = clock() >= end
            if (over or clock() >= bookmark_at) and watch.wants_bookmarks and not wake.is_set():
                revision = int(self._api.resource_version)
                await response.write(show(bookmark(resource, revision)))
                bookmark_at = clock() + _BETWEEN_BOOKMARKS
            if over:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), min(end, bookmark_at) - clock())

    def _shower(
        self, request: web.Request, target: Target, form: Form
    ) -> Callable[[WatchEvent], bytes]:
        """Return how an event is written; only the first Table says what its columns are."""
        if form is Form.PLAIN:
            return lambda event: _line(event.type, event.object)
        if form is Form.METADATA:
            return lambda event: _line(event.type, metadata_only(event.object))
        columns = columns_of(target.resource)
        include = request.query.get("includeObject", "Metadata")
        is_first = True

        def show(event: WatchEvent) -> bytes:
            nonlocal is_first
            meta = {"resourceVersion": event.object["metadata"]["resourceVersion"]}
            table = head(columns, meta, with_columns=is_first)
            table["rows"] = [row(columns, event.object, self._now(), include)]
            is_first = False
            return _line(event.type, table)

        return show


def _wanted(watch: Watch) -> list[WatchEvent]:
    events = watch.take()
    if watch.wants_bookmarks:
        return events
    return [one for one in events if one.type is not EventType.BOOKMARK]


def _batches(events: Sequence[WatchEvent]) -> Iterator[Sequence[WatchEvent]]:
    for start in range(0, len(events), _BATCH):
        yield events[start : start + _BATCH]


def _line(kind: str, obj: Any) -> bytes:
    return encode({"type": kind, "object": obj}) + b"\n"
