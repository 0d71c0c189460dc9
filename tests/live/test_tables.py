"""Table columns and resource names of the simulated and a real API server agree."""

import json
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail.ports.api_resources import RESOURCES, Resource
from tests.live.cluster import Cluster
from tests.simulator.rest.rest_server import TOKEN, serve_cluster

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Reader:
    """HTTP client of one API server."""

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
    with serve_cluster() as cluster:
        tls = ssl.create_default_context(cadata=cluster.certificate)
        reader = Reader(cluster.url, tls, Authorization=f"Bearer {TOKEN}")
        yield reader
        reader.close()


@pytest.fixture(scope="module")
def real(cluster_with_crds: Cluster) -> Iterator[Reader]:
    access = cluster_with_crds.access()
    reader = Reader(access.server, access.tls)
    yield reader
    reader.close()


def root(resource: Resource) -> str:
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"


def columns(reader: Reader, resource: Resource) -> list[tuple[str, bool]]:
    """Return column names, each with True if only ``-o wide`` shows it."""
    table = reader.read(f"{root(resource)}/{resource.plural}?limit=1", AS_TABLE)
    return [(column["name"], column["priority"] > 0) for column in table["columnDefinitions"]]


def names(reader: Reader, resource: Resource) -> dict[str, object]:
    """Return the discovery document of a kind: names, categories and verbs."""
    for entry in reader.read(root(resource))["resources"]:
        if entry["name"] == resource.plural:
            return {
                "kind": entry["kind"],
                "singular": entry["singularName"],
                "namespaced": entry["namespaced"],
                "short": sorted(entry.get("shortNames") or ()),
                "categories": sorted(entry.get("categories") or ()),
                "verbs": sorted(entry["verbs"]),
            }
    raise AssertionError(f"{resource.qualified_name} is not served")


EVERY_KIND = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)


@EVERY_KIND
def test_a_kind_has_the_same_columns(real: Reader, simulated: Reader, resource: Resource) -> None:
    assert columns(simulated, resource) == columns(real, resource)


@EVERY_KIND
def test_a_kind_has_the_same_names_and_verbs(real: Reader, simulated: Reader, resource: Resource) -> None:
    assert names(simulated, resource) == names(real, resource)
