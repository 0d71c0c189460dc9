"""kubectl shows the same columns and knows the same names on the simulated API server."""

import json
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail.ports.api_resources import RESOURCES, Resource
from tests.live.cluster import Cluster
from tests.simulator.rest.serving import TOKEN, a_cluster

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Reader:
    """Reads from one API server."""

    def __init__(self, url: str, tls: ssl.SSLContext, **headers: str) -> None:
        self._connection = HTTPSConnection(urlsplit(url).netloc, context=tls, timeout=20)
        self._headers = headers

    def read(self, path: str, accept: str = "application/json") -> Any:
        self._connection.request("GET", path, headers={**self._headers, "Accept": accept})
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Reader]:
    with a_cluster() as cluster:
        tls = ssl.create_default_context(cadata=cluster.certificate)
        reader = Reader(cluster.url, tls, Authorization=f"Bearer {TOKEN}")
        yield reader
        reader.close()


@pytest.fixture(scope="module")
def real(equipped_cluster: Cluster) -> Iterator[Reader]:
    access = equipped_cluster.access()
    reader = Reader(access.server, access.tls)
    yield reader
    reader.close()


def root(resource: Resource) -> str:
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"


def columns(reader: Reader, resource: Resource) -> list[tuple[str, bool]]:
    """Names of columns, and which of them are shown with ``-o wide`` only."""
    table = reader.read(f"{root(resource)}/{resource.plural}?limit=1", AS_TABLE)
    return [(one["name"], one["priority"] > 0) for one in table["columnDefinitions"]]


def names(reader: Reader, resource: Resource) -> dict[str, object]:
    """What kubectl may call a kind, and what it may do with it."""
    for one in reader.read(root(resource))["resources"]:
        if one["name"] == resource.plural:
            return {
                "kind": one["kind"],
                "singular": one["singularName"],
                "namespaced": one["namespaced"],
                "short": sorted(one.get("shortNames") or ()),
                "categories": sorted(one.get("categories") or ()),
                "verbs": sorted(one["verbs"]),
            }
    raise AssertionError(f"{resource.qualified} is not served")


EVERY_KIND = pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.plural)


@EVERY_KIND
def test_a_kind_has_the_same_columns(real: Reader, simulated: Reader, resource: Resource) -> None:
    assert columns(simulated, resource) == columns(real, resource)


@EVERY_KIND
def test_a_kind_goes_by_the_same_names(real: Reader, simulated: Reader, resource: Resource) -> None:
    assert names(simulated, resource) == names(real, resource)
