"""Nodes launched for pods that consolidation has just moved are not consolidated at once."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.controllers.disruption.recent_moves import REST
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, REGISTERED
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import DEPLOYMENTS, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.running_nodes import stop_pod
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_scenario

SIZES = (
    ("250m", "512Mi"),
    ("500m", "1Gi"),
    ("1", "2Gi"),
    ("750m", "3Gi"),
    ("1500m", "2Gi"),
    ("300m", "2Gi"),
    ("2", "4Gi"),
    ("100m", "256Mi"),
    ("900m", "1Gi"),
    ("400m", "700Mi"),
)
"""CPU and memory of one pod of each Deployment."""
REPLICAS = 20
"""Pods of each Deployment before the scale-in."""


def a_cluster() -> SimulatedCluster:
    """Return a cluster of Deployments of various sizes, with a short ``consolidateAfter``."""
    pool = a_pool(capacity_type="on-demand")
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": key, "operator": "In", "values": values}
        for key, values in {
            "karpenter.sh/capacity-type": ["on-demand"],
            "kubernetes.io/arch": ["amd64"],
            "karpenter.k8s.aws/instance-category": ["c", "m", "r"],
            "karpenter.k8s.aws/instance-cpu": ["2", "4", "8", "16"],
        }.items()
    ]
    pool["spec"]["disruption"] = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "20%"}],
    }
    scenario = build_scenario(objects=[a_node_class(), pool, *deployments()])
    return SimulatedCluster(
        msgspec.structs.replace(scenario, seed=1), catalog=bundled_catalog(), prices=bundled_prices()
    )


def deployments() -> Iterator[dict[str, Any]]:
    for number, (cpu, memory) in enumerate(SIZES):
        app = an_app(f"app{number}", replicas=REPLICAS)
        (container,) = app["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
        yield app


def get_lifetimes(cluster: SimulatedCluster, seconds: int) -> dict[str, timedelta]:
    """Run a cluster; return NodeClaim → time from registration to its consolidation."""
    registered: dict[str, datetime] = {}
    lifetimes: dict[str, timedelta] = {}
    for _ in range(seconds):
        cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=1))
        now = cluster.clock.now()
        for claim in cluster.operator.cache.claims():
            if is_true(claim.conditions, REGISTERED):
                registered.setdefault(claim.name, now)
            reason = claim.conditions.get(DISRUPTION_REASON)
            if reason is not None and reason.reason == "Underutilized":
                lifetimes.setdefault(claim.name, now - registered[claim.name])
    return lifetimes


@pytest.mark.slow
def test_nodes_launched_while_a_scale_in_is_consolidated_live_for_five_minutes() -> None:
    cluster = a_cluster()
    get_lifetimes(cluster, seconds=60)
    launched = {claim.name for claim in cluster.operator.cache.claims()}
    for number in range(len(SIZES)):
        patch = {"spec": {"replicas": REPLICAS * 7 // 10}}
        cluster.api.patch(DEPLOYMENTS, f"app{number}", patch, PatchType.MERGE, "default")

    lifetimes = get_lifetimes(cluster, seconds=1500)

    assert launched & lifetimes.keys(), "consolidateAfter of the other nodes is not extended"
    assert all(lifetimes[name] >= REST for name in lifetimes.keys() - launched)


def test_replacement_of_an_underutilized_node_is_not_replaced_before_its_rest_ends() -> None:
    env, node = a_replaced_node()

    env.wait(REST.total_seconds() - 30)
    before = node in env.disrupted_nodes()
    env.wait(60)

    assert not before
    assert node in env.disrupted_nodes()


def test_replacement_that_becomes_empty_is_deleted_at_once() -> None:
    env, node = a_replaced_node()

    stop_pod(env, "successor")
    env.wait(30)

    assert node in env.disrupted_nodes()


def a_replaced_node() -> tuple[DisruptionEnvironment, str]:
    """Return the ready replacement of an oversized node; it is oversized itself."""
    env = DisruptionEnvironment()
    env.add_pool()
    env.add_node("node")
    env.add_app_pod("web", "node")
    env.wait(60)
    env.start().wait(15)
    (replacement,) = env.replacements()
    node = env.make_ready(replacement)
    env.add_app_pod("successor", node)
    env.delete(PODS, "web", "default")
    env.set_conditions(replacement, "Consolidatable")
    return env, node
