"""Recorded clusters: objects of a simulated cluster at rest, as a dump has them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from dovetail.data.bundled import bundled_prices
from dovetail.ports.api_resources import EVENTS, LEASES, NODE_CLAIMS, NODES, PODS, RESOURCES
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    small_catalog,
    wait,
)

Objects = list[dict[str, Any]]


def an_agent() -> dict[str, Any]:
    """A DaemonSet on every node."""
    container = {"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "50m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"tolerations": [{"operator": "Exists"}], "containers": [container]},
            },
        },
    }


def a_database(replicas: int = 2) -> Objects:
    """A StatefulSet with a volume per pod, and its storage class."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    container = {"name": "db", "image": "db:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "gp3"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop"},
            "spec": {
                "replicas": replicas,
                "serviceName": "db",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}},
                "volumeClaimTemplates": [claim],
            },
        },
    ]


def a_budget(app: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **(spec or {"maxUnavailable": 1})},
    }


def a_running_cluster(
    *objects: dict[str, Any], replicas: int = 3, node_group: int = 1, pool: dict[str, Any] | None = None
) -> SimulatedCluster:
    """A cluster at rest: one m5.large per replica of ``web``, and the node group."""
    usual = [a_node_class(), pool or a_pool(), an_app(replicas=replicas)]
    cluster = build_cluster(build_scenario(objects=[*usual, *objects], node_group=node_group))
    wait(cluster, 900)
    return cluster


def record(cluster: SimulatedCluster) -> Objects:
    """All objects of a cluster, as ``kubectl get -o json`` prints them."""
    return [thaw(obj) for resource in RESOURCES for obj in cluster.api.list(resource).items]


def fork(objects: Iterable[dict[str, Any]], at: SimulatedCluster, **options: Any) -> SimulatedCluster:
    """Fork the objects at the current time of the cluster that they were recorded in."""
    return SimulatedCluster.from_snapshot(
        objects, now=at.clock.now(), catalog=small_catalog(), prices=bundled_prices(), **options
    )


def of_kind(objects: Iterable[dict[str, Any]], *kinds: str) -> Objects:
    return [obj for obj in objects if obj["kind"] in kinds]


def without(objects: Iterable[dict[str, Any]], *kinds: str) -> Objects:
    return [obj for obj in objects if obj["kind"] not in kinds]


def identities(cluster: SimulatedCluster) -> dict[str, str]:
    """Every node, NodeClaim and pod: uid → node and phase."""
    return {
        obj["metadata"]["uid"]: f"{obj.get('spec', {}).get('nodeName')} {obj['status'].get('phase')}"
        for resource in (NODES, NODE_CLAIMS, PODS)
        for obj in cluster.api.list(resource).items
    }


def changed_objects(cluster: SimulatedCluster, span: timedelta) -> list[str]:
    """Play a time; return the objects that were written meanwhile, without heartbeats."""
    resources = [resource for resource in RESOURCES if resource not in (LEASES, EVENTS)]

    def versions() -> dict[str, str]:
        return {
            f"{obj['kind']} {obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for resource in resources
            for obj in cluster.api.list(resource).items
        }

    before = versions()
    cluster.clock.run(until=cluster.clock.now() + span)
    after = versions()
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
