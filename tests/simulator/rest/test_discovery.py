"""What the server says it has, in both ways of asking."""

from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.ports.api_resources import RESOURCES
from tests.simulator.rest.serving import Cluster, a_cluster

AT_ONCE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all: nothing here changes it."""
    with a_cluster() as served:
        yield served


def one_by_one(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return the verbs of every kind and subresource, asking for each version."""
    groups = cluster.ask("GET", "/apis").json()["groups"]
    versions = [one["groupVersion"] for group in groups for one in group["versions"]]
    places = {"v1": "/api/v1"} | {one: f"/apis/{one}" for one in versions}
    return {
        (version, one["name"]): one["verbs"]
        for version, place in places.items()
        for one in cluster.ask("GET", place).json()["resources"]
    }


def at_once(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return the same from the two answers that have everything."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in ("/api", "/apis"):
        answer = cluster.ask("GET", path, Accept=f"{AT_ONCE},application/json")
        assert answer.headers["Content-Type"] == AT_ONCE
        for group in answer.json()["items"]:
            for version in group["versions"]:
                found |= _named(group["metadata"]["name"], version)
    return found


def _named(group: str, version: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    place = f"{group}/{version['version']}" if group else version["version"]
    found = {}
    for one in version["resources"]:
        found[place, one["resource"]] = one["verbs"]
        for sub in one["subresources"]:
            found[place, f"{one['resource']}/{sub['subresource']}"] = sub["verbs"]
    return found


def test_both_ways_of_asking_give_the_same(cluster: Cluster) -> None:
    assert at_once(cluster) == one_by_one(cluster)


def test_every_kind_is_there_with_its_subresources(cluster: Cluster) -> None:
    found = one_by_one(cluster)

    for resource in RESOURCES:
        assert "watch" in found[resource.api_version, resource.plural]
        for name in resource.subresources:
            assert (resource.api_version, f"{resource.plural}/{name}") in found


def test_a_group_can_be_asked_about(cluster: Cluster) -> None:
    group = cluster.ask("GET", "/apis/karpenter.sh").json()

    assert group["preferredVersion"] == {"groupVersion": "karpenter.sh/v1", "version": "v1"}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.plural)
def test_every_kind_has_a_schema_whose_references_lead_somewhere(
    cluster: Cluster, resource: Any
) -> None:
    place = f"apis/{resource.api_version}" if resource.group else "api/v1"
    url = cluster.ask("GET", "/openapi/v3").json()["paths"][place]["serverRelativeURL"]

    document = cluster.ask("GET", url).json()

    schemas = document["components"]["schemas"]
    assert "metadata" in schemas[resource.kind]["properties"]
    for schema in schemas.values():
        for one in schema["properties"].values():
            inner = one.get("items") or one.get("additionalProperties") or one
            assert inner.get("$ref", "").rpartition("/")[2] in {"", *schemas}
