"""Lists over HTTPS: pages, selectors, representations, and long lists."""

from typing import Any

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS, PODS
from tests.simulator.rest.objects import add, add_pod
from tests.simulator.rest.rest_server import Cluster

MAPS = "/api/v1/namespaces/default/configmaps"


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def test_all_pages_of_a_list_are_from_one_version(cluster: Cluster) -> None:
    for name in "abcde":
        add(cluster, CONFIG_MAPS, {"metadata": {"name": name}})

    first = cluster.request("GET", f"{MAPS}?limit=2")
    cluster.run(lambda: cluster.api.delete(CONFIG_MAPS, "c", "default"))
    token = first.json()["metadata"]["continue"]
    second = cluster.request("GET", f"{MAPS}?limit=2&continue={token}")
    token = second.json()["metadata"]["continue"]
    third = cluster.request("GET", f"{MAPS}?limit=2&continue={token}")

    assert names(first) + names(second) + names(third) == list("abcde")
    assert first.json()["metadata"]["remainingItemCount"] == 3
    assert "continue" not in third.json()["metadata"]
    assert first.json()["kind"] == "ConfigMapList"


def test_a_list_can_be_of_an_exact_version_or_no_older_than_one(cluster: Cluster) -> None:
    add(cluster, CONFIG_MAPS, {"metadata": {"name": "early"}})
    version = cluster.api.resource_version
    add(cluster, CONFIG_MAPS, {"metadata": {"name": "late"}})

    exact = cluster.request("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    newest = cluster.request("GET", f"{MAPS}?resourceVersion={version}")
    future = cluster.request("GET", f"{MAPS}?resourceVersion=99999")

    assert names(exact) == ["early"]
    assert names(newest) == ["early", "late"]
    assert future.status == 504
    assert future.json()["reason"] == "Timeout"


def test_lists_select_by_namespace_label_and_field(cluster: Cluster) -> None:
    add_pod(cluster, "here", labels={"app": "a"})
    add_pod(cluster, "there", labels={"app": "b"}, node="other")
    add_pod(cluster, "apart", namespace="kube-system")

    everywhere = cluster.request("GET", "/api/v1/pods")
    inside = cluster.request("GET", "/api/v1/namespaces/default/pods")
    labelled = cluster.request("GET", "/api/v1/pods?labelSelector=app+in+(a,c)")
    placed = cluster.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dother")

    assert names(everywhere) == ["here", "there", "apart"]
    assert names(inside) == ["here", "there"]
    assert names(labelled) == ["here"]
    assert names(placed) == ["there"]


def test_a_list_can_be_metadata_only(cluster: Cluster) -> None:
    add_pod(cluster, "web")
    form = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"

    many = cluster.request("GET", "/api/v1/pods", Accept=form.format("List")).json()
    single = cluster.request("GET", "/api/v1/namespaces/default/pods/web", Accept=form.format("")).json()

    assert many["kind"] == "PartialObjectMetadataList"
    assert "spec" not in many["items"][0]
    assert single["kind"] == "PartialObjectMetadata"
    assert single["metadata"]["name"] == "web"


@pytest.mark.parametrize(
    ("include", "shown"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
def test_a_row_includes_the_requested_part_of_its_object(
    cluster: Cluster, include: str, shown: str | None
) -> None:
    add_pod(cluster, "web")
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"

    answer = cluster.request("GET", f"/api/v1/pods?includeObject={include}", Accept=table).json()

    assert answer["kind"] == "Table"
    assert answer["rows"][0].get("object", {}).get("kind") == shown


@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 500, 1200])
def test_a_list_of_any_length_is_complete(cluster: Cluster, count: int) -> None:
    def fill() -> None:
        for number in range(count):
            cluster.api.create(PODS, _pod(number), "default")

    cluster.run(fill)

    answer = cluster.request("GET", "/api/v1/pods")

    assert len(answer.json()["items"]) == count


def _pod(number: int) -> dict[str, Any]:
    spec = {"containers": [{"name": "app", "image": "app:1"}]}
    return {"metadata": {"name": f"pod-{number:06}"}, "spec": spec}
