"""Emptiness: empty nodes are deleted.

EM1, EM2, EM3, EM4, EM5, EM6, EM7, EM8, EM9, EM10, EM11, EM12, EM13, EM19, EM20, BU20,
CA1, CA3, CA9, CA10, CA11, CA13, CA16, CA18, QU7, QU10, QU11, QU14.
EM9 and EM19 differ on purpose: see docs/decisions/0006.
"""

from datetime import timedelta
from typing import Any, cast

import pytest

from dovetail.controllers.disruption import controller as disruption
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import Conflict, Timeout
from dovetail.state.cluster.write_through import WriteThroughClient
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.controllers.running_nodes import (
    add_owner,
    add_pdb,
    add_pod,
    add_running_node,
    in_seconds,
    provider_id_of,
    stop_pod,
)
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import DEFAULT_TYPES

ANY_NUMBER = (Budget(nodes="100%"),)
CONSOLIDATABLE = {"Consolidatable": Condition(status=TRUE, reason="Consolidatable", observed_generation=1)}
DO_NOT_DISRUPT = {label_keys.DO_NOT_DISRUPT: "true"}


def an_environment(
    *, nodes: int = 1, after: float | None = 0, budgets: tuple[Budget, ...] = ANY_NUMBER, **node_fields: Any
) -> ControllerEnvironment:
    """Return an environment with consolidatable nodes; only empty nodes are deleted."""
    env = ControllerEnvironment()
    env.cloud.types = DEFAULT_TYPES
    rules = {"policy": ConsolidationPolicy.WHEN_EMPTY}
    a_pool(env, after=after, budgets=budgets, rules=rules)
    for number in range(nodes):
        name = "node" if nodes == 1 else f"node-{number}"
        add_running_node(env, name, **{"conditions": CONSOLIDATABLE, **node_fields})
    return env


def a_pool(
    env: ControllerEnvironment,
    name: str = "default",
    *,
    after: float | None = 0,
    budgets: tuple[Budget, ...] = ANY_NUMBER,
    **fields: Any,
) -> None:
    consolidate_after = None if after is None else timedelta(seconds=after)
    rules = Disruption(consolidate_after=consolidate_after, budgets=budgets, **fields.pop("rules", {}))
    env.add(NODE_POOLS, manifests.pool(name, disruption=rules, **fields))


def deleting_claims(env: ControllerEnvironment) -> list[str]:
    """Return the names of NodeClaims that are being deleted."""
    return sorted(claim.name for claim in env.cache.claims() if claim.deleting)


def run(env: ControllerEnvironment, seconds: float = 15) -> ControllerEnvironment:
    return env.run(disruption.controller).wait(seconds)


def test_empty_node_is_tainted_and_its_nodeclaim_deleted() -> None:
    env = run(an_environment())

    assert deleting_claims(env) == ["claim"]
    assert DISRUPTED_TAINT in env.node().taints
    assert condition(env.claim().conditions, "DisruptionReason") == ("True", "Empty")
    assert env.events.reasons("node") == ["DisruptionTerminating"]
    assert env.events.reasons("claim") == ["DisruptionTerminating"]


def test_one_command_deletes_several_empty_nodes() -> None:
    env = run(an_environment(nodes=3))

    assert len(deleting_claims(env)) == 3
    (command,) = env.log.entries("disrupting node(s)")
    assert command["disrupted_node_count"] == 3


@pytest.mark.parametrize(
    "conditions",
    [{}, {"Consolidatable": Condition(status=FALSE, reason="Consolidatable", observed_generation=1)}],
)
def test_node_that_is_not_consolidatable_is_kept(conditions: dict[str, Condition]) -> None:
    env = run(an_environment(conditions=conditions), 600)

    assert deleting_claims(env) == []


def test_empty_node_is_deleted_when_it_becomes_consolidatable() -> None:
    env = run(an_environment(conditions={}), 600)

    conditions = env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    conditions.append({"type": "Consolidatable", "status": "True", "reason": "Consolidatable"})
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": conditions}}, subresource="status")

    assert deleting_claims(env) == ["claim"]


