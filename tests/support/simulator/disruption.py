"""Clusters whose nodes are replaced: consolidation and drift."""

import copy
from functools import cache
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import EVENTS, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Scenario
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_scenario

TYPES = ("m5.large", "m5.xlarge", "m5.2xlarge")


@cache
def a_catalog() -> Catalog:
    catalog = bundled_catalog()
    names = (*TYPES, "t3.small")
    return msgspec.structs.replace(
        catalog,
        instance_types=tuple(
            instance_type for instance_type in catalog.instance_types if instance_type.name in names
        ),
    )


def consolidating_pool(
    *,
    types: tuple[str, ...] = TYPES,
    budget: str = "100%",
    policy: str = "WhenEmptyOrUnderutilized",
    after: str = "30s",
    **spec: Any,
) -> dict[str, Any]:
    """A NodePool of on-demand nodes with consolidation."""
    pool = a_pool(capacity_type="on-demand", **spec)
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    requirements[1]["values"] = list(types)
    pool["spec"]["disruption"] = {
        "consolidationPolicy": policy,
        "consolidateAfter": after,
        "budgets": [{"nodes": budget}],
    }
    return pool


def a_small_app(name: str, *, cpu: str = "500m", memory: str = "1Gi", replicas: int = 0) -> dict[str, Any]:
    app = copy.deepcopy(an_app(name, replicas=replicas))
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    return app


def disruption_budget(app: str, *, most: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": app}}},
    }


def disruption_scenario(pool: dict[str, Any], *others: dict[str, Any]) -> Scenario:
    return build_scenario(objects=(a_node_class(), pool, *others))


def change_labels(cluster: SimulatedCluster, name: str = "default", **labels: str) -> None:
    """Change the labels of a NodePool's template, so that its nodes drift."""
    patch = {"spec": {"template": {"metadata": {"labels": labels}}}}
    cluster.api.patch(NODE_POOLS, name, patch, PatchType.MERGE)


def claims(cluster: SimulatedCluster) -> list[Object]:
    """NodeClaims that are not being deleted."""
    listed = cluster.api.list(NODE_CLAIMS).items
    return [claim for claim in listed if not claim["metadata"].get("deletionTimestamp")]


def list_instance_types(cluster: SimulatedCluster) -> list[str]:
    """The instance types of NodeClaims that are not being deleted."""
    key = "node.kubernetes.io/instance-type"
    return sorted(get_field(claim, "metadata", "labels", key) or "" for claim in claims(cluster))


def event_messages(cluster: SimulatedCluster, reason: str) -> list[str]:
    """Messages of the Events with a reason."""
    return [event["message"] for event in cluster.api.list(EVENTS).items if event["reason"] == reason]
