"""Pods are moved for the sake of money.

CS1, CS2, CS15, CS29, CS43, VA1, VA3, VA4, VA6, VA7, MN3, MN5, MN6, BL13, BL14, QU14.
"""

from functools import partial

import pytest

from dovetail.controllers.disruption.controller import Disruption
from dovetail.controllers.disruption.queue import Replacing
from dovetail.controllers.nodeclaim import consolidatable
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy
from dovetail.model.settings import ConsolidationSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.fleet import a_budget, a_machine, an_owner, provider_id_of, stop_pod
from tests.support.replaced import Yard

BALANCED = {"policy": ConsolidationPolicy.BALANCED}


def a_yard(*nodes: str, cpu: str = "1", **pool: object) -> Yard:
    """Nodes of four processors, each with one small pod."""
    yard = Yard()
    yard.add_pool(**pool)  # type: ignore[arg-type]
    for node in nodes:
        yard.machine(node)
        yard.app_pod(f"web-{node}", node, cpu=cpu)
    return yard.wait(60)  # type: ignore[return-value]


def test_pods_that_fit_on_one_node_leave_the_other_after_fifteen_seconds() -> None:
    yard = a_yard("node-a", "node-b").open()

    yard.wait(14.9)
    before = yard.marked()
    yard.wait(0.1)

    assert before == []
    assert len(yard.leaving()) == 1
    assert yard.replacements() == []


def test_an_oversized_node_is_replaced_by_a_cheaper_one() -> None:
    yard = a_yard("node").open().wait(15)

    (new,) = yard.replacements()
    types = [
        one.values for one in yard.claim(new).requirements if one.key == label_keys.INSTANCE_TYPE
    ]
    assert types == [("m5.large",)]
    assert yard.leaving() == []
    yard.starts(new)
    assert yard.leaving() == ["claim"]


def test_what_is_about_to_happen_is_told_with_what_it_saves() -> None:
    yard = a_yard("node").open()

    assert yard.events.about("node") == ["ConsolidationCandidate"]
    assert yard.events.about("claim") == ["ConsolidationCandidate"]


def test_a_pod_that_comes_in_between_saves_the_node() -> None:
    yard = a_yard("node").open().wait(10)

    yard.app_pod("late", "node", cpu="3")
    yard.wait(10)

    assert (yard.marked(), yard.replacements()) == ([], [])
    assert "ConsolidationRejected" in yard.events.about("node")


def test_a_protected_pod_that_comes_in_between_saves_the_node() -> None:
    yard = a_yard("node").open().wait(10)

    yard.app_pod("late", "node", cpu="0", annotations={label_keys.DO_NOT_DISRUPT: "true"})
    yard.wait(10)

    assert yard.marked() == []
    failed = "karpenter_voluntary_disruption_failed_validations_total"
    assert yard.metrics.total(failed, consolidation_type="single") == 1


def test_a_budget_that_closes_in_between_saves_the_node() -> None:
    yard = a_yard("node").open().wait(10)

    closed = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
    yard.patch(NODE_POOLS, "default", closed)
    yard.wait(60)

    assert yard.marked() == []


def test_a_nomination_in_between_saves_the_node() -> None:
    yard = a_yard("node").open().wait(10)

    yard.nominations.nominate(provider_id_of("node"), yard.now)
    yard.wait(5)

    assert yard.marked() == []


@pytest.mark.parametrize(("nodes", "gone"), [("0", 0), ("1", 1), ("100%", 3)])
def test_a_budget_limits_how_many_go(nodes: str, gone: int) -> None:
    names = [f"node-{number}" for number in range(4)]
    yard = a_yard(*names, budgets=(Budget(nodes=nodes),)).open().wait(16)

    assert len(yard.leaving()) == gone


def test_nodes_held_back_by_a_budget_go_when_it_opens() -> None:
    yard = a_yard("node-a", "node-b", budgets=(Budget(nodes="0"),)).open().wait(120)
    before = yard.marked()

    opened = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    yard.patch(NODE_POOLS, "default", opened)
    yard.wait(15)

    assert before == []
    assert len(yard.leaving()) == 1


@pytest.mark.parametrize(
    ("rules", "after"), [({"policy": ConsolidationPolicy.WHEN_EMPTY}, 0), ({}, None)]
)
def test_a_pool_may_forbid_it_and_its_nodes_say_so(
    rules: dict[str, object], after: float | None
) -> None:
    yard = a_yard("node", rules=rules, after=after).open().wait(60)

    assert yard.marked() == []
    assert yard.events.about("node") == ["Unconsolidatable"]
    stay = yard.stays.of("node")
    assert stay is not None
    assert stay.code == "setting"


@pytest.mark.parametrize(
    "label", [label_keys.INSTANCE_TYPE, label_keys.ZONE, label_keys.CAPACITY_TYPE]
)
def test_a_node_of_unknown_kind_or_place_is_left_alone_and_says_so(label: str) -> None:
    yard = Yard()
    yard.add_pool()
    yard.machine("node", labels={label: ""})
    yard.app_pod("web")

    yard.open().wait(60)

    assert yard.marked() == []
    assert "Unconsolidatable" in yard.events.about("node")


def test_an_empty_node_is_left_to_emptiness() -> None:
    yard = a_yard("node-a")
    yard.machine("node-empty")

    yard.open().wait(60)

    kinds = "karpenter_voluntary_disruption_decisions_total"
    assert "claim-empty" in yard.leaving()
    assert yard.metrics.total(kinds, reason="empty") == 1
    assert "Unconsolidatable" not in yard.events.about("node-empty")


