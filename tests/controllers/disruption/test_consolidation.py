"""Consolidation: nodes are deleted or replaced to save costs.

CS1, CS2, CS15, CS29, CS43, VA1, VA3, VA4, VA6, VA7, MN3, MN5, MN6, BL13, BL14, QU14.
"""

import pytest

from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue
from dovetail.controllers.nodeclaim import consolidatable
from dovetail.core.disruption.consolidation.fleet_replacement import MIN_NODE_AGE
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy
from dovetail.model.settings import ConsolidationSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.running_nodes import (
    add_owner,
    add_pdb,
    add_running_node,
    provider_id_of,
    stop_pod,
)

BALANCED = {"policy": ConsolidationPolicy.BALANCED}


def an_environment(*nodes: str, cpu: str = "1", **pool: object) -> DisruptionEnvironment:
    """Return an environment of nodes with 4 CPU, each with one small pod."""
    env = DisruptionEnvironment()
    env.add_pool(**pool)  # type: ignore[arg-type]
    for node in nodes:
        env.add_node(node)
        env.add_app_pod(f"web-{node}", node, cpu=cpu)
    return env.wait(60)  # type: ignore[return-value]


def test_node_whose_pods_fit_on_another_is_deleted_after_fifteen_seconds() -> None:
    env = an_environment("node-a", "node-b").start()

    env.wait(14.9)
    before = env.disrupted_nodes()
    env.wait(0.1)

    assert before == []
    assert len(env.deleting_claims()) == 1
    assert env.replacements() == []


def test_oversized_node_is_replaced_by_a_cheaper_one() -> None:
    env = an_environment("node").start().wait(15)

    (new,) = env.replacements()
    types = [
        requirement.values
        for requirement in env.claim(new).requirements
        if requirement.key == label_keys.INSTANCE_TYPE
    ]
    assert types == [("m5.large",)]
    assert env.deleting_claims() == []
    env.make_ready(new)
    assert env.deleting_claims() == ["claim"]


def test_proposed_command_is_published_with_its_savings() -> None:
    env = an_environment("node").start()

    assert env.events.reasons("node") == ["ConsolidationCandidate"]
    assert env.events.reasons("claim") == ["ConsolidationCandidate"]


def test_pod_bound_before_validation_keeps_the_node() -> None:
    env = an_environment("node").start().wait(10)

    env.add_app_pod("late", "node", cpu="3")
    env.wait(10)

    assert (env.disrupted_nodes(), env.replacements()) == ([], [])
    assert "ConsolidationRejected" in env.events.reasons("node")


def test_do_not_disrupt_pod_bound_before_validation_keeps_the_node() -> None:
    env = an_environment("node").start().wait(10)

    env.add_app_pod("late", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "true"})
    env.wait(10)

    assert env.disrupted_nodes() == []
    failed = "karpenter_voluntary_disruption_failed_validations_total"
    assert env.metrics.total(failed, consolidation_type="single") == 1


def test_budget_that_becomes_zero_before_validation_keeps_the_node() -> None:
    env = an_environment("node").start().wait(10)

    closed = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
    env.patch(NODE_POOLS, "default", closed)
    env.wait(60)

    assert env.disrupted_nodes() == []


def test_nomination_before_validation_keeps_the_node() -> None:
    env = an_environment("node").start().wait(10)

    env.nominations.nominate(provider_id_of("node"), env.now)
    env.wait(5)

    assert env.disrupted_nodes() == []


@pytest.mark.parametrize(("nodes", "count"), [("0", 0), ("1", 1), ("100%", 3)])
def test_budget_limits_consolidated_nodes(nodes: str, count: int) -> None:
    names = [f"node-{number}" for number in range(4)]
    env = an_environment(*names, budgets=(Budget(nodes=nodes),)).start().wait(16)

    assert len(env.deleting_claims()) == count


