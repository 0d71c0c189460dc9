"""The API servers that are held to the contract."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.contract.apiserver.inmemory import InMemory
from tests.contract.apiserver.overhttp import Connection, OverHttp
from tests.contract.apiserver.subject import Subject
from tests.sim.http.serving import TOKEN, Cluster, a_cluster

_numbers = count(1)


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[Cluster, Connection]]:
    """The simulated server over HTTP; one for all tests, as a real one would be."""
    with a_cluster() as cluster:
        connection = Connection(cluster.url, TOKEN, cluster.certificate)
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


@pytest.fixture(params=["memory", "http"])
def server(request: pytest.FixtureRequest) -> Subject:
    """An API server with an empty namespace."""
    if request.param == "memory":
        return InMemory()
    cluster, connection = request.getfixturevalue("served")
    return Served(cluster, connection, test=str(next(_numbers)))
