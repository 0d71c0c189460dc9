"""Document of a cluster: nodes with state and price, pending pods with reasons, NodeClaims."""

from datetime import timedelta
from time import process_time
from typing import Any

import msgspec
import pytest

from dovetail.core.disruption.candidates import Blocker
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.explain import TargetFleet
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.model.kube.conditions import FALSE, Condition
from dovetail.model.kube.pod import OwnerReference, PodSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.plan import Constraint, ExistingPlacement, Plan, UnschedulablePod, UnschedulableReason
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.build import Explanations, ViewBuilder, ViewInputs
from dovetail.view.diff import diff
from dovetail.view.document import ClaimPhase, NodeState, NodeView, PendingReason, PriceBasis
from dovetail.view.notices import find_autoscaler, find_notices
from tests.support.scheduling.instance_types import DEFAULT_TYPES
from tests.view.clusters import (
    BORN,
    NOW,
    OFFERING,
    Environment,
    a_cache,
    a_view,
    add_claim,
    add_node,
    add_pod,
    an_environment,
    conditions,
    labels,
)

PENDING = {"node_name": "", "unschedulable": True}


def only_node(env: Environment, **inputs: Any) -> NodeView:
    (node,) = a_view(env, **inputs).nodes.values()
    return node


def test_node_has_the_price_of_its_offering_and_its_pods_by_workload() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, "web-abc-1")
    add_pod(env, "web-abc-2")
    add_pod(env, "agent-x", owner=OwnerReference("apps/v1", "DaemonSet", "agent"))

    node = only_node(env)

    assert (node.key, node.name, node.state) == ("claim-node", "node", NodeState.READY)
    assert (node.price_per_hour, node.price_basis) == (OFFERING.price, PriceBasis.OFFERING)
    assert [(load.kind, load.name, len(load.pods)) for load in node.workloads] == [
        ("DaemonSet", "agent", 1),
        ("Deployment", "web", 2),
    ]
    assert (node.cpu.requested, node.cpu.allocatable, node.pods.requested) == (1500, 3900, 3)


def test_finished_pod_uses_nothing() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, phase="Succeeded")

    assert (only_node(env).cpu.requested, only_node(env).workloads) == (0, ())


def test_a_node_whose_nodeclaim_is_missing_is_not_joining() -> None:
    env = an_environment()
    add_node(env, labels=labels(**{"karpenter.sh/initialized": "false"}))
    env[kinds.NODE_CLAIMS] = []

    assert only_node(env).state is NodeState.READY


@pytest.mark.parametrize(
    ("node", "claim", "state"),
    [
        ({}, {}, NodeState.READY),
        ({"conditions": FrozenDict({"Ready": Condition(status=FALSE)})}, {}, NodeState.NOT_READY),
        ({"labels": labels(**{"karpenter.sh/initialized": "false"})}, {}, NodeState.JOINING),
        ({"taints": (DISRUPTED_TAINT,)}, {}, NodeState.DISRUPTED),
        ({"deleting": True, "deleted_at": NOW}, {"deleting": True, "deleted_at": NOW}, NodeState.DRAINING),
        (
            {"deleting": True},
            {"deleting": True, "deleted_at": NOW, "conditions": conditions("Initialized", "Drained")},
            NodeState.TERMINATING,
        ),
    ],
)
def test_state_follows_the_life_of_a_node(node: Any, claim: Any, state: NodeState) -> None:
    env = an_environment()
    add_node(env, claim=claim, **node)

    assert only_node(env).state is state


def test_nodeclaim_without_an_instance_is_a_launching_node_that_keeps_its_key() -> None:
    env = an_environment()
    add_claim(env, "claim-node", conditions=FrozenDict())
    before = only_node(env)
    env[kinds.NODE_CLAIMS].clear()
    add_node(env)

    after = only_node(env)

    assert (before.state, before.key, before.name) == (NodeState.LAUNCHING, "claim-node", "claim-node")
    assert (after.key, after.name) == ("claim-node", "node")


def test_keep_reason_names_the_object_that_blocks() -> None:
    env = an_environment()
    add_node(env)
    blocker = Blocker("PodDisruptionBudget", "default/web")
    reason = KeepReason(node="node", price=0.5, code="spared", message="no eviction", blocker=blocker)

    view = a_view(env, explanations=Explanations(keep_reasons=(reason,)))

    (node,) = view.nodes.values()
    assert node.keep is not None
    assert node.keep.blocker is not None
    assert (node.keep.code, node.keep.blocker.name) == ("spared", "default/web")
    (blocked,) = view.blockers.values()
    assert (blocked.nodes, blocked.price_per_hour) == (("node",), 0.5)
    assert view.totals.blocked_price_per_hour == 0.5


