"""Discovery and OpenAPI documents."""

from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.ports.api_resources import RESOURCES
from tests.simulator.rest.rest_server import Cluster, serve_cluster

AT_ONCE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all: nothing here changes it."""
    with serve_cluster() as served:
        yield served


def one_by_one(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return the verbs of every kind and subresource, asking for each version."""
    groups = cluster.request("GET", "/apis").json()["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    places = {"v1": "/api/v1"} | {version: f"/apis/{version}" for version in versions}
    return {
        (version, resource["name"]): resource["verbs"]
        for version, place in places.items()
        for resource in cluster.request("GET", place).json()["resources"]
    }


def at_once(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return the same from the two answers that have everything."""
    verbs_by_resource: dict[tuple[str, str], list[str]] = {}
    for path in ("/api", "/apis"):
        answer = cluster.request("GET", path, Accept=f"{AT_ONCE},application/json")
        assert answer.headers["Content-Type"] == AT_ONCE
        for group in answer.json()["items"]:
            for version in group["versions"]:
                verbs_by_resource |= _named(group["metadata"]["name"], version)
    return verbs_by_resource


def _named(group: str, version: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    place = f"{group}/{version['version']}" if group else version["version"]
    verbs_by_resource = {}
    for resource in version["resources"]:
        verbs_by_resource[place, resource["resource"]] = resource["verbs"]
        for sub in resource["subresources"]:
            verbs_by_resource[place, f"{resource['resource']}/{sub['subresource']}"] = sub["verbs"]
    return verbs_by_resource


def test_both_ways_of_asking_give_the_same(cluster: Cluster) -> None:
    assert at_once(cluster) == one_by_one(cluster)


def test_every_kind_is_there_with_its_subresources(cluster: Cluster) -> None:
    verbs_by_resource = one_by_one(cluster)

    for resource in RESOURCES:
        assert "watch" in verbs_by_resource[resource.api_version, resource.plural]
        for name in resource.subresources:
            assert (resource.api_version, f"{resource.plural}/{name}") in verbs_by_resource


def test_a_group_can_be_asked_about(cluster: Cluster) -> None:
    group = cluster.request("GET", "/apis/karpenter.sh").json()

    assert group["preferredVersion"] == {"groupVersion": "karpenter.sh/v1", "version": "v1"}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
def test_every_kind_has_a_schema_whose_references_lead_somewhere(cluster: Cluster, resource: Any) -> None:
    place = f"apis/{resource.api_version}" if resource.group else "api/v1"
    url = cluster.request("GET", "/openapi/v3").json()["paths"][place]["serverRelativeURL"]

    document = cluster.request("GET", url).json()

    schemas = document["components"]["schemas"]
    assert "metadata" in schemas[resource.kind]["properties"]
    for schema in schemas.values():
        for field in schema["properties"].values():
            inner = field.get("items") or field.get("additionalProperties") or field
            assert inner.get("$ref", "").rpartition("/")[2] in {"", *schemas}
