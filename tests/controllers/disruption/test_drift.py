"""Drifted nodes are replaced: DR1–DR21, CA4, CA5, CA7, BU20, QU14."""

from datetime import timedelta

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.conditions import FALSE, Condition
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.fleet import a_budget, a_machine
from tests.support.replaced import Yard
from tests.support.world import condition

PROTECTED = {label_keys.DO_NOT_DISRUPT: "true"}


def a_yard(**pool: object) -> Yard:
    """A pool whose nodes are never consolidated."""
    yard = Yard()
    yard.add_pool(**{"after": None, **pool})  # type: ignore[arg-type]
    return yard


def drifted(yard: Yard, node: str = "node", *, minutes_ago: float = 5, **more: object) -> None:
    since = yard.now - timedelta(minutes=minutes_ago)
    yard.machine(node, drifted=since, **more)


def test_a_drifted_node_with_pods_gets_a_replacement_before_it_goes() -> None:
    yard = a_yard()
    drifted(yard)
    yard.app_pod("web", cpu="3")

    yard.open()
    (new,) = yard.replacements()
    before = yard.marked(), yard.leaving()
    yard.starts(new)

    assert before == (["node"], [])
    assert yard.leaving() == ["claim"]
    assert condition(yard.claim().conditions, "DisruptionReason") == ("True", "Drifted")


@pytest.mark.parametrize("status", ["absent", FALSE])
def test_a_node_that_has_not_drifted_stays(status: str) -> None:
    yard = a_yard()
    known = {} if status == "absent" else {"Drifted": Condition(status=status, reason="No")}
    a_machine(yard, conditions=known)
    yard.app_pod("web")

    yard.open().wait(60)

    assert (yard.marked(), yard.replacements()) == ([], [])


@pytest.mark.parametrize(("value", "stays"), [("true", True), ("false", False)])
def test_a_nodes_annotation_protects_it_if_it_says_true(value: str, stays: bool) -> None:
    yard = a_yard()
    drifted(yard, annotations={label_keys.DO_NOT_DISRUPT: value})

    yard.open()

    assert (yard.leaving() == []) is stays


def test_a_protected_pod_keeps_its_node() -> None:
    yard = a_yard()
    drifted(yard)
    yard.app_pod("web", annotations=PROTECTED)

    yard.open().wait(60)

    assert yard.marked() == []
    assert "DisruptionBlocked" in yard.events.about("node")


def test_with_a_deadline_it_does_not_and_nothing_is_bought_for_the_pod_that_stays() -> None:
    yard = a_yard()
    drifted(yard, termination_grace_period=timedelta(hours=1))
    yard.app_pod("web", cpu="3", annotations=PROTECTED)

    yard.open()

    assert yard.leaving() == ["claim"]
    assert yard.replacements() == []


def test_with_a_deadline_nor_does_a_budget_that_lets_nobody_go() -> None:
    yard = a_yard()
    drifted(yard, termination_grace_period=timedelta(hours=1))
    yard.app_pod("web", cpu="3", labels={"app": "web"})
    a_budget(yard, app="web", minAvailable="100%")

    yard.open()

    assert yard.leaving() == ["claim"]
    assert yard.replacements() == []


def test_protection_for_a_while_ends_and_the_node_goes() -> None:
    yard = a_yard()
    drifted(yard)
    for name, span in (("short", "1m"), ("long", "5m"), ("wrong", "soon")):
        yard.app_pod(name, annotations={label_keys.DO_NOT_DISRUPT: span})

    yard.open().wait(290)
    before = yard.marked()
    yard.wait(20)

    assert before == []
    assert yard.marked() == ["node"]


def test_pods_that_fit_elsewhere_need_no_replacement() -> None:
    yard = a_yard()
    drifted(yard)
    yard.machine("node-other")
    yard.app_pod("web")

    yard.open()

    assert yard.leaving() == ["claim"]
    assert yard.replacements() == []


def test_pods_are_not_moved_to_another_node_that_has_drifted() -> None:
    yard = a_yard(budgets=(Budget(nodes="1"),))
    drifted(yard, "node-a", minutes_ago=9)
    drifted(yard, "node-b")
    yard.app_pod("web-a", "node-a")
    yard.app_pod("web-b", "node-b")

    yard.open()

    assert len(yard.replacements()) == 1


def test_several_replacements_may_be_needed() -> None:
    yard = a_yard()
    drifted(yard)
    for name in ("one", "two", "three"):
        yard.app_pod(name, cpu="5")

    yard.open()

    assert len(yard.replacements()) == 3
    assert yard.marked() == ["node"]


