"""Answers in JSON, whole or piece by piece."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from aiohttp import web

from dovetail.ports.kube_errors import ApiError

_ENCODER: Final = msgspec.json.Encoder()
_BATCH: Final = 250
"""Objects encoded at a time: large enough to be quick, small enough to let others in between."""

encode = _ENCODER.encode


def answer(
    value: Any,
    *,
    status: int = 200,
    content_type: str = "application/json",
    warnings: Iterable[str] = (),
) -> web.Response:
    """Return a value as JSON, with warnings that kubectl shows to its user."""
    response = web.Response(body=encode(value), status=status)
    response.headers["Content-Type"] = content_type
    for one in warnings:
        quoted = one.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def refusal(error: ApiError) -> web.Response:
    """Return an error as the Status object it carries."""
    response = answer(error.status(), status=error.code)
    retry_after = error.details.get("retryAfterSeconds")
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def answer_list(
    request: web.Request, head: Mapping[str, Any], field: str, items: Iterable[Any]
) -> web.StreamResponse:
    """Send a list: ``head`` with ``items`` under ``field``, never all of it in memory.

    Short lists go as one piece, which is quicker for both sides.
    """
    batches = _batches(items)
    start = encode(head)[:-1] + b',"' + field.encode() + b'":['
    first = next(batches, b"")
    second = next(batches, None)
    if second is None:
        return web.Response(body=start + first + b"]}", content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await write(response, start + first)
    await write(response, b"," + second)
    for batch in batches:
        await write(response, b"," + batch)
    await response.write_eof(b"]}")
    return response


async def write(response: web.StreamResponse, data: bytes) -> None:
    """Send a piece of a long answer, and let others have their turn."""
    await response.write(data)
    # Writing itself only waits when the caller is slower than we are.
    await asyncio.sleep(0)


def _batches(items: Iterable[Any]) -> Iterator[bytes]:
    left = iter(items)
    while batch := list(islice(left, _BATCH)):
        yield b",".join(map(encode, batch))
