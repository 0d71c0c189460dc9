"""The in-memory API server behind EKS's endpoint; it accepts EKS tokens."""

import asyncio
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from dovetail.ports.kube_errors import NotFound, Unauthorized
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.encoding.responses import status_response
from dovetail.simulator.rest.server import Server

T = TypeVar("T")
_PREFIX = "Bearer k8s-aws-v1."
_FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


class EksServer(Server):
    """Authenticates by a presigned STS request, as EKS does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.flows: dict[str, dict[str, Any]] = {}

    def _authenticate(self, request: web.Request) -> None:
        header = request.headers.get("Authorization", "")
        if not header.startswith(_PREFIX):
            raise Unauthorized("Unauthorized")
        packed = header.removeprefix(_PREFIX)
        url = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
        query = parse_qs(urlsplit(url).query)
        if query["Action"] != ["GetCallerIdentity"] or "X-Amz-Signature" not in query:
            raise Unauthorized("Unauthorized")
        if "x-k8s-aws-id" not in query["X-Amz-SignedHeaders"][0]:
            raise Unauthorized("Unauthorized")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Serve FlowSchemas too, which the simulator does not have."""
        if not request.path.startswith(_FLOW):
            return await super()._handle(request)
        name = request.path.removeprefix(_FLOW).removeprefix("/flowschemas").strip("/")
        if request.path.endswith("/flowschemas"):
            document = {"metadata": {"resourceVersion": "1"}, "items": list(self.flows.values())}
            return web.json_response(document)
        if not name:
            served = {"name": "flowschemas", "kind": "FlowSchema", "namespaced": False}
            return web.json_response({"resources": [served]})
        if request.method == "PATCH":
            self.flows[name] = {**await request.json(), "kind": "FlowSchema"}
        schema = self.flows.pop(name, None) if request.method == "DELETE" else self.flows.get(name)
        if schema is None:
            return status_response(NotFound(f'flowschemas "{name}" not found'))
        return web.json_response(schema)


class ServedApi:
    """An API server that runs in its own thread."""

    def __init__(self) -> None:
        now = lambda: datetime.now(UTC)  # noqa: E731, TID251 - AWS's part is in real time
        self.api = ApiServer(now=now)
        self._loop = asyncio.new_event_loop()
        self._server = EksServer(self.api, token="unused", now=now)  # noqa: S106 - for tests
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._wait(self._server.start())}"

    @property
    def authority(self) -> str:
        return b64encode(self._server.certificate.encode()).decode()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's thread."""

        async def run() -> T:
            return function()

        return self._wait(run())

    def close(self) -> None:
        self._wait(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)


@contextmanager
def served_api() -> Iterator[ServedApi]:
    """Yield a running API server."""
    served = ServedApi()
    try:
        yield served
    finally:
        served.close()
