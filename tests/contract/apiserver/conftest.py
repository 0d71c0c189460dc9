"""The API servers that are held to the contract."""

import ssl
from collections.abc import Iterator
from itertools import count

import pytest

from tests.contract.apiserver.inmemory import InMemory
from tests.contract.apiserver.live import Live, connected
from tests.contract.apiserver.overhttp import Connection, OverHttp
from tests.contract.apiserver.subject import Subject
from tests.live.cluster import Cluster as LiveCluster
from tests.simulator.rest.serving import TOKEN, Cluster, a_cluster

_numbers = count(1)


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[Cluster, Connection]]:
    """The simulated server over HTTP; one for all tests, as a real one would be."""
    with a_cluster() as cluster:
        context = ssl.create_default_context(cadata=cluster.certificate)
        connection = Connection(cluster.url, context, token=TOKEN)
        yield cluster, connection
        connection.close()


class Served(OverHttp):
    """The simulated server over HTTP, which can be told to forget."""

    def __init__(self, cluster: Cluster, connection: Connection, *, test: str) -> None:
        super().__init__(connection, test=test)
        self._cluster = cluster

    def an_old_version(self) -> str:
        old = self._cluster.api.resource_version
        self._cluster.call(self._cluster.api.compact)
        return str(int(old) - 1)


@pytest.fixture(scope="session")
def reached(equipped_cluster: LiveCluster) -> Iterator[tuple[LiveCluster, Connection]]:
    """A real API server."""
    connection = connected(equipped_cluster)
    yield equipped_cluster, connection
    connection.close()


@pytest.fixture(params=["memory", "http", pytest.param("live", marks=pytest.mark.live)])
def server(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """An API server with an empty namespace."""
    if request.param == "memory":
        yield InMemory()
    elif request.param == "http":
        yield Served(*request.getfixturevalue("served"), test=str(next(_numbers)))
    else:
        live = Live(*request.getfixturevalue("reached"))
        yield live
        live.leave()