def test_nodes_over_budget_are_consolidated_when_the_budget_allows_it() -> None:
    env = an_environment("node-a", "node-b", budgets=(Budget(nodes="0"),)).start().wait(120)
    before = env.disrupted_nodes()

    opened = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    env.patch(NODE_POOLS, "default", opened)
    env.wait(15)

    assert before == []
    assert len(env.deleting_claims()) == 1


@pytest.mark.parametrize(("rules", "after"), [({"policy": ConsolidationPolicy.WHEN_EMPTY}, 0), ({}, None)])
def test_nodepool_can_disable_consolidation_and_its_nodes_get_an_event(
    rules: dict[str, object], after: float | None
) -> None:
    env = an_environment("node", rules=rules, after=after).start().wait(60)

    assert env.disrupted_nodes() == []
    assert env.events.reasons("node") == ["Unconsolidatable"]
    reason = env.keep_reasons.get("node")
    assert reason is not None
    assert reason.code == "setting"


@pytest.mark.parametrize("label", [label_keys.INSTANCE_TYPE, label_keys.ZONE, label_keys.CAPACITY_TYPE])
def test_node_of_unknown_instance_type_or_zone_is_kept_with_an_event(label: str) -> None:
    env = DisruptionEnvironment()
    env.add_pool()
    env.add_node("node", labels={label: ""})
    env.add_app_pod("web")

    env.start().wait(60)

    assert env.disrupted_nodes() == []
    assert "Unconsolidatable" in env.events.reasons("node")


def test_empty_node_is_left_to_emptiness() -> None:
    env = an_environment("node-a")
    env.add_node("node-empty")

    env.start().wait(60)

    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert "claim-empty" in env.deleting_claims()
    assert env.metrics.total(decisions, reason="empty") == 1
    assert "Unconsolidatable" not in env.events.reasons("node-empty")


def test_pdb_keeps_only_the_nodes_of_its_pods() -> None:
    env = an_environment("node-a", "node-b", "node-c")
    owner = add_owner(env, "ReplicaSet", "db")
    env.add_app_pod("db", "node-a", cpu="0", owner=owner, labels={"app": "db"})
    add_pdb(env, app="db", maxUnavailable=1)

    env.start().wait(16)

    assert env.deleting_claims() == ["claim-b", "claim-c"]


def test_node_within_consolidate_after_receives_no_pods() -> None:
    env = an_environment("node-a", after=40)
    add_running_node(env, "node-b")
    env.add_app_pod("big", "node-b", cpu="3")
    event = {"status": {"lastPodEventTime": f"{env.now:%Y-%m-%dT%H:%M:%SZ}"}}
    env.patch(NODE_CLAIMS, "claim-b", event, subresource="status")

    settings = ConsolidationSettings(min_saving=0.15)
    env.run(
        disruption.controller, queue.controller, consolidatable.controller, consolidation_settings=settings
    )
    env.wait(39)
    before = env.deleting_claims()
    env.wait(120)

    assert before == []
    assert env.deleting_claims() == ["claim-a"]


def test_unchanged_cluster_is_not_scanned_again() -> None:
    env = an_environment("node", cpu="3").start().wait(30)
    scans = env.executor.passes

    env.wait(240)

    assert scans >= 1
    assert env.executor.passes == scans


def test_scan_after_five_minutes_evaluates_nothing_if_nothing_changed() -> None:
    env = an_environment("node-a", "node-b", cpu="3").start()
    evaluated = env.executor.passes

    env.wait(3600)

    assert env.executor.passes == evaluated
    assert env.deleting_claims() == []


def test_node_that_becomes_old_enough_is_evaluated_without_another_change() -> None:
    env = an_environment("node-a", "node-b", cpu="3").start()
    evaluated = env.executor.passes

    env.wait(MIN_NODE_AGE.total_seconds())

    assert env.executor.passes == evaluated + 1


def test_protection_of_a_pod_that_ends_is_evaluated_without_another_change() -> None:
    env = an_environment("node-a", "node-b", cpu="3")
    env.add_node("node-c")
    protection = {label_keys.DO_NOT_DISRUPT: "30m"}
    env.add_app_pod("protected", "node-c", cpu="3", annotations=protection)
    env.start().wait(60)
    evaluated = env.executor.passes

    env.wait(3600)

    assert env.executor.passes > evaluated


