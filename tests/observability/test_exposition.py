"""Metrics of the cluster at the time of a scrape."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NO_RESOURCES
from dovetail.observability.exposition import MetricsExposition
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.ports.metrics import NODEPOOLS_USAGE, ResourceLabels
from dovetail.state.cluster.cache import ClusterCache
from tests.support.simulator.clusters import a_pool

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
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
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


def a_cluster() -> ClusterCache:
    pool = a_pool(limits={"cpu": "100"})
    pool["metadata"]["resourceVersion"] = "1"
    cache = ClusterCache()
    cache.replace(NODE_POOLS, [pool])
    cache.replace(NODES, [a_node("one")])
    cache.replace(PODS, [a_pod("web", "one", "500m"), a_pod("agent", "one", "100m", daemon=True)])
    return cache


def scraped(
    cache: ClusterCache | None = None,
    types: tuple[InstanceType, ...] = (),
    *,
    metrics: PrometheusMetrics | None = None,
    per_node_metrics: bool = True,
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async def scrape() -> bytes:
        exposition = MetricsExposition(
            metrics or PrometheusMetrics(), clock=Noon(), per_node_metrics=per_node_metrics
        )
        if cache is not None:
            exposition.set_cluster(cache, lambda _: types)
        return await exposition.text()

    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(asyncio.run(scrape()).decode())
        for sample in family.samples
    }


def of_node(samples: dict[Any, float], name: str, **labels: str) -> float:
    labels_of_node = {
        "node_name": "one",
        "nodepool": "default",
        "instance_type": "m5.large",
        "capacity_type": "spot",
        "zone": "eu-west-1a",
        "arch": "amd64",
        "os": "linux",
        "managed": "true",
    }
    return samples[f"karpenter_nodes_{name}", frozenset({**labels_of_node, **labels}.items())]


def test_a_node_has_its_allocatable_resources_and_requests() -> None:
    samples = scraped(a_cluster())

    assert of_node(samples, "allocatable", resource_type="cpu") == 1.9
    assert of_node(samples, "allocatable", resource_type="memory") == 8 * 2**30
    assert of_node(samples, "total_pod_requests", resource_type="cpu") == 0.5
    assert of_node(samples, "total_daemon_requests", resource_type="cpu") == 0.1
    assert round(of_node(samples, "system_overhead", resource_type="cpu"), 3) == 0.1
    assert of_node(samples, "current_lifetime_seconds") == 3600


def test_the_cluster_has_its_utilization_and_limits() -> None:
    samples = scraped(a_cluster())

    used = samples["karpenter_cluster_utilization_percent", frozenset({("resource_type", "cpu")})]
    assert round(used, 2) == round(100 * 0.6 / 1.9, 2)
    pool = frozenset({("nodepool", "default"), ("resource_type", "cpu")})
    assert samples["karpenter_nodepools_limit", pool] == 100
    assert samples["karpenter_cluster_state_node_count", frozenset()] == 1
    assert samples["karpenter_cluster_state_synced", frozenset()] == 0


def test_a_disconnected_cluster_is_not_synced() -> None:
    async def scrape() -> str:
        exposition = MetricsExposition(PrometheusMetrics(), clock=Noon())
        cache = a_cluster()
        for resource in cache.stores:
            cache.begin_relist(resource).finish("1")
        lost = Noon().now() - timedelta(seconds=90)
        exposition.set_cluster(cache, lambda _: (), disconnected_since=lambda: lost)
        return (await exposition.text()).decode()

    lines = asyncio.run(scrape()).splitlines()

    assert "karpenter_cluster_state_unsynced_time_seconds{} 90.0" in lines
    assert "karpenter_cluster_state_synced{} 0" in lines


def test_a_pool_has_the_cost_of_its_nodes() -> None:
    offerings = (
        Offering(zone="eu-west-1a", capacity_type="on-demand", price=0.107),
        Offering(zone="eu-west-1a", capacity_type="spot", price=0.04),
    )
    large = InstanceType(
        name="m5.large", requirements=Requirements(), capacity=NO_RESOURCES, offerings=offerings
    )

    priced, unpriced = scraped(a_cluster(), (large,)), scraped(a_cluster())

    pool = frozenset({("nodepool", "default")})
    assert priced["karpenter_nodepools_cost_total", pool] == 0.04
    assert unpriced["karpenter_nodepools_cost_total", pool] == 0


def test_metrics_per_node_can_be_disabled() -> None:
    samples = scraped(a_cluster(), per_node_metrics=False)

    names = {name for name, _ in samples}
    assert not any(name.startswith("karpenter_nodes_") for name in names)
    assert "karpenter_cluster_utilization_percent" in names


def test_metrics_of_a_deleted_pool_are_removed() -> None:
    metrics = PrometheusMetrics()
    for pool in ("default", "deleted"):
        metrics.set(NODEPOOLS_USAGE, 1, ResourceLabels(nodepool=pool, resource_type="cpu"))

    samples = scraped(a_cluster(), metrics=metrics)

    pools = {dict(labels)["nodepool"] for name, labels in samples if name == "karpenter_nodepools_usage"}
    assert pools == {"default"}


def test_metrics_of_a_deleted_pool_are_removed_without_a_scrape() -> None:
    metrics = PrometheusMetrics()
    exposition = MetricsExposition(metrics, clock=Noon())
    exposition.set_cluster(a_cluster(), lambda _: ())
    for pool in ("default", "deleted"):
        metrics.set(NODEPOOLS_USAGE, 1, ResourceLabels(nodepool=pool, resource_type="cpu"))

    exposition.remove_deleted_nodepools()

    text = metrics.text().decode()
    assert 'karpenter_nodepools_usage{nodepool="default"' in text
    assert 'nodepool="deleted"' not in text


def test_without_a_cluster_only_metrics_of_the_process_are_exposed() -> None:
    samples = scraped(None)

    assert "karpenter_build_info" in {name for name, _ in samples}
    assert "karpenter_cluster_state_node_count" not in {name for name, _ in samples}
