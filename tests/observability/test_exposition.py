"""The cluster in numbers, as it is when somebody asks."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NOTHING
from dovetail.observability.exposition import Scraping
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.state.cluster.cache import Mirror
from tests.support.boxes import a_pool

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class Noon:
    def now(self) -> datetime:
        return NOON


def a_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-01-01T11:00:00Z",
            "labels": {
                "karpenter.sh/nodepool": "default",
                "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m5.large",
                "topology.kubernetes.io/zone": "eu-west-1a",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
            },
            "resourceVersion": "1",
        },
        "spec": {"providerID": f"aws:///eu-west-1a/i-{name}"},
        "status": {"capacity": amounts, "allocatable": {**amounts, "cpu": "1900m"}},
    }


def a_pod(name: str, node: str, cpu: str, *, daemon: bool = False) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "d",
        "uid": "d",
        "controller": True,
    }
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "1",
            "ownerReferences": [owner] if daemon else [],
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def a_cluster() -> Mirror:
    pool = a_pool(limits={"cpu": "100"})
    pool["metadata"]["resourceVersion"] = "1"
    mirror = Mirror()
    mirror.replace(NODE_POOLS, [pool])
    mirror.replace(NODES, [a_node("one")])
    mirror.replace(PODS, [a_pod("web", "one", "500m"), a_pod("agent", "one", "100m", daemon=True)])
    return mirror


def scraped(
    mirror: Mirror | None = None,
    types: tuple[InstanceType, ...] = (),
    *,
    metrics: PrometheusMetrics | None = None,
    each_node: bool = True,
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async def story() -> bytes:
        scraping = Scraping(metrics or PrometheusMetrics(), clock=Noon(), each_node=each_node)
        if mirror is not None:
            scraping.show(mirror, lambda _: types)
        return await scraping.text()

    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(asyncio.run(story()).decode())
        for sample in family.samples
    }


def of_node(found: dict[Any, float], name: str, **labels: str) -> float:
    who = {
        "node_name": "one",
        "nodepool": "default",
        "instance_type": "m5.large",
        "capacity_type": "spot",
        "zone": "eu-west-1a",
        "arch": "amd64",
        "os": "linux",
        "managed": "true",
    }
    return found[f"karpenter_nodes_{name}", frozenset({**who, **labels}.items())]


def test_a_node_says_what_it_has_and_what_is_asked_of_it() -> None:
    found = scraped(a_cluster())

    assert of_node(found, "allocatable", resource_type="cpu") == 1.9
    assert of_node(found, "allocatable", resource_type="memory") == 8 * 2**30
    assert of_node(found, "total_pod_requests", resource_type="cpu") == 0.5
    assert of_node(found, "total_daemon_requests", resource_type="cpu") == 0.1
    assert round(of_node(found, "system_overhead", resource_type="cpu"), 3) == 0.1
    assert of_node(found, "current_lifetime_seconds") == 3600


def test_the_cluster_says_how_full_it_is_and_what_pools_may_have() -> None:
    found = scraped(a_cluster())

    used = found["karpenter_cluster_utilization_percent", frozenset({("resource_type", "cpu")})]
    assert round(used, 2) == round(100 * 0.6 / 1.9, 2)
    pool = frozenset({("nodepool", "default"), ("resource_type", "cpu")})
    assert found["karpenter_nodepools_limit", pool] == 100
    assert found["karpenter_cluster_state_node_count", frozenset()] == 1
    assert found["karpenter_cluster_state_synced", frozenset()] == 0


def test_a_cluster_that_cannot_be_followed_is_not_known_as_it_is_now() -> None:
    async def story() -> str:
        scraping = Scraping(PrometheusMetrics(), clock=Noon())
        mirror = a_cluster()
        for resource in mirror.tables:
            mirror.relist(resource).end("1")
        lost = Noon().now() - timedelta(seconds=90)
        scraping.show(mirror, lambda _: (), lost_since=lambda: lost)
        return (await scraping.text()).decode()

    told = asyncio.run(story()).splitlines()

    assert "karpenter_cluster_state_unsynced_time_seconds{} 90.0" in told
    assert "karpenter_cluster_state_synced{} 0" in told


def test_a_pool_says_what_its_nodes_cost() -> None:
    offerings = (
        Offering(zone="eu-west-1a", capacity_type="on-demand", price=0.107),
        Offering(zone="eu-west-1a", capacity_type="spot", price=0.04),
    )
    large = InstanceType(
        name="m5.large", requirements=Requirements(), capacity=NOTHING, offerings=offerings
    )

    known, unknown = scraped(a_cluster(), (large,)), scraped(a_cluster())

    pool = frozenset({("nodepool", "default")})
    assert known["karpenter_nodepools_cost_total", pool] == 0.04
    assert unknown["karpenter_nodepools_cost_total", pool] == 0


def test_single_nodes_can_be_left_out() -> None:
    found = scraped(a_cluster(), each_node=False)

    names = {name for name, _ in found}
    assert not any(one.startswith("karpenter_nodes_") for one in names)
    assert "karpenter_cluster_utilization_percent" in names


def test_what_was_said_of_a_pool_that_is_gone_is_forgotten() -> None:
    metrics = PrometheusMetrics()
    for pool in ("default", "deleted"):
        metrics.gauge("karpenter_nodepools_usage", 1, nodepool=pool, resource_type="cpu")

    found = scraped(a_cluster(), metrics=metrics)

    told = {
        dict(labels)["nodepool"] for name, labels in found if name == "karpenter_nodepools_usage"
    }
    assert told == {"default"}


def test_before_anything_is_known_of_the_cluster_the_process_tells_of_itself() -> None:
    found = scraped(None)

    assert "karpenter_build_info" in {name for name, _ in found}
    assert "karpenter_cluster_state_node_count" not in {name for name, _ in found}
