"""An API server over HTTP that serves fixed objects, refuses kinds, and can be stopped for a while."""

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Object = dict[str, Any]

LISTED = (
    *("pods", "nodes", "daemonsets", "replicasets", "statefulsets", "poddisruptionbudgets", "services"),
    *("namespaces", "persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes"),
    *("volumeattachments", "limitranges", "runtimeclasses", "events", "configmaps"),
)
"""Kinds that every cluster serves."""
KARPENTER = ("nodepools", "nodeclaims", "ec2nodeclasses")


class ListServer:
    """Serves lists of objects by plural; watches are open and silent."""

    def __init__(
        self, folder: Path, objects: dict[str, list[Object]], *, forbidden: Collection[str], crds: bool
    ) -> None:
        self.objects = objects
        self.kubeconfig = folder / "kubeconfig"
        self._forbidden = frozenset(forbidden)
        self._served = frozenset((*LISTED, *KARPENTER) if crds else LISTED)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._revision = 5000

    def start(self) -> None:
        """Listen; the second time, on the same port, and without earlier revisions."""
        self._revision += 1
        self._run(self._start())
        cluster = {"server": f"http://127.0.0.1:{self._port}"}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "current-context": "c",
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            self._run(self._runner.cleanup())
            self._runner = None

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._respond)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if plural == "version":
            return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
        if plural not in self._served:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if plural in self._forbidden:
            return _status(403, "Forbidden", f'User "reader" cannot list resource "{plural}"')
        if "watch" in request.query:
            if request.query.get("resourceVersion") != str(self._revision):
                return _status(410, "Expired", "too old resource version")
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(600)
            return response
        metadata = {"resourceVersion": str(self._revision)}
        return web.json_response(
            {"kind": "List", "metadata": metadata, "items": self.objects.get(plural, [])}
        )


def _status(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code)


@contextmanager
def list_server(
    folder: Path, objects: dict[str, list[Object]], *, forbidden: Collection[str] = (), crds: bool = True
) -> Iterator[ListServer]:
    """Run the server for the duration of the block."""
    server = ListServer(folder, objects, forbidden=forbidden, crds=crds)
    try:
        server.start()
        yield server
    finally:
        server.close()
