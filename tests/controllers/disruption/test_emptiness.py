"""Empty nodes are given back.

EM1, EM2, EM3, EM4, EM5, EM6, EM7, EM8, EM9, EM10, EM11, EM12, EM13, EM19, EM20, BU20,
CA1, CA3, CA9, CA10, CA11, CA13, CA16, CA18, QU7, QU10, QU11, QU14.
EM9 and EM19 differ on purpose: see docs/decisions/0006.
"""

from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from dovetail.controllers.disruption import controller as disruption
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Conflict, Timeout
from dovetail.state.cluster.write_through import ReadYourWrites
from tests.support import wire
from tests.support.catalog import DEFAULT_TYPES
from tests.support.fleet import (
    a_budget,
    a_machine,
    a_pod,
    an_owner,
    in_seconds,
    provider_id_of,
    stop_pod,
)
from tests.support.world import World, condition

ANY_NUMBER = (Budget(nodes="100%"),)
CONSOLIDATABLE = {
    "Consolidatable": Condition(status=TRUE, reason="Consolidatable", generation=1),
}
DO_NOT_DISRUPT = {label_keys.DO_NOT_DISRUPT: "true"}


def a_world(
    *,
    nodes: int = 1,
    after: float | None = 0,
    budgets: tuple[Budget, ...] = ANY_NUMBER,
    **machine: Any,
) -> World:
    """A pool that gives back empty nodes only, with machines that are consolidatable."""
    world = World()
    world.cloud.types = DEFAULT_TYPES
    rules = {"policy": ConsolidationPolicy.WHEN_EMPTY}
    a_pool(world, after=after, budgets=budgets, rules=rules)
    for number in range(nodes):
        name = "node" if nodes == 1 else f"node-{number}"
        a_machine(world, name, **{"conditions": CONSOLIDATABLE, **machine})
    return world


def a_pool(
    world: World,
    name: str = "default",
    *,
    after: float | None = 0,
    budgets: tuple[Budget, ...] = ANY_NUMBER,
    **fields: Any,
) -> None:
    settle = None if after is None else timedelta(seconds=after)
    rules = Disruption(consolidate_after=settle, budgets=budgets, **fields.pop("rules", {}))
    world.add(NODE_POOLS, wire.pool(name, disruption=rules, **fields))


def given_back(world: World) -> list[str]:
    """The claims that are being deleted, by name."""
    return sorted(one.name for one in world.mirror.claims() if one.deleting)


def run(world: World, seconds: float = 15) -> World:
    return world.run(disruption.Disruption).wait(seconds)


def test_an_empty_node_is_marked_and_its_claim_deleted() -> None:
    world = run(a_world())

    assert given_back(world) == ["claim"]
    assert DISRUPTED in world.node().taints
    assert condition(world.claim().conditions, "DisruptionReason") == ("True", "Empty")
    assert world.events.about("node") == ["DisruptionTerminating"]
    assert world.events.about("claim") == ["DisruptionTerminating"]


def test_several_empty_nodes_go_in_one_command() -> None:
    world = run(a_world(nodes=3))

    assert len(given_back(world)) == 3
    (command,) = world.log.said("disrupting node(s)")
    assert command["disrupted_node_count"] == 3


@pytest.mark.parametrize(
    "conditions",
    [{}, {"Consolidatable": Condition(status=FALSE, reason="Consolidatable", generation=1)}],
)
def test_a_node_that_is_not_consolidatable_stays(conditions: dict[str, Condition]) -> None:
    world = run(a_world(conditions=conditions), 600)

    assert given_back(world) == []


def test_a_node_that_becomes_consolidatable_goes_at_that_moment() -> None:
    world = run(a_world(conditions={}), 600)

    marks = world.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    marks.append({"type": "Consolidatable", "status": "True", "reason": "Consolidatable"})
    world.patch(NODE_CLAIMS, "claim", {"status": {"conditions": marks}}, subresource="status")

    assert given_back(world) == ["claim"]


