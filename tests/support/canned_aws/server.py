"""HTTP server on loopback that answers AWS requests from an account, and records them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from traceback import format_exc
from typing import Any, Protocol, cast

import msgspec

from tests.support.canned_aws.wire import (
    AwsRequest,
    ErrorResponse,
    HttpRequest,
    HttpResponse,
    decode,
    encode_error,
    encode_result,
)

_END_OF_HEAD = b"\r\n\r\n"


class Account(Protocol):
    """Answers requests; ``ErrorResponse`` is an error response."""

    def answer(self, request: AwsRequest) -> Mapping[str, Any]: ...

    def cache_key(self, request: AwsRequest) -> object | None:
        """Return a key under which the encoded response stays valid for other accounts, or None."""


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request, and the code of its answer: ``ok`` or an error code."""

    request: AwsRequest
    code: str


class CannedAws:
    """AWS with one account at a time; ``account`` may be replaced between tests."""

    def __init__(self) -> None:
        self.url = ""
        self.account: Account | None = None
        self.connections: set[asyncio.Transport] = set()
        self._recorded: list[RecordedRequest] = []
        self._encoded: dict[object, HttpResponse] = {}

    async def close(self) -> None:
        """Close the connections, in the thread of the server."""
        for connection in self.connections:
            connection.abort()

    def take_requests(self) -> list[RecordedRequest]:
        """Return the requests since the last call."""
        recorded, self._recorded = self._recorded, []
        return recorded

    def handle(self, http: HttpRequest) -> HttpResponse:
        try:
            request = decode(http)
        except ErrorResponse as error:
            return HttpResponse(error.status, "application/json", json.dumps(str(error)).encode())
        code = "ok"
        try:
            return self._answer(request)
        except ErrorResponse as error:
            code = error.code
            return encode_error(request.service, error)
        except Exception:  # noqa: BLE001 - in a thread: the client gets it, and the recording has it
            code = "StandInFailure"
            return encode_error(request.service, ErrorResponse(code, format_exc()))
        finally:
            self._recorded.append(RecordedRequest(request, code))

    def _answer(self, request: AwsRequest) -> HttpResponse:
        assert self.account is not None, f"{request.operation} without an account"
        key = self.account.cache_key(request)
        if key is None:
            return encode_result(request, self.account.answer(request))
        if key not in self._encoded:
            self._encoded[key] = encode_result(request, self.account.answer(request))
        return self._encoded[key]


@contextmanager
def canned_aws() -> Iterator[CannedAws]:
    """Run the server in a thread on a free port of 127.0.0.1."""
    aws = CannedAws()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: _Connection(aws), "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    aws.url = f"http://127.0.0.1:{port}"
    thread = Thread(target=loop.run_forever, name="canned-aws", daemon=True)
    thread.start()
    try:
        yield aws
    finally:
        asyncio.run_coroutine_threadsafe(aws.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, and bodies of a known length: what botocore sends."""

    def __init__(self, aws: CannedAws) -> None:
        self._aws = aws
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._aws.connections.add(self._transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._aws.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while _END_OF_HEAD in self._received:
            head, _, rest = self._received.partition(_END_OF_HEAD)
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)
            }
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            body, self._received = rest[:length], rest[length:]
            method, path, _ = first.split(" ")
            self._respond(self._aws.handle(HttpRequest(method, path, headers, body)))

    def _respond(self, response: HttpResponse) -> None:
        head = (
            f"HTTP/1.1 {response.status} -\r\nContent-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + response.body)