@pytest.mark.parametrize(("after", "empty_for"), [(0, 15), (10, 15), (30, 30)])
def test_node_must_be_empty_for_fifteen_seconds_or_consolidate_after(after: float, empty_for: float) -> None:
    env = run(an_environment(after=after), empty_for - 0.1)
    before = deleting_claims(env)

    env.wait(0.1)

    assert before == []
    assert deleting_claims(env) == ["claim"]


def test_time_counts_from_the_last_pod_event() -> None:
    env = an_environment(after=30).wait(100)
    event = {"status": {"lastPodEventTime": in_seconds(env, 0)}}
    env.patch(NODE_CLAIMS, "claim", event, subresource="status")

    run(env, 29.9)
    before = deleting_claims(env)
    env.wait(0.1)

    assert before == []
    assert deleting_claims(env) == ["claim"]


def test_time_counts_from_a_pod_event_that_is_not_recorded_on_the_nodeclaim() -> None:
    env = an_environment(after=30)
    for name in ("first", "second"):
        add_pod(env, name)
    event = {"status": {"lastPodEventTime": in_seconds(env, 0)}}
    env.patch(NODE_CLAIMS, "claim", event, subresource="status")
    run(env, 0)

    stop_pod(env, "first")
    env.wait(8)
    stop_pod(env, "second")
    env.wait(29.9)
    before = deleting_claims(env)
    env.wait(0.1)

    assert before == []
    assert deleting_claims(env) == ["claim"]


def test_idle_cluster_is_not_scanned() -> None:
    env = run(an_environment(after=3600), 0)
    eligible = env.metrics.values["karpenter_voluntary_disruption_eligible_nodes"]
    metrics = len(env.metrics.values)
    add_pod(env)

    env.wait(600)

    assert env.metrics.values["karpenter_voluntary_disruption_eligible_nodes"] == eligible
    assert len(env.metrics.values) == metrics
    assert deleting_claims(env) == []


@pytest.mark.parametrize(("value", "is_kept"), [("true", True), ("false", False), ("1h", False)])
def test_do_not_disrupt_annotation_of_a_node_protects_it_if_true(value: str, is_kept: bool) -> None:
    env = run(an_environment(annotations={label_keys.DO_NOT_DISRUPT: value}))

    assert (deleting_claims(env) == []) is is_kept
    assert ("DisruptionBlocked" in env.events.reasons("node")) is is_kept


def test_node_with_a_pod_is_kept() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "ReplicaSet"))

    run(env, 600)

    assert deleting_claims(env) == []


def test_node_is_deleted_some_time_after_its_last_pod() -> None:
    env = an_environment()
    add_pod(env)
    run(env, 60)

    stop_pod(env)
    env.wait(14.9)
    before = deleting_claims(env)
    env.wait(0.1)

    assert before == []
    assert deleting_claims(env) == ["claim"]


def test_node_with_pods_of_negative_deletion_cost_counts_as_empty() -> None:
    env = an_environment()
    add_pod(env, annotations={label_keys.POD_DELETION_COST: str(-(2**31) + 1)})

    run(env)

    assert deleting_claims(env) == ["claim"]


def test_node_with_daemonset_pods_only_is_empty() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "DaemonSet", "agents"))

    run(env)

    assert deleting_claims(env) == ["claim"]


def test_terminating_deployment_pods_do_not_keep_a_node() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "ReplicaSet"), grace=3600)
    env.api.delete(PODS, "pod", "default")

    run(env)

    assert deleting_claims(env) == ["claim"]


def test_terminating_statefulset_pod_keeps_its_node_until_it_is_gone() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "StatefulSet"), grace=3600)
    env.api.delete(PODS, "pod", "default")

    run(env, 60)
    before = deleting_claims(env)
    stop_pod(env)
    env.wait(15)

    assert before == []
    assert deleting_claims(env) == ["claim"]


@pytest.mark.parametrize(("nodes", "count"), [("100%", 10), ("0%", 0), ("0", 0), ("30%", 3)])
def test_budget_limits_deleted_nodes(nodes: str, count: int) -> None:
    env = run(an_environment(nodes=10, budgets=(Budget(nodes=nodes),)))

    assert len(deleting_claims(env)) == count


