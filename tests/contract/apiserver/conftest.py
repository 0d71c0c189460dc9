"""The API servers that the contract tests run against."""

import ssl
from collections.abc import Iterator
from itertools import count

import pytest

from tests.contract.apiserver.in_memory import InMemoryServer
from tests.contract.apiserver.live import LiveServer, connect
from tests.contract.apiserver.rest_client import Connection, RestServer
from tests.contract.apiserver.subject import Subject
from tests.live.cluster import Cluster as LiveCluster
from tests.simulator.rest.rest_server import TOKEN, Cluster, serve_cluster

_numbers = count(1)


@pytest.fixture(scope="session")
def simulated_connection() -> Iterator[tuple[Cluster, Connection]]:
    """The simulated server over HTTPS; one for all tests, like a real one."""
    with serve_cluster() as cluster:
        context = ssl.create_default_context(cadata=cluster.certificate)
        connection = Connection(cluster.url, context, token=TOKEN)
        yield cluster, connection
        connection.close()


class SimulatedRestServer(RestServer):
    """The simulated server over HTTPS, which can be compacted."""

    def __init__(self, cluster: Cluster, connection: Connection, *, test: str) -> None:
        super().__init__(connection, test=test)
        self._cluster = cluster

    def compacted_version(self) -> str:
        old = self._cluster.api.resource_version
        self._cluster.run(self._cluster.api.compact)
        return str(int(old) - 1)


@pytest.fixture(scope="session")
def live_connection(cluster_with_crds: LiveCluster) -> Iterator[tuple[LiveCluster, Connection]]:
    """A real API server."""
    connection = connect(cluster_with_crds)
    yield cluster_with_crds, connection
    connection.close()


@pytest.fixture(params=["memory", "http", pytest.param("live", marks=pytest.mark.live)])
def server(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """An API server with an empty namespace."""
    if request.param == "memory":
        yield InMemoryServer()
    elif request.param == "http":
        yield SimulatedRestServer(*request.getfixturevalue("simulated_connection"), test=str(next(_numbers)))
    else:
        live = LiveServer(*request.getfixturevalue("live_connection"))
        yield live
        live.clean_up()