def test_totals_have_the_target_and_the_gap_to_the_lower_bound() -> None:
    env = an_environment()
    add_node(env)
    target = TargetFleet(nodes=1, price=OFFERING.price, target_nodes=1, target_price=0.01)

    totals = a_view(env, explanations=Explanations(target=target, lower_bound=0.004)).totals

    assert totals.price_per_hour == OFFERING.price
    assert totals.price_per_month == pytest.approx(OFFERING.price * 730)
    assert totals.target_per_hour == pytest.approx(0.01)
    assert totals.gap_per_hour == pytest.approx(OFFERING.price - 0.004)


@pytest.mark.parametrize("label", ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"])
def test_node_without_a_nodepool_has_its_type_and_the_price_of_the_price_book(label: str) -> None:
    env: Environment = {kinds.NODES: [], kinds.NODE_CLAIMS: [], kinds.PODS: []}
    add_node(env, labels=FrozenDict({label: "m5.large"}))
    env[kinds.NODE_CLAIMS].clear()

    node = only_node(env, types={}, find_price=lambda node: 0.096)

    assert node.instance_type == "m5.large"
    assert (node.price_per_hour, node.price_basis, node.node_pool) == (0.096, PriceBasis.PRICE_BOOK, "")


def test_unknown_price_is_counted_as_unpriced_and_not_as_zero() -> None:
    env = an_environment()
    add_node(env, labels=labels(**{"node.kubernetes.io/instance-type": "x9.huge"}))

    view = a_view(env)

    (node,) = view.nodes.values()
    assert node.price_per_hour is None
    assert (view.totals.unpriced_nodes, view.totals.price_per_hour) == (1, 0)


def test_pending_pod_waits_for_the_nodeclaim_that_was_created_for_it() -> None:
    env = an_environment()
    add_claim(env, "done", conditions=conditions("Initialized", since=BORN + timedelta(seconds=40)))
    assigned = FrozenDict({"dovetail.sh/assigned-pods": "default/web-abc-1/web-abc-1"})
    add_claim(env, "new", annotations=assigned, created=NOW, conditions=FrozenDict())
    add_pod(env, **PENDING)

    (pod,) = a_view(env).pending_pods.values()

    assert (pod.reason, pod.node_claim) == (PendingReason.NODE_ON_ITS_WAY, "new")
    assert pod.expected_at == NOW + timedelta(seconds=40)


def test_pod_that_cannot_be_scheduled_has_the_reason_of_each_nodepool() -> None:
    env = an_environment()
    add_pod(env, **PENDING)
    (pod,) = env[kinds.PODS]
    reason = UnschedulableReason("default", Constraint.RESOURCES, "needs 900 CPU; the largest type has 128")
    plan = Plan(unschedulable=(UnschedulablePod(pod, (reason,)),))

    (shown,) = a_view(env, explanations=Explanations(plan=plan)).pending_pods.values()

    assert shown.reason is PendingReason.CANNOT_BE_SCHEDULED
    assert shown.messages == ("NodePool default: needs 900 CPU; the largest type has 128",)
    assert "900 CPU" in shown.nearest_fit


def test_pod_with_room_on_an_existing_node_names_it() -> None:
    env = an_environment()
    add_pod(env, **PENDING)
    plan = Plan(existing=(ExistingPlacement("node", env[kinds.PODS]),))

    (shown,) = a_view(env, explanations=Explanations(plan=plan)).pending_pods.values()

    assert (shown.reason, shown.node) == (PendingReason.FITS_EXISTING_NODE, "node")


def test_phases_of_a_nodeclaim_have_their_times() -> None:
    env = an_environment()
    launched = conditions("Launched", since=BORN + timedelta(seconds=3))
    add_claim(env, "new", conditions=launched, provider_id="aws:///zone/i-1")

    (claim,) = a_view(env).node_claims.values()

    assert claim.phase is ClaimPhase.REGISTRATION
    assert [(phase.phase, phase.ended_at) for phase in claim.phases] == [
        (ClaimPhase.LAUNCH, BORN + timedelta(seconds=3)),
        (ClaimPhase.REGISTRATION, None),
    ]


def test_nodepool_has_limits_usage_and_the_disruption_allowed_now() -> None:
    budgets = (Budget(nodes="1"), Budget(nodes="0", reasons=("Drifted",)))
    env = an_environment(limits=Resources({"cpu": 100_000}), disruption=Disruption(budgets=budgets))
    add_node(env, "a")
    add_node(env, "b")

    (pool,) = a_view(env).node_pools.values()

    assert (pool.nodes, pool.limits["cpu"], pool.usage["cpu"]) == (2, 100_000, 7800)
    assert pool.allowed_disruptions == {"Underutilized": 1, "Empty": 1, "Drifted": 0}


def test_cluster_without_nodepools_says_what_is_missing() -> None:
    notices = find_notices(a_cache({kinds.NODES: [], kinds.PODS: []}), autoscaler="")

    assert "no-nodepools" in notices


@pytest.mark.parametrize(
    ("provider_id", "cloud"),
    [("gce://project/europe-west1-b/n", "GKE"), ("azure:///subscriptions/0/n", "AKS")],
)
def test_nodes_of_another_cloud_have_no_price_and_the_notice_names_it(provider_id: str, cloud: str) -> None:
    node = {
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "spec": {"providerID": provider_id},
    }
    cache = ClusterCache()
    cache.replace(kinds.NODES, [node])

    (notice,) = find_notices(cache, autoscaler="").values()
    totals = ViewBuilder(cache).build(ViewInputs(now=NOW)).totals

    assert notice.message.startswith(f"all nodes are of another cloud ({cloud})")
    assert (totals.nodes, totals.unpriced_nodes) == (1, 1)


def test_dump_without_nodeclaims_says_what_is_missing() -> None:
    env = an_environment()
    add_node(env)
    env[kinds.NODE_CLAIMS].clear()

    assert "no-nodeclaims" in find_notices(a_cache(env), autoscaler="")


def test_karpenter_in_the_cluster_is_recognized_and_reported() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, "karpenter-1", labels=FrozenDict({"app.kubernetes.io/name": "karpenter"}))
    cache = a_cache(env)

    assert find_autoscaler(cache) == "karpenter"
    assert "karpenter" in find_notices(cache, autoscaler="karpenter")


