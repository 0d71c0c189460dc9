"""Nodes launched for pods that consolidation has just moved are not consolidated at once."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.controllers.disruption.recent_moves import MAX_REST, REST, RecentMoves
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, REGISTERED
from dovetail.model.kube.conditions import TRUE, Condition, is_true
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION, REPLACES_ANNOTATION
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.running_nodes import add_owner, stop_pod
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


def test_each_move_in_a_row_that_fails_doubles_the_rest_up_to_an_hour() -> None:
    env, moves = an_environment()

    rests = [move_pod(env, moves, number) for number in range(50)]

    assert rests == [REST, 2 * REST, 4 * REST, 8 * REST, *[MAX_REST] * 46]


def test_replacement_that_was_planned_does_not_count_as_a_failed_move() -> None:
    env, moves = an_environment()

    rests = [move_pod(env, moves, number, planned=True) for number in range(3)]

    assert rests == [REST, REST, REST]


def test_rest_is_short_again_once_a_pod_has_left_without_an_eviction() -> None:
    env, moves = an_environment()
    for number in range(3):
        move_pod(env, moves, number)

    stop_pod(env, "pod-3")

    assert moves.rests_until(env.claim("claim-3")) == env.now + REST


def test_move_of_pods_of_another_owner_has_its_own_rest() -> None:
    env, moves = an_environment()
    for number in range(3):
        move_pod(env, moves, number)
    env.wait(60)

    env.add_node("node-10")
    env.add_app_pod("pod-10", "node-10", owner=add_owner(env, "ReplicaSet", "api"))

    assert move_pod(env, moves, 10, owner="api") == REST


def an_environment() -> tuple[DisruptionEnvironment, RecentMoves]:
    """Return a node with a pod, and the recent moves that observe them."""
    env = DisruptionEnvironment()
    moves = RecentMoves(env.context())
    env.cache.subscribe(NODE_CLAIMS, moves.handle_claim)
    env.cache.subscribe(PODS, moves.handle_pod)
    env.add_pool()
    env.add_node("node-0")
    env.add_app_pod("pod-0", "node-0")
    return env, moves


def move_pod(
    env: DisruptionEnvironment, moves: RecentMoves, number: int, *, planned: bool = False, owner: str = "web"
) -> timedelta:
    """Consolidate a node; its pod finds room on a new node only, of which the rest is returned."""
    reason = Condition(status=TRUE, reason="Underutilized", last_transition_time=env.now)
    conditions = {**env.claim(f"claim-{number}").conditions, DISRUPTION_REASON: reason}
    patch = {"status": {"conditions": encode_conditions(conditions)}}
    env.patch(NODE_CLAIMS, f"claim-{number}", patch, subresource="status")
    pod, node = f"pod-{number + 1}", f"node-{number + 1}"
    stop_pod(env, f"pod-{number}")
    env.add_app_pod(pod, "", owner=add_owner(env, "ReplicaSet", owner))
    uid = env.get(PODS, pod, "default")["metadata"]["uid"]
    annotations = {ASSIGNED_PODS_ANNOTATION: f"default/{pod}/{uid}"}
    if planned:
        annotations[REPLACES_ANNOTATION] = f"claim-{number}/uid"
    env.add_node(node, claim_annotations=annotations)
    env.api.bind(pod, "default", {"target": {"kind": "Node", "name": node}})
    env.wait(0)
    end = moves.rests_until(env.claim(f"claim-{number + 1}"))
    assert end is not None
    return end - env.now
