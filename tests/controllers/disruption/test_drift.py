"""Drifted nodes are replaced: DR1–DR21, CA4, CA5, CA7, BU20, QU14."""

from datetime import timedelta

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.conditions import FALSE, Condition
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.environment import condition
from tests.support.controllers.running_nodes import add_pdb, add_running_node

PROTECTED = {label_keys.DO_NOT_DISRUPT: "true"}


def an_environment(**pool: object) -> DisruptionEnvironment:
    """Return an environment whose NodePool is never consolidated."""
    env = DisruptionEnvironment()
    env.add_pool(**{"after": None, **pool})  # type: ignore[arg-type]
    return env


def add_drifted_node(
    env: DisruptionEnvironment, node: str = "node", *, minutes_ago: float = 5, **more: object
) -> None:
    since = env.now - timedelta(minutes=minutes_ago)
    env.add_node(node, drifted=since, **more)


def set_ready(env: DisruptionEnvironment, status: str) -> None:
    """Set the condition Ready of the NodePool."""
    ready = {"type": "Ready", "status": status, "reason": "Ready"}
    env.patch(NODE_POOLS, "default", {"status": {"conditions": [ready]}}, subresource="status")


def test_replacement_is_ready_before_a_drifted_node_with_pods_is_deleted() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")

    env.start()
    (new,) = env.replacements()
    before = env.disrupted_nodes(), env.deleting_claims()
    env.make_ready(new)

    assert before == (["node"], [])
    assert env.deleting_claims() == ["claim"]
    assert condition(env.claim().conditions, "DisruptionReason") == ("True", "Drifted")


@pytest.mark.parametrize("status", ["absent", FALSE])
def test_node_that_has_not_drifted_is_kept(status: str) -> None:
    env = an_environment()
    conditions = {} if status == "absent" else {"Drifted": Condition(status=status, reason="No")}
    add_running_node(env, conditions=conditions)
    env.add_app_pod("web")

    env.start().wait(60)

    assert (env.disrupted_nodes(), env.replacements()) == ([], [])


@pytest.mark.parametrize(("value", "is_kept"), [("true", True), ("false", False)])
def test_do_not_disrupt_annotation_of_a_node_protects_it_if_true(value: str, is_kept: bool) -> None:
    env = an_environment()
    add_drifted_node(env, annotations={label_keys.DO_NOT_DISRUPT: value})

    env.start()

    assert (env.deleting_claims() == []) is is_kept


def test_do_not_disrupt_pod_keeps_its_node() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_app_pod("web", annotations=PROTECTED)

    env.start().wait(60)

    assert env.disrupted_nodes() == []
    assert "DisruptionBlocked" in env.events.reasons("node")


def test_with_termination_grace_period_a_do_not_disrupt_pod_gets_no_replacement_and_keeps_no_node() -> None:
    env = an_environment()
    add_drifted_node(env, termination_grace_period=timedelta(hours=1))
    env.add_app_pod("web", cpu="3", annotations=PROTECTED)

    env.start()

    assert env.deleting_claims() == ["claim"]
    assert env.replacements() == []


def test_with_termination_grace_period_a_blocking_pdb_keeps_no_node() -> None:
    env = an_environment()
    add_drifted_node(env, termination_grace_period=timedelta(hours=1))
    env.add_app_pod("web", cpu="3", labels={"app": "web"})
    add_pdb(env, app="web", minAvailable="100%")

    env.start()

    assert env.deleting_claims() == ["claim"]
    assert env.replacements() == []


def test_drifted_node_is_replaced_when_do_not_disrupt_duration_ends() -> None:
    env = an_environment()
    add_drifted_node(env)
    for name, span in (("short", "1m"), ("long", "5m"), ("wrong", "soon")):
        env.add_app_pod(name, annotations={label_keys.DO_NOT_DISRUPT: span})

    env.start().wait(290)
    before = env.disrupted_nodes()
    env.wait(20)

    assert before == []
    assert env.disrupted_nodes() == ["node"]


def test_drifted_node_whose_pods_fit_elsewhere_needs_no_replacement() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_node("node-other")
    env.add_app_pod("web")

    env.start()

    assert env.deleting_claims() == ["claim"]
    assert env.replacements() == []


def test_pods_are_not_moved_to_another_drifted_node() -> None:
    env = an_environment(budgets=(Budget(nodes="1"),))
    add_drifted_node(env, "node-a", minutes_ago=9)
    add_drifted_node(env, "node-b")
    env.add_app_pod("web-a", "node-a")
    env.add_app_pod("web-b", "node-b")

    env.start()

    assert len(env.replacements()) == 1


def test_drifted_node_does_not_wait_for_a_node_that_is_starting() -> None:
    env = an_environment(budgets=(Budget(nodes="100%"),))
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")
    env.start()
    add_drifted_node(env, "second", claim="second", minutes_ago=1)
    env.add_app_pod("small", node="second", cpu="100m")

    env.wait(60)

    assert sorted(env.disrupted_nodes()) == ["node", "second"]
    assert len(env.replacements()) == 2


def test_two_drifted_nodes_of_one_decision_use_different_nodes() -> None:
    env = an_environment(budgets=(Budget(nodes="100%"),))
    env.add_node("free", claim="free")
    for name in ("first", "second"):
        add_drifted_node(env, name, claim=name)
        env.add_app_pod(f"web-{name}", node=name, cpu="100m")

    env.start()

    assert sorted(env.disrupted_nodes()) == ["first", "second"]
    assert len(env.replacements()) == 1