def test_each_nodepool_has_its_own_budget() -> None:
    env = an_environment(nodes=3, budgets=(Budget(nodes="1"),))
    a_pool(env, "other", budgets=(Budget(nodes="2"),))
    for number in range(3):
        add_running_node(env, f"node-o{number}", pool="other", conditions=CONSOLIDATABLE)

    run(env)

    assert len([name for name in deleting_claims(env) if "-o" in name]) == 2
    assert len(deleting_claims(env)) == 3


def test_nodes_over_budget_follow_when_earlier_ones_are_gone() -> None:
    env = run(an_environment(nodes=3, budgets=(Budget(nodes="1"),)))
    (first,) = deleting_claims(env)

    env.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": None}})
    for node in [node for node in env.cache.nodes() if node.name[-1] == first[-1]]:
        env.patch(NODES, node.name, {"metadata": {"finalizers": None}})
        env.delete(NODES, node.name)

    assert len(deleting_claims(env)) == 1
    assert deleting_claims(env) != [first]


def test_exhausted_budget_is_published_and_a_larger_one_deletes_the_nodes() -> None:
    env = run(an_environment(nodes=2, budgets=(Budget(nodes="0"),)))
    events, before = env.events.reasons("default"), deleting_claims(env)

    open_again = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    env.patch(NODE_POOLS, "default", open_again)

    assert events[0] == "DisruptionBlocked"
    assert before == []
    assert len(deleting_claims(env)) == 2


def test_scheduled_budget_takes_effect_without_watch_event() -> None:
    nightly = Budget(nodes="0", schedule="0 9 * * *", duration=timedelta(minutes=10))
    env = run(an_environment(budgets=(nightly,)), 599)
    before = deleting_claims(env)

    env.wait(11)

    assert before == []
    assert deleting_claims(env) == ["claim"]


def test_invalid_budget_allows_no_disruption_of_its_nodepool() -> None:
    env = an_environment(budgets=(Budget(nodes="2"),))
    broken = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
    env.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [broken]}}})

    run(env)

    assert deleting_claims(env) == []
    assert env.log.entries("invalid disruption budget")[0]["nodepool"] == "default"


def test_eligible_nodes_are_measured() -> None:
    env = run(an_environment(nodes=2, budgets=(Budget(nodes="0"),)))

    name = "karpenter_voluntary_disruption_eligible_nodes"
    assert env.metrics.total(name, reason="empty") == 2
    labels = {"nodepool": "default", "reason": "Empty"}
    assert env.metrics.total("karpenter_nodepools_allowed_disruptions", **labels) == 0


def test_decisions_are_measured() -> None:
    env = run(an_environment(termination_grace_period=timedelta(minutes=5)))

    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert env.metrics.values[decisions] == [
        (1, {"decision": "delete", "reason": "empty", "consolidation_type": "empty"})
    ]
    disrupted = "karpenter_nodeclaims_disrupted_total"
    assert env.metrics.total(disrupted, reason="empty", termination_mode="eventual") == 1


def test_nodes_of_a_static_nodepool_are_kept() -> None:
    env = an_environment(pool="fixed")
    a_pool(env, "fixed", replicas=1)

    run(env, 600)

    assert deleting_claims(env) == []


def test_nodes_with_consolidate_after_never_are_kept_with_an_event() -> None:
    env = run(an_environment(after=None), 600)

    assert deleting_claims(env) == []
    assert "Unconsolidatable" in env.events.reasons("node")


@pytest.mark.parametrize("policy", list(ConsolidationPolicy))
def test_every_consolidation_policy_deletes_empty_nodes(policy: ConsolidationPolicy) -> None:
    env = ControllerEnvironment()
    env.cloud.types = DEFAULT_TYPES
    a_pool(env, rules={"policy": policy})
    add_running_node(env, conditions=CONSOLIDATABLE)

    run(env)

    assert deleting_claims(env) == ["claim"]


def test_empty_drifted_node_is_deleted_with_reason_empty() -> None:
    drifted = Condition(status=TRUE, reason="NodePoolDrifted", observed_generation=1)
    env = an_environment(conditions={**CONSOLIDATABLE, "Drifted": drifted}).wait(15)

    run(env, 0)

    assert condition(env.claim().conditions, "DisruptionReason") == ("True", "Empty")