def test_empty_nodes_go_first_then_those_that_drifted_earliest() -> None:
    yard = a_yard(budgets=(Budget(nodes="1"),))
    drifted(yard, "node-early", minutes_ago=30)
    drifted(yard, "node-late", minutes_ago=10)
    drifted(yard, "node-empty", minutes_ago=1)
    yard.app_pod("web-a", "node-early", cpu="3")
    yard.app_pod("web-b", "node-late", cpu="3")

    yard.open()
    first = yard.marked()
    for resource, name in ((NODE_CLAIMS, "claim-empty"), (NODES, "node-empty")):
        yard.patch(resource, name, {"metadata": {"finalizers": None}})
    yard.delete(NODES, "node-empty")
    yard.wait(1)

    assert first == ["node-empty"]
    assert yard.marked() == ["node-early"]


def test_a_node_whose_pods_find_no_place_does_not_hold_up_others() -> None:
    yard = a_yard()
    drifted(yard, "node-huge", minutes_ago=30)
    drifted(yard, "node-plain")
    yard.app_pod("huge", "node-huge", cpu="100")
    yard.app_pod("plain", "node-plain", cpu="3")

    yard.open()

    assert yard.marked() == ["node-plain"]
    assert "DisruptionBlocked" in yard.events.about("node-huge")
    stay = yard.stays.of("node-huge")
    assert stay is not None
    assert stay.code == "no-place"


@pytest.mark.parametrize(("nodes", "begun"), [("30%", 3), ("100%", 10), ("0", 0)])
def test_a_budget_limits_how_many_are_replaced_at_once(nodes: str, begun: int) -> None:
    yard = a_yard(budgets=(Budget(nodes=nodes),))
    for number in range(10):
        drifted(yard, f"node-{number}")
        yard.app_pod(f"web-{number}", f"node-{number}", cpu="3")

    yard.open().wait(60)

    assert len(yard.marked()) == len(yard.replacements()) == begun
    assert ("DisruptionBlocked" in yard.events.about("default")) is (begun < 10)


def test_each_pool_has_its_own_budget() -> None:
    yard = a_yard(budgets=(Budget(nodes="1"),))
    yard.add_pool("other", after=None, budgets=(Budget(nodes="2"),))
    for number in range(3):
        for pool in ("default", "other"):
            name = f"node-{pool}{number}"
            drifted(yard, name, pool=pool)
            yard.app_pod(f"web-{pool}{number}", name, cpu="3")

    yard.open().wait(60)

    assert [sum(pool in one for one in yard.marked()) for pool in ("default", "other")] == [1, 2]


def test_a_budget_of_pods_that_is_used_up_keeps_their_node() -> None:
    yard = a_yard()
    drifted(yard)
    yard.app_pod("web", labels={"app": "web"})
    a_budget(yard, app="web", maxUnavailable=1)

    yard.open().wait(60)

    assert yard.marked() == []


def test_a_pool_whose_replacements_do_not_come_is_left_alone_ever_longer() -> None:
    yard = a_yard()
    drifted(yard)
    yard.app_pod("web", cpu="3")
    yard.open()

    tries = []
    for _ in range(3):
        began = yard.now
        while not yard.replacements():
            yard.wait(5)
        tries.append((yard.now - began).total_seconds())
        yard.delete(NODE_CLAIMS, yard.replacements()[0])

    assert tries[0] == 0
    assert tries[1] == pytest.approx(60, abs=15)
    assert tries[2] == pytest.approx(120, abs=15)


def test_another_pool_has_its_turn_meanwhile() -> None:
    yard = a_yard()
    yard.add_pool("other", after=None)
    drifted(yard)
    yard.app_pod("web", cpu="3")
    yard.open()
    yard.delete(NODE_CLAIMS, yard.replacements()[0])

    drifted(yard, "node-other", pool="other")
    yard.app_pod("other", "node-other", cpu="3")
    yard.wait(15)

    assert yard.marked() == ["node-other"]


def test_decisions_are_counted_by_kind_and_reason() -> None:
    yard = a_yard()
    drifted(yard)
    yard.app_pod("web", cpu="3")

    yard.open()
    yard.starts(yard.replacements()[0])

    labels = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}
    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert yard.metrics.values[decisions] == [(1, labels)]
    disrupted = "karpenter_nodeclaims_disrupted_total"
    assert yard.metrics.total(disrupted, reason="drifted") == 1


def test_drift_works_with_pools_that_are_edited_again() -> None:
    yard = a_yard(budgets=(Budget(nodes="0"),))
    drifted(yard)
    yard.app_pod("web", cpu="3")
    yard.open().wait(600)
    before = yard.marked()

    open_again = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    yard.patch(NODE_POOLS, "default", open_again)

    assert before == []
    assert yard.marked() == ["node"]


def test_a_second_pass_changes_nothing() -> None:
    yard = a_yard(budgets=(Budget(nodes="1"),))
    for name in ("node-a", "node-b"):
        drifted(yard, name)
        yard.app_pod(f"web-{name}", name, cpu="3")
    yard.open()
    before = yard.versions()

    yard.runtime.ask("disruption", "")
    yard.wait(0)

    assert yard.versions() == before