def test_drifted_node_may_need_several_replacements() -> None:
    env = an_environment()
    add_drifted_node(env)
    for name in ("one", "two", "three"):
        env.add_app_pod(name, cpu="5")

    env.start()

    assert len(env.replacements()) == 3
    assert env.disrupted_nodes() == ["node"]


def test_empty_nodes_are_disrupted_first_then_the_earliest_drifted() -> None:
    env = an_environment(budgets=(Budget(nodes="1"),))
    add_drifted_node(env, "node-early", minutes_ago=30)
    add_drifted_node(env, "node-late", minutes_ago=10)
    add_drifted_node(env, "node-empty", minutes_ago=1)
    env.add_app_pod("web-a", "node-early", cpu="3")
    env.add_app_pod("web-b", "node-late", cpu="3")

    env.start()
    first = env.disrupted_nodes()
    for resource, name in ((NODE_CLAIMS, "claim-empty"), (NODES, "node-empty")):
        env.patch(resource, name, {"metadata": {"finalizers": None}})
    env.delete(NODES, "node-empty")
    env.wait(1)

    assert first == ["node-empty"]
    assert env.disrupted_nodes() == ["node-early"]


def test_node_with_unschedulable_pods_does_not_block_others() -> None:
    env = an_environment()
    add_drifted_node(env, "node-huge", minutes_ago=30)
    add_drifted_node(env, "node-plain")
    env.add_app_pod("huge", "node-huge", cpu="100")
    env.add_app_pod("plain", "node-plain", cpu="3")

    env.start()

    assert env.disrupted_nodes() == ["node-plain"]
    assert "DisruptionBlocked" in env.events.reasons("node-huge")
    reason = env.keep_reasons.get("node-huge")
    assert reason is not None
    assert reason.code == "no-place"


@pytest.mark.parametrize(("nodes", "started"), [("30%", 3), ("100%", 10), ("0", 0)])
def test_budget_limits_concurrent_replacements(nodes: str, started: int) -> None:
    env = an_environment(budgets=(Budget(nodes=nodes),))
    for number in range(10):
        add_drifted_node(env, f"node-{number}")
        env.add_app_pod(f"web-{number}", f"node-{number}", cpu="3")

    env.start().wait(60)

    assert len(env.disrupted_nodes()) == len(env.replacements()) == started
    assert ("DisruptionBlocked" in env.events.reasons("default")) is (started < 10)


def test_each_nodepool_has_its_own_budget() -> None:
    env = an_environment(budgets=(Budget(nodes="1"),))
    env.add_pool("other", after=None, budgets=(Budget(nodes="2"),))
    for number in range(3):
        for pool in ("default", "other"):
            name = f"node-{pool}{number}"
            add_drifted_node(env, name, pool=pool)
            env.add_app_pod(f"web-{pool}{number}", name, cpu="3")

    env.start().wait(60)

    assert [sum(pool in node for node in env.disrupted_nodes()) for pool in ("default", "other")] == [1, 2]


def test_exhausted_pdb_keeps_its_node() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_app_pod("web", labels={"app": "web"})
    add_pdb(env, app="web", maxUnavailable=1)

    env.start().wait(60)

    assert env.disrupted_nodes() == []


def test_nodepool_with_failed_replacements_has_a_growing_backoff() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")
    env.start()

    delays = []
    for _ in range(3):
        started_at = env.now
        while not env.replacements():
            env.wait(5)
        delays.append((env.now - started_at).total_seconds())
        env.delete(NODE_CLAIMS, env.replacements()[0])

    assert delays[0] == 0
    assert delays[1] == pytest.approx(60, abs=15)
    assert delays[2] == pytest.approx(120, abs=15)


def test_backoff_of_a_nodepool_does_not_block_another() -> None:
    env = an_environment()
    env.add_pool("other", after=None)
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")
    env.start()
    env.delete(NODE_CLAIMS, env.replacements()[0])

    add_drifted_node(env, "node-other", pool="other")
    env.add_app_pod("other", "node-other", cpu="3")
    env.wait(15)

    assert env.disrupted_nodes() == ["node-other"]


def test_decisions_are_counted_by_type_and_reason() -> None:
    env = an_environment()
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")

    env.start()
    env.make_ready(env.replacements()[0])

    labels = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}
    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert env.metrics.values[decisions] == [(1, labels)]
    disrupted = "karpenter_nodeclaims_disrupted_total"
    assert env.metrics.total(disrupted, reason="drifted") == 1


def test_drifted_node_is_replaced_when_the_budget_is_raised() -> None:
    env = an_environment(budgets=(Budget(nodes="0"),))
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")
    env.start().wait(600)
    before = env.disrupted_nodes()

    open_again = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    env.patch(NODE_POOLS, "default", open_again)

    assert before == []
    assert env.disrupted_nodes() == ["node"]


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_drifted_node_is_replaced_when_its_nodepool_is_ready_again(status: str) -> None:
    """The readiness of a NodePool is unknown after each change of its spec."""
    env = an_environment()
    set_ready(env, status)
    add_drifted_node(env)
    env.add_app_pod("web", cpu="3")
    env.start().wait(60)
    before = env.disrupted_nodes()

    set_ready(env, "True")
    env.wait(30)

    assert before == []
    assert env.disrupted_nodes() == ["node"]


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment(budgets=(Budget(nodes="1"),))
    for name in ("node-a", "node-b"):
        add_drifted_node(env, name)
        env.add_app_pod(f"web-{name}", name, cpu="3")
    env.start()
    before = env.versions()

    env.manager.enqueue("disruption", "")
    env.wait(0)

    assert env.versions() == before