def test_nominated_node_is_kept_for_a_while() -> None:
    env = an_environment().run(disruption.controller).wait(10)
    env.nominations.nominate(provider_id_of("node"), env.now)

    env.wait(19)
    before = deleting_claims(env)
    env.wait(11)

    assert before == []
    assert "DisruptionBlocked" in env.events.reasons("claim")
    assert deleting_claims(env) == ["claim"]


def test_do_not_disrupt_daemonset_pod_keeps_its_node() -> None:
    env = an_environment()
    agents = add_owner(env, "DaemonSet", "agents")
    add_pod(env, owner=agents, annotations=DO_NOT_DISRUPT)

    run(env, 60)

    assert deleting_claims(env) == []
    assert "DisruptionBlocked" in env.events.reasons("node")


def test_daemonset_pod_with_a_blocking_pdb_keeps_its_node() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "DaemonSet", "agents"), labels={"app": "agents"})
    add_pdb(env, app="agents", minAvailable="100%")

    run(env, 60)

    assert deleting_claims(env) == []


class BindingClient:
    """A ``KubeClient`` that binds a pod just before the node is tainted."""

    def __init__(self, env: ControllerEnvironment) -> None:
        self._env = env
        self.get, self.delete = env.failing_client.get, env.failing_client.delete

    async def patch(self, resource: Resource, *about: Any, **more: Any) -> Any:
        env = self._env
        if resource is NODES and not env.get(PODS, "late", "default")["spec"].get("nodeName"):
            env.api.bind("late", "default", {"target": {"name": "node"}})
            env.cache.apply_event(PODS, env.api.get(PODS, "late", "default"))
        return await env.failing_client.patch(resource, *about, **more)


def test_pod_bound_while_the_node_is_tainted_keeps_the_node() -> None:
    env = an_environment()
    add_pod(env, "late", node="")
    kube = WriteThroughClient(cast(KubeClient, BindingClient(env)), env.cache)

    env.run(disruption.controller, kube=kube).wait(30)

    assert deleting_claims(env) == []
    assert env.node().taints == ()
    failed = "karpenter_voluntary_disruption_failed_validations_total"
    assert env.metrics.total(failed, consolidation_type="empty") == 1


def test_stale_taints_are_removed_after_a_restart() -> None:
    env = an_environment(after=3600)
    taint = {"key": DISRUPTED_TAINT.key, "effect": "NoSchedule"}
    env.patch(NODES, "node", {"spec": {"taints": [taint]}})
    conditions = env.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    conditions.append({"type": "DisruptionReason", "status": "True", "reason": "Empty"})
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": conditions}}, subresource="status")

    run(env, 0)

    assert env.node().taints == ()
    assert condition(env.claim().conditions, "DisruptionReason") == ("", "")


def test_taint_of_a_deleted_node_is_kept() -> None:
    env = an_environment()
    taint = {"key": DISRUPTED_TAINT.key, "effect": "NoSchedule"}
    env.patch(NODES, "node", {"spec": {"taints": [taint]}})
    env.delete(NODE_CLAIMS, "claim")

    run(env, 60)

    assert DISRUPTED_TAINT in env.node().taints


def test_failed_taint_is_retried() -> None:
    env = an_environment(nodes=2)
    env.failing_client.fail("patch", NODES, Conflict("changed"))

    run(env)

    assert len(deleting_claims(env)) == 2


def test_failed_deletion_is_retried() -> None:
    env = an_environment()
    env.failing_client.fail("delete", NODE_CLAIMS, Timeout("no answer"))

    run(env, 16)

    assert deleting_claims(env) == ["claim"]


@pytest.mark.parametrize("write", [1, 2, 3])
def test_controllers_that_crash_after_any_write_finish_after_a_restart(write: int) -> None:
    env = an_environment()
    env.crash_after(write)

    run(env, 20)
    env.restart()

    assert deleting_claims(env) == ["claim"]
    assert DISRUPTED_TAINT in env.node().taints


def test_second_reconcile_changes_nothing() -> None:
    env = run(an_environment(nodes=3, budgets=(Budget(nodes="1"),)), 20)
    before = env.versions()

    env.manager.enqueue(disruption.NAME, "")
    env.wait(0)

    assert env.versions() == before