def test_a_budget_of_pods_keeps_only_its_own_nodes() -> None:
    yard = a_yard("node-a", "node-b", "node-c")
    owner = an_owner(yard, "ReplicaSet", "db")
    yard.app_pod("db", "node-a", cpu="0", owner=owner, labels={"app": "db"})
    a_budget(yard, app="db", maxUnavailable=1)

    yard.open().wait(16)

    assert yard.leaving() == ["claim-b", "claim-c"]


def test_a_destination_that_pods_came_to_just_now_takes_nobody_until_its_time_is_over() -> None:
    yard = a_yard("node-a", after=40)
    a_machine(yard, "node-b")
    yard.app_pod("big", "node-b", cpu="3")
    event = {"status": {"lastPodEventTime": f"{yard.now:%Y-%m-%dT%H:%M:%SZ}"}}
    yard.patch(NODE_CLAIMS, "claim-b", event, subresource="status")

    dear = partial(Disruption, consolidation=ConsolidationSettings(min_saving=0.15))
    yard.run(dear, Replacing, consolidatable.registration)
    yard.wait(39)
    before = yard.leaving()
    yard.wait(120)

    assert before == []
    assert yard.leaving() == ["claim-a"]


def test_nothing_is_looked_at_twice_while_nothing_changes() -> None:
    yard = a_yard("node", cpu="3").open().wait(30)
    looks = yard.offload.passes

    yard.wait(240)

    assert looks >= 1
    assert yard.offload.passes == looks


def test_what_changes_is_looked_at_at_a_walking_pace() -> None:
    yard = a_yard("node-a", "node-b", cpu="3").open().wait(30)
    looks = yard.offload.passes

    for number in range(60):
        yard.app_pod(f"brief-{number}", "node-a", cpu="0")
        stop_pod(yard, f"brief-{number}")
        yard.wait(1)

    assert yard.offload.passes - looks <= 4


def test_a_saving_below_what_the_user_wants_moves_nobody() -> None:
    yard = a_yard("node")

    yard.run(partial(Disruption, consolidation=ConsolidationSettings(min_saving=1.0)), Replacing)
    yard.wait(60)

    assert yard.marked() == []
    stay = yard.stays.of("node")
    assert stay is not None
    assert (stay.code, stay.price) == ("below-threshold", pytest.approx(0.2))


def test_a_balanced_pool_that_agrees_says_so() -> None:
    yard = a_yard("node-a", "node-b", rules=BALANCED).open()

    told = [
        name for name in ("node-a", "node-b") if "ConsolidationApproved" in yard.events.about(name)
    ]
    assert len(told) == 1


def test_a_balanced_pool_without_budget_says_nothing_and_keeps_its_nodes() -> None:
    yard = a_yard("node-a", "node-b", rules=BALANCED, budgets=(Budget(nodes="0"),)).open().wait(60)

    assert yard.marked() == []
    assert "ConsolidationApproved" not in yard.events.about("node-a")


def test_nodes_of_a_static_pool_are_left_alone() -> None:
    yard = a_yard("node-a", "node-b", replicas=2).open().wait(60)

    assert yard.marked() == []


def test_decisions_are_counted_by_kind_and_reason() -> None:
    yard = a_yard("node").open().wait(15)

    labels = {"decision": "replace", "reason": "underutilized", "consolidation_type": "single"}
    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert yard.metrics.values[decisions] == [(1, labels)]


def test_a_replacement_that_does_not_come_is_not_tried_again_at_once() -> None:
    yard = a_yard("node").open().wait(15)

    yard.delete(NODE_CLAIMS, yard.replacements()[0])
    freed = yard.marked()
    yard.wait(59)
    before = yard.replacements()
    yard.wait(60)

    assert freed == before == []
    assert len(yard.replacements()) == 1


def test_a_pod_bound_while_the_node_was_being_marked_saves_it() -> None:
    yard = a_yard("node").open().wait(14)

    def bind_late() -> None:
        yard.offload.meanwhile = lambda: None
        yard.app_pod("late", "node", cpu="0")

    yard.offload.meanwhile = bind_late
    yard.wait(2)

    assert (yard.marked(), yard.replacements()) == ([], [])


def test_a_second_pass_changes_nothing() -> None:
    yard = a_yard("node-a", "node-b").open().wait(20)
    before = yard.versions()

    yard.runtime.ask("disruption", "")
    yard.wait(0)

    assert yard.versions() == before


def test_a_node_whose_pods_lost_their_destination_meanwhile_stays() -> None:
    yard = a_yard("node-a", "node-b", rules={}).open()
    (goes,) = [one for one in ("a", "b") if yard.events.about(f"node-{one}")]
    other = {"a": "b", "b": "a"}[goes]

    yard.delete(NODE_CLAIMS, f"claim-{other}")
    yard.wait(16)

    assert f"claim-{goes}" not in yard.leaving()


def test_a_node_that_stays_says_what_it_costs_and_is_forgotten_when_it_has_gone() -> None:
    yard = a_yard("node", rules={"policy": ConsolidationPolicy.WHEN_EMPTY}).open()
    before = yard.stays.of("node")

    yard.patch(NODES, "node", {"metadata": {"finalizers": None}})
    yard.delete(NODES, "node")

    assert before is not None
    assert before.price == pytest.approx(0.2)
    assert yard.stays.of("node") is None
