"""Logs of simulated pods, and errors of subresources that need a container."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.encoding.query_options import Query, parse_bool, parse_int

LogSource = Callable[[Object], Sequence[str] | None]
"""Returns the log lines of a pod so far, a sequence that only grows; None if it has no log."""

_POLL_INTERVAL: Final = 0.1
"""Seconds between two polls of a followed log."""

_NO_CONTAINER_REASONS: Final = {
    "exec": "there is no container to run a command in",
    "attach": "there is no container to attach to",
    "portforward": "there is no container that listens on a port",
}


class PodLogs:
    """Handles ``kubectl logs``; ``close`` ends all followed logs."""

    def __init__(self, logs: LogSource | None) -> None:
        self._logs = logs
        self._closed = asyncio.Event()

    def close(self) -> None:
        self._closed.set()

    async def handle(self, request: web.Request, pod: Object) -> web.StreamResponse:
        query = request.query
        if parse_bool(query, "previous"):
            raise BadRequest(f"{_pod_name(pod)}: there is no previous container")
        lines = self._logs(pod) if self._logs is not None else None
        if lines is None:
            lines = [f"{_pod_name(pod)} is simulated: no container runs, so it has no output."]
        start = _first_line(query, len(lines))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(_encode_lines(lines[start:]))
        if parse_bool(query, "follow") and self._logs is not None:
            await self._follow(response, lines)
        await response.write_eof()
        return response

    async def _follow(self, response: web.StreamResponse, lines: Sequence[str]) -> None:
        sent = len(lines)
        while not self._closed.is_set():
            if len(lines) > sent:
                new = lines[sent:]
                sent += len(new)
                await response.write(_encode_lines(new))
            try:
                await asyncio.wait_for(self._closed.wait(), _POLL_INTERVAL)
            except TimeoutError:
                continue


def no_container_error(pod: Object, subresource: str) -> BadRequest:
    """Return the error of a subresource that needs a container."""
    return BadRequest(f"{_pod_name(pod)} is simulated: {_NO_CONTAINER_REASONS[subresource]}")


def _pod_name(pod: Object) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _first_line(query: Query, length: int) -> int:
    tail = parse_int(query, "tailLines")
    return 0 if tail is None else max(0, length - tail)


def _encode_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