def test_changes_are_scanned_once_per_scan_interval() -> None:
    env = an_environment("node-a", "node-b", cpu="3").start().wait(30)
    scans = env.executor.passes

    for number in range(60):
        env.add_app_pod(f"brief-{number}", "node-a", cpu="0")
        stop_pod(env, f"brief-{number}")
        env.wait(1)

    assert env.executor.passes - scans <= 4


def test_savings_below_the_configured_minimum_keep_the_node() -> None:
    env = an_environment("node")

    env.run(
        disruption.controller, queue.controller, consolidation_settings=ConsolidationSettings(min_saving=1.0)
    )
    env.wait(60)

    assert env.disrupted_nodes() == []
    reason = env.keep_reasons.get("node")
    assert reason is not None
    assert (reason.code, reason.price) == ("below-threshold", pytest.approx(0.2))


def test_balanced_nodepool_publishes_approval() -> None:
    env = an_environment("node-a", "node-b", rules=BALANCED).start()

    approved = [name for name in ("node-a", "node-b") if "ConsolidationApproved" in env.events.reasons(name)]
    assert len(approved) == 1


def test_balanced_nodepool_without_budget_keeps_its_nodes_without_approval() -> None:
    env = an_environment("node-a", "node-b", rules=BALANCED, budgets=(Budget(nodes="0"),)).start().wait(60)

    assert env.disrupted_nodes() == []
    assert "ConsolidationApproved" not in env.events.reasons("node-a")


def test_nodes_of_a_static_nodepool_are_not_consolidated() -> None:
    env = an_environment("node-a", "node-b", replicas=2).start().wait(60)

    assert env.disrupted_nodes() == []


def test_decisions_are_counted_by_type_and_reason() -> None:
    env = an_environment("node").start().wait(15)

    labels = {"decision": "replace", "reason": "underutilized", "consolidation_type": "single"}
    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert env.metrics.values[decisions] == [(1, labels)]


def test_failed_replacement_is_retried_after_a_backoff() -> None:
    env = an_environment("node").start().wait(15)

    env.delete(NODE_CLAIMS, env.replacements()[0])
    after_failure = env.disrupted_nodes()
    env.wait(59)
    before = env.replacements()
    env.wait(60)

    assert after_failure == before == []
    assert len(env.replacements()) == 1


def test_pod_bound_while_the_node_is_tainted_keeps_the_node() -> None:
    env = an_environment("node").start().wait(14)

    def bind_late() -> None:
        env.executor.meanwhile = lambda: None
        env.add_app_pod("late", "node", cpu="0")

    env.executor.meanwhile = bind_late
    env.wait(2)

    assert (env.disrupted_nodes(), env.replacements()) == ([], [])


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment("node-a", "node-b").start().wait(20)
    before = env.versions()

    env.manager.enqueue("disruption", "")
    env.wait(0)

    assert env.versions() == before


def test_node_is_kept_if_the_target_of_its_pods_is_gone() -> None:
    env = an_environment("node-a", "node-b", rules={}).start()
    (selected,) = [name for name in ("a", "b") if env.events.reasons(f"node-{name}")]
    other = {"a": "b", "b": "a"}[selected]

    env.delete(NODE_CLAIMS, f"claim-{other}")
    env.wait(16)

    assert f"claim-{selected}" not in env.deleting_claims()


def test_keep_reason_has_the_price_and_is_removed_with_the_node() -> None:
    env = an_environment("node", rules={"policy": ConsolidationPolicy.WHEN_EMPTY}).start()
    before = env.keep_reasons.get("node")

    env.patch(NODES, "node", {"metadata": {"finalizers": None}})
    env.delete(NODES, "node")

    assert before is not None
    assert before.price == pytest.approx(0.2)
    assert env.keep_reasons.get("node") is None
