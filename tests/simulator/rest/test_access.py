"""Authentication, unknown paths, methods and media types."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.server import Server
from tests.simulator.rest.rest_server import NOON, TOKEN, Cluster, serve_cluster

PATHS = ["/api", "/apis", "/version", "/openapi/v3", "/api/v1/pods", "/nowhere", "/"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests: none of them changes it."""
    with serve_cluster() as served:
        yield served


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "", "let-me-i", f"{TOKEN}!", "töken"])
def test_without_the_token_every_path_is_unauthorized(cluster: Cluster, path: str, token: str | None) -> None:
    answer = cluster.request("GET", path, token=token and token.encode().decode("latin-1"))

    assert answer.status == 401
    assert answer.json()["kind"] == "Status"
    assert answer.json()["reason"] == "Unauthorized"


def test_without_the_token_nothing_can_be_written(cluster: Cluster) -> None:
    body = {"metadata": {"name": "mine"}}

    answer = cluster.request("POST", "/api/v1/namespaces", body, token=TOKEN[:-1])

    assert answer.status == 401
    assert cluster.request("GET", "/api/v1/namespaces/mine").status == 404
    assert cluster.writes == 0


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_token(cluster: Cluster, path: str) -> None:
    answer = cluster.request("GET", path, token=None)

    assert (answer.status, answer.body) == (200, b"ok")


def test_an_empty_token_is_rejected() -> None:
    with pytest.raises(ValueError, match="token is empty"):
        Server(ApiServer(now=lambda: NOON), token="", now=lambda: NOON)


def test_it_listens_on_loopback_only() -> None:
    async def addresses() -> list[str]:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        server = Server(ApiServer(now=lambda: moment), token=TOKEN, now=lambda: moment)
        port = await server.start()
        try:
            with socket.socket() as elsewhere:
                # Free on another loopback address: it does not listen on all of them.
                elsewhere.bind(("127.0.0.2", port))
            with socket.create_connection(("127.0.0.1", port)) as connection:
                return [connection.getpeername()[0]]
        finally:
            await server.stop()

    assert asyncio.run(addresses()) == ["127.0.0.1"]


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/api/v2",
        "/api/v1/unicorns",
        "/api/v1/pods/no-namespace",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/n",
        "/apis/apps/v1beta1/deployments",
        "/apis/apps/v1/namespaces/default/deployments/web/scale/further",
        "/apis/unknown.example",
        "/openapi/v3/apis/unknown.example/v1",
        "/api/v1/namespaces//pods/x",
    ],
)
def test_an_unknown_path_is_not_found_as_kubernetes_says_it(cluster: Cluster, path: str) -> None:
    answer = cluster.request("GET", path)

    assert answer.status == 404
    assert answer.json()["reason"] == "NotFound"
    assert answer.json()["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods/x"),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/x/scale"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/default/pods/x/eviction"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/version"),
        ("OPTIONS", "/api/v1/nodes"),
    ],
)
def test_an_unsupported_method_is_not_allowed(cluster: Cluster, method: str, path: str) -> None:
    answer = cluster.request(method, path, {"metadata": {"name": "x"}})

    assert answer.status == 405
    assert answer.json()["reason"] == "MethodNotAllowed"


def test_a_body_above_the_limit_is_rejected(cluster: Cluster) -> None:
    body = {"metadata": {"name": "x"}, "data": {"a": "b" * (4 << 20)}}

    answer = cluster.request("POST", "/api/v1/namespaces/default/configmaps", body)

    assert answer.status == 413
    assert answer.json()["reason"] == "RequestEntityTooLarge"


def test_an_unknown_media_type_is_not_acceptable(cluster: Cluster) -> None:
    answer = cluster.request("GET", "/api/v1/nodes", Accept="text/html")

    assert answer.status == 406
    assert answer.json()["reason"] == "NotAcceptable"