@pytest.mark.parametrize(("after", "ripe"), [(0, 15), (10, 15), (30, 30)])
def test_a_node_is_seen_empty_for_fifteen_seconds_or_as_long_as_its_pool_says(
    after: float, ripe: float
) -> None:
    world = run(a_world(after=after), ripe - 0.1)
    before = given_back(world)

    world.wait(0.1)

    assert before == []
    assert given_back(world) == ["claim"]


def test_the_time_is_counted_from_the_last_pod_that_came_or_went() -> None:
    world = a_world(after=30).wait(100)
    event = {"status": {"lastPodEventTime": in_seconds(world, 0)}}
    world.patch(NODE_CLAIMS, "claim", event, subresource="status")

    run(world, 29.9)
    before = given_back(world)
    world.wait(0.1)

    assert before == []
    assert given_back(world) == ["claim"]


def test_a_pod_that_went_just_after_another_is_counted_from_though_the_claim_does_not_say_so() -> (
    None
):
    world = a_world(after=30)
    for name in ("first", "second"):
        a_pod(world, name)
    event = {"status": {"lastPodEventTime": in_seconds(world, 0)}}
    world.patch(NODE_CLAIMS, "claim", event, subresource="status")
    run(world, 0)

    stop_pod(world, "first")
    world.wait(8)
    stop_pod(world, "second")
    world.wait(29.9)
    before = given_back(world)
    world.wait(0.1)

    assert before == []
    assert given_back(world) == ["claim"]


def test_nobody_looks_round_while_there_is_nothing_to_do() -> None:
    world = run(a_world(after=3600), 0)
    told = world.metrics.values["karpenter_voluntary_disruption_eligible_nodes"]
    looks = len(world.metrics.values)
    a_pod(world)

    world.wait(600)

    assert world.metrics.values["karpenter_voluntary_disruption_eligible_nodes"] == told
    assert len(world.metrics.values) == looks
    assert given_back(world) == []


@pytest.mark.parametrize(("value", "stays"), [("true", True), ("false", False), ("1h", False)])
def test_a_nodes_annotation_protects_it_if_it_says_true(value: str, stays: bool) -> None:
    world = run(a_world(annotations={label_keys.DO_NOT_DISRUPT: value}))

    assert (given_back(world) == []) is stays
    assert ("DisruptionBlocked" in world.events.about("node")) is stays


def test_a_node_with_a_pod_stays() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "ReplicaSet"))

    run(world, 600)

    assert given_back(world) == []


def test_a_node_goes_when_its_last_pod_has_been_gone_for_a_while() -> None:
    world = a_world()
    a_pod(world)
    run(world, 60)

    stop_pod(world)
    world.wait(14.9)
    before = given_back(world)
    world.wait(0.1)

    assert before == []
    assert given_back(world) == ["claim"]


def test_a_node_whose_pods_are_worth_nothing_counts_as_empty() -> None:
    world = a_world()
    a_pod(world, annotations={label_keys.POD_DELETION_COST: str(-(2**31) + 1)})

    run(world)

    assert given_back(world) == ["claim"]


def test_a_node_with_nothing_but_daemons_is_empty() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "DaemonSet", "agents"))

    run(world)

    assert given_back(world) == ["claim"]


def test_pods_of_a_deployment_that_are_going_do_not_keep_a_node() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "ReplicaSet"), grace=3600)
    world.api.delete(PODS, "pod", "default")

    run(world)

    assert given_back(world) == ["claim"]


def test_a_pod_of_a_stateful_set_keeps_its_node_until_it_has_gone() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "StatefulSet"), grace=3600)
    world.api.delete(PODS, "pod", "default")

    run(world, 60)
    before = given_back(world)
    stop_pod(world)
    world.wait(15)

    assert before == []
    assert given_back(world) == ["claim"]


@pytest.mark.parametrize(("nodes", "gone"), [("100%", 10), ("0%", 0), ("0", 0), ("30%", 3)])
def test_a_budget_limits_how_many_go(nodes: str, gone: int) -> None:
    world = run(a_world(nodes=10, budgets=(Budget(nodes=nodes),)))

    assert len(given_back(world)) == gone


