"""Synchronous requests to an API server; much cheaper than a kubectl process for each."""

import http.client
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dovetail.host.clock import SystemClock
from tests.live.cluster import Cluster

NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_FAILED = 400


class ApiFailure(Exception):
    """The API server did not answer, or with an error."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Api:
    """An API server, with one connection for each thread."""

    def __init__(self, cluster: Cluster, *, timeout: float = 30.0) -> None:
        access = cluster.access()
        self._tls = access.tls
        self._host = urlsplit(access.server).netloc
        self._timeout = timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get(path)["items"]
        return items

    def create(self, path: str, obj: Any) -> Any:
        return self.request("POST", path, obj)

    def patch(self, path: str, patch: Any, *, strategic: bool = False) -> Any:
        return self.request("PATCH", path, patch, _STRATEGIC_PATCH if strategic else _MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Delete an object; one that is gone is deleted."""
        try:
            self.request("DELETE", path)
        except ApiFailure as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def is_ready(self) -> bool:
        """Return True if the API server reports that it is ready."""
        try:
            self.request("GET", "/readyz", decode=False)
        except ApiFailure:
            return False
        return True

    def request(
        self, verb: str, path: str, body: Any = None, kind: str = "application/json", *, decode: bool = True
    ) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, timeout=self._timeout, context=self._tls)
            self._local.connection = connection
            self._connections.append(connection)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(verb, path, text, {"Content-Type": kind, "User-Agent": "chaos"})
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._local.connection = None
            self._connections.remove(connection)
            connection.close()
            raise ApiFailure(f"{verb} {path}: {error}") from error
        if response.status >= _FAILED:
            raise ApiFailure(f"{verb} {path}: {response.status} {content[:500]!r}", response.status)
        return json.loads(content) if decode else None


def wait_until(
    what: str, condition: Callable[[], bool], *, seconds: float, interval: float = 0.2
) -> float | None:
    """Poll until a condition is true; return the seconds it took, None on timeout.

    An API server that does not answer is waited for.
    """
    clock = SystemClock()
    start = clock.seconds()
    while True:
        try:
            if condition():
                return clock.seconds() - start
        except ApiFailure:
            pass
        if clock.seconds() - start > seconds:
            return None
        clock.sleep(interval)
