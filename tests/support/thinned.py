"""Clusters in which nodes are replaced: half-empty ones, and ones whose pool has changed."""

import copy
from functools import cache
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import EVENTS, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import Scenario
from tests.support.boxes import a_node_class, a_pool, a_story, an_app

TYPES = ("m5.large", "m5.xlarge", "m5.2xlarge")


@cache
def a_catalog() -> Catalog:
    known = bundled_catalog()
    names = (*TYPES, "t3.small")
    return msgspec.structs.replace(
        known, machines=tuple(one for one in known.machines if one.name in names)
    )


def a_replacing_pool(
    *,
    types: tuple[str, ...] = TYPES,
    budget: str = "100%",
    policy: str = "WhenEmptyOrUnderutilized",
    after: str = "30s",
    **spec: Any,
) -> dict[str, Any]:
    """A NodePool of on-demand nodes from which pods are moved for the sake of money."""
    pool = a_pool(capacity_type="on-demand", **spec)
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    requirements[1]["values"] = list(types)
    pool["spec"]["disruption"] = {
        "consolidationPolicy": policy,
        "consolidateAfter": after,
        "budgets": [{"nodes": budget}],
    }
    return pool


def a_small_app(
    name: str, *, cpu: str = "500m", memory: str = "1Gi", replicas: int = 0
) -> dict[str, Any]:
    app = copy.deepcopy(an_app(name, replicas=replicas))
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    return app


def a_disruption_budget(app: str, *, most: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": app}}},
    }


def a_replacing_story(pool: dict[str, Any], *others: dict[str, Any]) -> Scenario:
    return a_story(objects=(a_node_class(), pool, *others))


def change_template(box: Box, name: str = "default", **labels: str) -> None:
    """Have a user change what a pool's nodes are like: all that are there have drifted."""
    patch = {"spec": {"template": {"metadata": {"labels": labels}}}}
    box.api.patch(NODE_POOLS, name, patch, PatchType.MERGE)


def claims(box: Box) -> list[Object]:
    """Claims that are there to stay."""
    found = box.api.list(NODE_CLAIMS).items
    return [one for one in found if not one["metadata"].get("deletionTimestamp")]


def types_of(box: Box) -> list[str]:
    """The instance types of claims that are there to stay."""
    key = "node.kubernetes.io/instance-type"
    return sorted(look(one, "metadata", "labels", key) or "" for one in claims(box))


def told(box: Box, reason: str) -> list[str]:
    """What Events with a reason say."""
    return [one["message"] for one in box.api.list(EVENTS).items if one["reason"] == reason]
