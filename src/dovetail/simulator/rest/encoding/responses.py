"""JSON responses, sent as a whole or in chunks."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from aiohttp import web

from dovetail.ports.kube_errors import ApiError

_ENCODER: Final = msgspec.json.Encoder()
_CHUNK_SIZE: Final = 250
"""Objects per chunk: large enough to be fast, small enough not to block other requests."""

encode_json = _ENCODER.encode


def json_response(
    value: Any, *, status: int = 200, content_type: str = "application/json", warnings: Iterable[str] = ()
) -> web.Response:
    """Return a JSON response; kubectl shows the warnings."""
    response = web.Response(body=encode_json(value), status=status)
    response.headers["Content-Type"] = content_type
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def status_response(error: ApiError) -> web.Response:
    """Return the Status object of an error."""
    response = json_response(error.status(), status=error.code)
    retry_after = error.details.get("retryAfterSeconds")
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def list_response(
    request: web.Request, head: Mapping[str, Any], field: str, items: Iterable[Any]
) -> web.StreamResponse:
    """Send a list: ``head`` with ``items`` in ``field``, encoded chunk by chunk.

    A list of one chunk is sent as a whole, which is faster for both sides.
    """
    chunks = _encode_chunks(items)
    start = encode_json(head)[:-1] + b',"' + field.encode() + b'":['
    first = next(chunks, b"")
    second = next(chunks, None)
    if second is None:
        return web.Response(body=start + first + b"]}", content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await write_chunk(response, start + first)
    await write_chunk(response, b"," + second)
    for chunk in chunks:
        await write_chunk(response, b"," + chunk)
    await response.write_eof(b"]}")
    return response


async def write_chunk(response: web.StreamResponse, data: bytes) -> None:
    """Send a chunk of a long response and yield to the event loop."""
    await response.write(data)
    # The write itself yields only if the client is slower than the server.
    await asyncio.sleep(0)


def _encode_chunks(items: Iterable[Any]) -> Iterator[bytes]:
    remaining = iter(items)
    while chunk := list(islice(remaining, _CHUNK_SIZE)):
        yield b",".join(map(encode_json, chunk))
