"""Handler of watches: a stream of events, one line of JSON each."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Gone
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, Watch, WatchEvent, bookmark_event
from dovetail.simulator.rest.encoding.accept import Representation, negotiate
from dovetail.simulator.rest.encoding.query_options import decode_watch_options, parse_int
from dovetail.simulator.rest.encoding.responses import encode_json, write_chunk
from dovetail.simulator.rest.paths import RequestInfo
from dovetail.simulator.rest.tables.render import (
    encode_partial_object_metadata,
    encode_row,
    encode_table,
    printer_columns,
)

_REPRESENTATIONS: Final = frozenset({Representation.OBJECT, Representation.TABLE, Representation.METADATA})
_DEFAULT_TIMEOUT: Final = 1800.0
"""Seconds until a watch without ``timeoutSeconds`` ends."""
_BOOKMARK_INTERVAL: Final = 60.0
"""Seconds."""
_CHUNK_SIZE: Final = 250
"""Events per write."""


class WatchHandler:
    """Handles watches; ``close`` ends all of them."""

    def __init__(self, api: ApiServer, *, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._wakers: set[asyncio.Event] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for wake in self._wakers:
            wake.set()

    async def handle(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        """Send events until the timeout, or until the client or the server closes."""
        representation = negotiate(request.headers.get("Accept", ""), _REPRESENTATIONS)
        options = decode_watch_options(info, request.query, newest=self._api.resource_version)
        timeout = float(parse_int(request.query, "timeoutSeconds") or _DEFAULT_TIMEOUT)
        wake = asyncio.Event()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            watch = self._api.watch(info.resource, options, notify=wake.set)
        except Gone as error:
            # As in Kubernetes: an ERROR event ends the watch, not a response with an error.
            await response.prepare(request)
            await response.write(_encode_line("ERROR", error.status()))
            return response
        encode_event = self._event_encoder(request, info, representation)
        self._wakers.add(wake)
        try:
            await response.prepare(request)
            await self._stream(response, info.resource, watch, wake, encode_event, timeout)
        finally:
            self._wakers.discard(wake)
            watch.stop()
        return response

    async def _stream(
        self,
        response: web.StreamResponse,
        resource: Resource,
        watch: Watch,
        wake: asyncio.Event,
        encode_event: Callable[[WatchEvent], bytes],
        timeout: float,
    ) -> None:
        clock = asyncio.get_running_loop().time
        deadline, bookmark_at = clock() + timeout, clock() + _BOOKMARK_INTERVAL
        while not self._closed:
            # Cleared before the poll: an event that arrives during a write sets it again.
            wake.clear()
            for chunk in _chunks(_poll_events(watch)):
                await write_chunk(response, b"".join(map(encode_event, chunk)))
            is_over = clock() >= deadline
            is_bookmark_due = is_over or clock() >= bookmark_at
            if is_bookmark_due and watch.allow_bookmarks and not wake.is_set():
                revision = int(self._api.resource_version)
                await response.write(encode_event(bookmark_event(resource, revision)))
                bookmark_at = clock() + _BOOKMARK_INTERVAL
            if is_over or watch.closed:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), min(deadline, bookmark_at) - clock())

    def _event_encoder(
        self, request: web.Request, info: RequestInfo, representation: Representation
    ) -> Callable[[WatchEvent], bytes]:
        """Return the encoder of events; only the first Table has column definitions."""
        if representation is Representation.OBJECT:
            to_served = info.version.to_served
            return lambda event: _encode_line(event.type, to_served(event.object))
        if representation is Representation.METADATA:
            return lambda event: _encode_line(event.type, encode_partial_object_metadata(event.object))
        columns = printer_columns(info.resource, info.version.custom)
        include = request.query.get("includeObject", "Metadata")
        is_first = True

        def encode_event(event: WatchEvent) -> bytes:
            nonlocal is_first
            meta = {"resourceVersion": event.object["metadata"]["resourceVersion"]}
            table = encode_table(columns, meta, with_columns=is_first)
            table["rows"] = [encode_row(columns, event.object, self._now(), include)]
            is_first = False
            return _encode_line(event.type, table)

        return encode_event


def _poll_events(watch: Watch) -> list[WatchEvent]:
    events = watch.poll()
    if watch.allow_bookmarks:
        return events
    return [event for event in events if event.type is not EventType.BOOKMARK]


def _chunks(events: Sequence[WatchEvent]) -> Iterator[Sequence[WatchEvent]]:
    for start in range(0, len(events), _CHUNK_SIZE):
        yield events[start : start + _CHUNK_SIZE]


def _encode_line(event_type: str, obj: Any) -> bytes:
    return encode_json({"type": event_type, "object": obj}) + b"\n"