def test_nodeclaims_of_dovetail_are_recognized_beside_a_pod_of_karpenter() -> None:
    env = an_environment()
    add_node(env, claim={"annotations": FrozenDict({"dovetail.sh/launch-request": "x"})})
    add_pod(env, "karpenter-1", labels=FrozenDict({"app.kubernetes.io/name": "karpenter"}))

    assert find_autoscaler(a_cache(env)) == "dovetail"


def test_unchanged_cluster_gives_an_empty_patch_later() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env)
    builder = ViewBuilder(a_cache(env))
    types = {"default": DEFAULT_TYPES}
    first = builder.build(ViewInputs(now=NOW, types=types))

    second = builder.build(ViewInputs(now=NOW + timedelta(minutes=5), types=types))

    assert diff(first, second).is_empty


def a_large_cluster(nodes: int, pods: int) -> ClusterCache:
    env = an_environment()
    for number in range(nodes):
        add_node(env, f"node-{number}")
        for index in range(pods):
            add_pod(env, f"web-abc-{number}-{index}", node_name=f"node-{number}")
    return a_cache(env)


def test_update_after_one_change_builds_only_that_node() -> None:
    """2,000 nodes take 20 ms after a change; here the same objects prove it, whatever the computer."""
    cache = a_large_cluster(200, 10)
    builder = ViewBuilder(cache)
    inputs = ViewInputs(now=NOW, types={"default": DEFAULT_TYPES})
    began = process_time()
    first = builder.build(inputs)
    full = process_time() - began
    pod = {
        "metadata": {"name": "web-abc-7-3", "namespace": "default", "uid": "u", "resourceVersion": "9"},
        "spec": {"nodeName": "node-7", "containers": []},
    }
    cache.apply_event(kinds.PODS, pod)

    began = process_time()
    second = builder.build(inputs)

    assert process_time() - began < full
    changed = [key for key in second.nodes if second.nodes[key] is not first.nodes[key]]
    assert changed == ["claim-node-7"]
    patch = diff(first, second)
    assert list(patch.collections["nodes"].set) == ["claim-node-7"]
    assert len(msgspec.json.encode(patch)) < 4000


def test_new_keep_reasons_leave_the_pods_of_a_node_as_they_are() -> None:
    cache = a_large_cluster(3, 2)
    builder = ViewBuilder(cache)
    inputs = ViewInputs(now=NOW, types={"default": DEFAULT_TYPES})
    first = builder.build(inputs)
    reasons = tuple(
        KeepReason(node=f"node-{number}", price=0.5, code="budget", message="no disruption now")
        for number in range(3)
    )
    explained = msgspec.structs.replace(inputs, explanations=Explanations(keep_reasons=reasons, at=NOW))

    second = builder.build(explained)

    assert second == ViewBuilder(cache).build(explained)
    assert {node.keep.code for node in second.nodes.values() if node.keep is not None} == {"budget"}
    assert all(second.nodes[key].workloads is first.nodes[key].workloads for key in first.nodes)


def test_prepared_nodes_are_not_built_again_and_a_change_in_between_is_seen() -> None:
    cache = a_large_cluster(4, 2)
    builder = ViewBuilder(cache)
    inputs = ViewInputs(now=NOW, types={"default": DEFAULT_TYPES})
    steps = builder.prepare(inputs)
    next(steps)
    cache.delete(kinds.NODES, {"metadata": {"name": "node-3"}})
    cache.delete(kinds.NODE_CLAIMS, {"metadata": {"name": "claim-node-3"}})
    for _ in steps:
        pass

    view = builder.build(inputs)

    assert view == ViewBuilder(cache).build(inputs)
    assert "claim-node-3" not in view.nodes
    assert list(builder.prepare(inputs)) == []


def test_pod_without_requests_is_shown_with_zero() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, spec=PodSpec())

    (workload,) = only_node(env).workloads
    assert (workload.cpu, workload.pods[0].cpu) == (0, 0)
