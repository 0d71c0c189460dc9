"""The ``kubernetes`` client library: list, watch, patch, scale."""

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.config import new_client_from_config_dict

from dovetail.ports.api_resources import NAMESPACES
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from tests.simulator.rest.objects import add, add_deployment, add_node, add_pod, add_pool
from tests.simulator.rest.rest_server import TOKEN, Cluster


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[client.ApiClient]:
    config = encode_kubeconfig(cluster.url, TOKEN, cluster.certificate)
    with new_client_from_config_dict(config) as connected:
        yield connected


def test_lists_are_read_in_pages(cluster: Cluster, connection: client.ApiClient) -> None:
    for name in "abc":
        add_pod(cluster, name)
    core = client.CoreV1Api(connection)

    first = core.list_namespaced_pod("default", limit=2)
    rest = core.list_namespaced_pod("default", limit=2, _continue=first.metadata._continue)

    assert [item.metadata.name for item in (*first.items, *rest.items)] == list("abc")
    assert first.items[0].status.container_statuses[0].ready is True


def test_objects_are_created_read_changed_and_deleted(cluster: Cluster, connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    container = client.V1Container(name="app", image="app:1")
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(generate_name="web-"), spec=client.V1PodSpec(containers=[container])
    )

    created = core.create_namespaced_pod("default", pod)
    label = {"metadata": {"labels": {"a": "b"}}}
    core.patch_namespaced_pod(created.metadata.name, "default", label)
    read = core.read_namespaced_pod(created.metadata.name, "default")
    core.delete_namespaced_pod(created.metadata.name, "default")

    assert read.metadata.labels == {"a": "b"}
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod(created.metadata.name, "default")
    assert refused.value.status == 404


def test_a_watch_delivers_changes(cluster: Cluster, connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    add_pod(cluster, "old")
    events: list[tuple[str, str]] = []

    for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=2):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == 1:
            Thread(target=add_pod, args=(cluster, "new")).start()
        if len(events) == 3:
            break

    assert events == [("ADDED", "old"), ("ADDED", "new"), ("MODIFIED", "new")]


def test_a_deployment_is_scaled(cluster: Cluster, connection: client.ApiClient) -> None:
    add_deployment(cluster)
    apps = client.AppsV1Api(connection)

    before = apps.read_namespaced_deployment_scale("web", "default")
    change = {"spec": {"replicas": 10}}
    after = apps.patch_namespaced_deployment_scale("web", "default", change)

    assert (before.spec.replicas, before.status.replicas) == (2, 2)
    assert before.status.selector == "app=web"
    assert after.spec.replicas == 10


def test_a_node_is_cordoned_by_a_strategic_patch(cluster: Cluster, connection: client.ApiClient) -> None:
    add_node(cluster)

    node = client.CoreV1Api(connection).patch_node("ip-10-0-0-1", {"spec": {"unschedulable": True}})

    assert node.spec.unschedulable is True


def test_custom_objects_are_listed_and_patched(cluster: Cluster, connection: client.ApiClient) -> None:
    add_pool(cluster)
    custom = client.CustomObjectsApi(connection)
    kind: Any = ("karpenter.sh", "v1", "nodepools")

    custom.patch_cluster_custom_object(*kind, "default", {"spec": {"weight": 7}})
    pools = custom.list_cluster_custom_object(*kind)

    assert pools["items"][0]["spec"]["weight"] == 7


def test_an_eviction_that_a_pdb_forbids_is_too_many_requests(
    cluster: Cluster, connection: client.ApiClient
) -> None:
    add_pod(cluster, "web")
    budget = client.V1PodDisruptionBudget(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1PodDisruptionBudgetSpec(
            min_available=1, selector=client.V1LabelSelector(match_labels={"app": "web"})
        ),
    )
    client.PolicyV1Api(connection).create_namespaced_pod_disruption_budget("default", budget)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="web"))

    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(connection).create_namespaced_pod_eviction("web", "default", eviction)

    assert refused.value.status == 429
    assert "disruption budget" in refused.value.body


def test_a_pod_is_bound_once(cluster: Cluster, connection: client.ApiClient) -> None:
    add_pod(cluster, "web", node="")
    core = client.CoreV1Api(connection)
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="web"),
        target=client.V1ObjectReference(kind="Node", name="ip-10-0-0-1"),
    )

    core.create_namespaced_pod_binding("web", "default", binding, _preload_content=False)
    with pytest.raises(client.ApiException) as refused:
        core.create_namespaced_pod_binding("web", "default", binding, _preload_content=False)

    assert core.read_namespaced_pod("web", "default").spec.node_name == "ip-10-0-0-1"
    assert refused.value.status == 409


def test_a_collection_is_deleted(cluster: Cluster, connection: client.ApiClient) -> None:
    add(cluster, NAMESPACES, {"metadata": {"name": "shop"}})
    for namespace in ("default", "shop"):
        add_pod(cluster, "web", node="", namespace=namespace)
    core = client.CoreV1Api(connection)

    core.delete_collection_namespaced_pod("shop", label_selector="app=web")

    left = core.list_pod_for_all_namespaces().items
    assert [pod.metadata.namespace for pod in left] == ["default"]