def test_each_pool_has_its_own_budget() -> None:
    world = a_world(nodes=3, budgets=(Budget(nodes="1"),))
    a_pool(world, "other", budgets=(Budget(nodes="2"),))
    for number in range(3):
        a_machine(world, f"node-o{number}", pool="other", conditions=CONSOLIDATABLE)

    run(world)

    assert len([name for name in given_back(world) if "-o" in name]) == 2
    assert len(given_back(world)) == 3


def test_nodes_held_back_by_a_budget_go_as_those_before_them_have_gone() -> None:
    world = run(a_world(nodes=3, budgets=(Budget(nodes="1"),)))
    (first,) = given_back(world)

    world.patch(NODE_CLAIMS, first, {"metadata": {"finalizers": None}})
    for node in [one for one in world.mirror.nodes() if one.name[-1] == first[-1]]:
        world.patch(NODES, node.name, {"metadata": {"finalizers": None}})
        world.delete(NODES, node.name)

    assert len(given_back(world)) == 1
    assert given_back(world) != [first]


def test_a_budget_that_holds_nodes_back_is_told_and_opening_it_lets_them_go() -> None:
    world = run(a_world(nodes=2, budgets=(Budget(nodes="0"),)))
    told, before = world.events.about("default"), given_back(world)

    open_again = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    world.patch(NODE_POOLS, "default", open_again)

    assert told[0] == "DisruptionBlocked"
    assert before == []
    assert len(given_back(world)) == 2


def test_a_budget_with_a_schedule_opens_by_itself() -> None:
    nightly = Budget(nodes="0", schedule="0 9 * * *", duration=timedelta(minutes=10))
    world = run(a_world(budgets=(nightly,)), 599)
    before = given_back(world)

    world.wait(11)

    assert before == []
    assert given_back(world) == ["claim"]


def test_a_budget_that_cannot_be_read_closes_its_pool() -> None:
    world = a_world(budgets=(Budget(nodes="2"),))
    broken = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
    world.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [broken]}}})

    run(world)

    assert given_back(world) == []
    assert world.log.said("invalid disruption budget")[0]["nodepool"] == "default"


def test_how_many_could_go_is_measured() -> None:
    world = run(a_world(nodes=2, budgets=(Budget(nodes="0"),)))

    name = "karpenter_voluntary_disruption_eligible_nodes"
    assert world.metrics.total(name, reason="empty") == 2
    labels = {"nodepool": "default", "reason": "Empty"}
    assert world.metrics.total("karpenter_nodepools_allowed_disruptions", **labels) == 0


def test_what_was_done_is_measured() -> None:
    world = run(a_world(termination_grace_period=timedelta(minutes=5)))

    decisions = "karpenter_voluntary_disruption_decisions_total"
    assert world.metrics.values[decisions] == [
        (1, {"decision": "delete", "reason": "empty", "consolidation_type": "empty"})
    ]
    disrupted = "karpenter_nodeclaims_disrupted_total"
    assert world.metrics.total(disrupted, reason="empty", termination_mode="eventual") == 1


def test_nodes_of_a_static_pool_stay() -> None:
    world = a_world(pool="fixed")
    a_pool(world, "fixed", replicas=1)

    run(world, 600)

    assert given_back(world) == []


def test_nodes_of_a_pool_that_never_consolidates_stay_and_say_so() -> None:
    world = run(a_world(after=None), 600)

    assert given_back(world) == []
    assert "Unconsolidatable" in world.events.about("node")


@pytest.mark.parametrize("policy", list(ConsolidationPolicy))
def test_every_policy_gives_empty_nodes_back(policy: ConsolidationPolicy) -> None:
    world = World()
    world.cloud.types = DEFAULT_TYPES
    a_pool(world, rules={"policy": policy})
    a_machine(world, conditions=CONSOLIDATABLE)

    run(world)

    assert given_back(world) == ["claim"]


def test_a_node_that_is_empty_and_drifted_goes_for_being_empty() -> None:
    drifted = Condition(status=TRUE, reason="NodePoolDrifted", generation=1)
    world = a_world(conditions={**CONSOLIDATABLE, "Drifted": drifted}).wait(15)

    run(world, 0)

    assert condition(world.claim().conditions, "DisruptionReason") == ("True", "Empty")


