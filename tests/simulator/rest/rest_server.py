"""A REST server on its own thread, and kubectl configured for it."""

import asyncio
import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import yaml

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.listener import ConnectionLimits
from dovetail.simulator.rest.pod_logs import LogSource
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from dovetail.simulator.rest.server import Server

T = TypeVar("T")
TOKEN = "let-me-in"  # noqa: S105 - for tests
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KUBECTL = Path(sys.executable).with_name("kubectl")


class Clock:
    """A clock that stands still until a test sets it."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Cluster:
    """A served API server; ``run`` calls a function on its thread."""

    def __init__(
        self,
        *,
        logs: LogSource | None = None,
        api: ApiServer | None = None,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
    ) -> None:
        self.clock = Clock()
        self.api = api or ApiServer(now=self.clock.now)
        self.writes = 0
        self._loop = asyncio.new_event_loop()
        self._server = Server(
            self.api, token=TOKEN, now=self.clock.now, on_write=self._record_write, logs=logs, limits=limits
        )
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._wait(self._server.start())}"

    def run(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return self._wait(run())

    @property
    def certificate(self) -> str:
        return self._server.certificate

    def connect(self) -> http.client.HTTPSConnection:
        """Return a connection that trusts the server's certificate."""
        context = ssl.create_default_context(cadata=self.certificate)
        host, _, port = self.url.removeprefix("https://").partition(":")
        return http.client.HTTPSConnection(host, int(port), timeout=20, context=context)

    def request(
        self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN, **headers: str
    ) -> "Response":
        """Send a request; a body other than bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if self._connection is None:
            self._connection = self.connect()
        try:
            self._connection.request(method, path, body=data, headers=sent)
            response = self._connection.getresponse()
            return Response(response.status, dict(response.getheaders()), response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def stop(self) -> None:
        """Stop the server; open watches end."""
        self._wait(self._server.stop())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _record_write(self) -> None:
        self.writes += 1

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)


@contextmanager
def serve_cluster(
    *,
    logs: LogSource | None = None,
    api: ApiServer | None = None,
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
) -> Iterator[Cluster]:
    cluster = Cluster(logs=logs, api=api, limits=limits)
    try:
        yield cluster
    finally:
        cluster.close()


class Kubectl:
    """The real kubectl, as a user would run it."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._home = home
        config = home / "kubeconfig"
        config.write_text(yaml.safe_dump(encode_kubeconfig(cluster.url, TOKEN, cluster.certificate)))
        self._environment = {
            "KUBECONFIG": str(config),
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
            "PATH": os.environ["PATH"],
        }

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that must succeed, and return its output."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, content: str) -> None:
        """Write a file into kubectl's working directory."""
        path = self._home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            env=self._environment,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that runs until it is terminated."""
        return subprocess.Popen(
            [KUBECTL, *arguments],
            env=self._environment,
            cwd=self._home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
