"""What a simulated pod has to say, and what cannot be done with it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.encoding.query_options import Query, flag, number

Logs = Callable[[Object], Sequence[str] | None]
"""Gives the lines a pod has written so far, a sequence that only grows; None: it has none."""

_LOOK_AGAIN: Final = 0.1
"""Seconds between two looks at a log that is followed."""

_NO_CONTAINER: Final = {
    "exec": "there is no container to run a command in",
    "attach": "there is no container to attach to",
    "portforward": "there is no container that listens on a port",
}


class PodLogs:
    """Answers ``kubectl logs``; ``end`` ends all that are followed."""

    def __init__(self, logs: Logs | None) -> None:
        self._logs = logs
        self._ended = asyncio.Event()

    def end(self) -> None:
        self._ended.set()

    async def answer(self, request: web.Request, pod: Object) -> web.StreamResponse:
        query = request.query
        if flag(query, "previous"):
            raise BadRequest(f"{_named(pod)}: there was no container before this one")
        lines = self._logs(pod) if self._logs is not None else None
        if lines is None:
            lines = [f"{_named(pod)} is simulated: no container runs, so it has no output."]
        start = _first(query, len(lines))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(_text(lines[start:]))
        if flag(query, "follow") and self._logs is not None:
            await self._follow(response, lines)
        await response.write_eof()
        return response

    async def _follow(self, response: web.StreamResponse, lines: Sequence[str]) -> None:
        sent = len(lines)
        while not self._ended.is_set():
            if len(lines) > sent:
                new = lines[sent:]
                sent += len(new)
                await response.write(_text(new))
            try:
                await asyncio.wait_for(self._ended.wait(), _LOOK_AGAIN)
            except TimeoutError:
                continue


def no_container(pod: Object, subresource: str) -> BadRequest:
    """Return the refusal of what needs a container."""
    return BadRequest(f"{_named(pod)} is simulated: {_NO_CONTAINER[subresource]}")


def _named(pod: Object) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _first(query: Query, length: int) -> int:
    tail = number(query, "tailLines")
    return 0 if tail is None else max(0, length - tail)


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