def test_a_node_that_pods_were_sent_to_stays_for_a_while() -> None:
    world = a_world().run(disruption.Disruption).wait(10)
    world.nominations.nominate(provider_id_of("node"), world.now)

    world.wait(19)
    before = given_back(world)
    world.wait(11)

    assert before == []
    assert "DisruptionBlocked" in world.events.about("claim")
    assert given_back(world) == ["claim"]


def test_a_protected_daemon_keeps_its_node() -> None:
    world = a_world()
    agents = an_owner(world, "DaemonSet", "agents")
    a_pod(world, owner=agents, annotations=DO_NOT_DISRUPT)

    run(world, 60)

    assert given_back(world) == []
    assert "DisruptionBlocked" in world.events.about("node")


def test_a_daemon_whose_budget_lets_nobody_go_keeps_its_node() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "DaemonSet", "agents"), labels={"app": "agents"})
    a_budget(world, app="agents", minAvailable="100%")

    run(world, 60)

    assert given_back(world) == []


class BindsFirst:
    """A ``Kube`` behind which a pod is bound just before the node is marked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.get, self.delete = world.faults.get, world.faults.delete

    async def patch(self, resource: Resource, *about: Any, **more: Any) -> Any:
        world = self._world
        if resource is NODES and not world.get(PODS, "late", "default")["spec"].get("nodeName"):
            world.api.bind("late", "default", {"target": {"name": "node"}})
            world.mirror.put(PODS, world.api.get(PODS, "late", "default"))
        return await world.faults.patch(resource, *about, **more)


def test_a_pod_that_came_while_the_node_was_being_marked_saves_it() -> None:
    world = a_world()
    a_pod(world, "late", node="")
    kube = ReadYourWrites(cast(Kube, BindsFirst(world)), world.mirror)

    world.run(partial(disruption.Disruption, kube=kube)).wait(30)

    assert given_back(world) == []
    assert world.node().taints == ()
    failed = "karpenter_voluntary_disruption_failed_validations_total"
    assert world.metrics.total(failed, consolidation_type="empty") == 1


def test_marks_that_a_former_life_left_are_taken_off() -> None:
    world = a_world(after=3600)
    taint = {"key": DISRUPTED.key, "effect": "NoSchedule"}
    world.patch(NODES, "node", {"spec": {"taints": [taint]}})
    marks = world.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    marks.append({"type": "DisruptionReason", "status": "True", "reason": "Empty"})
    world.patch(NODE_CLAIMS, "claim", {"status": {"conditions": marks}}, subresource="status")

    run(world, 0)

    assert world.node().taints == ()
    assert condition(world.claim().conditions, "DisruptionReason") == ("", "")


def test_marks_of_a_node_that_is_going_stay() -> None:
    world = a_world()
    taint = {"key": DISRUPTED.key, "effect": "NoSchedule"}
    world.patch(NODES, "node", {"spec": {"taints": [taint]}})
    world.delete(NODE_CLAIMS, "claim")

    run(world, 60)

    assert DISRUPTED in world.node().taints


def test_nodes_that_could_not_be_marked_are_tried_again() -> None:
    world = a_world(nodes=2)
    world.faults.fail("patch", NODES, Conflict("changed"))

    run(world)

    assert len(given_back(world)) == 2


def test_a_claim_that_could_not_be_deleted_is_tried_again() -> None:
    world = a_world()
    world.faults.fail("delete", NODE_CLAIMS, Timeout("no answer"))

    run(world, 16)

    assert given_back(world) == ["claim"]


@pytest.mark.parametrize("write", [1, 2, 3])
def test_killed_after_any_write_a_new_life_finishes_the_work(write: int) -> None:
    world = a_world()
    world.die_after(write)

    run(world, 20)
    world.restart()

    assert given_back(world) == ["claim"]
    assert DISRUPTED in world.node().taints


def test_a_second_pass_changes_nothing() -> None:
    world = run(a_world(nodes=3, budgets=(Budget(nodes="1"),)), 20)
    before = world.versions()

    world.runtime.ask(disruption.NAME, "")
    world.wait(0)

    assert world.versions() == before
