"""Who leaves a node that drains, in which order, and who is made to.

TM8, TM9, TM10, TM11, TM12, TM13, TM14, TM15, TM16, TM20, TM21, TM22, TM23, TM24, TM25, E2E5, E2E6.
"""

from typing import Any

import pytest

from dovetail.controllers.node import eviction, termination
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from tests.support.fleet import (
    a_budget,
    a_machine,
    a_pod,
    an_owner,
    in_seconds,
    is_asked_to_go,
    stop_pod,
)
from tests.support.world import World

DO_NOT_DISRUPT = {label_keys.DO_NOT_DISRUPT: "true"}


def a_world() -> World:
    world = World()
    a_machine(world)
    return world


def drain(world: World, *, grace: float | None = None) -> World:
    """Delete the node, with a deadline so many seconds from now."""
    if grace is not None:
        deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(world, grace)}
        world.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    return world.run(termination.Termination, eviction.EvictionQueue).delete(NODES, "node")


def is_there(world: World) -> bool:
    return world.get(NODES, "node") is not None


def ends_at(world: World, pod: str) -> str:
    return str(world.get(PODS, pod, "default")["metadata"]["deletionTimestamp"])


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        {"operator": "Exists"},
    ],
)
def test_pods_that_tolerate_the_mark_are_neither_evicted_nor_waited_for(
    toleration: dict[str, Any],
) -> None:
    world = a_world()
    a_pod(world, tolerations=[toleration])

    drain(world)
    asked = is_asked_to_go(world)
    world.wait(8)

    assert not asked
    assert not is_there(world)


def test_pods_that_tolerate_a_cordon_only_are_evicted() -> None:
    world = a_world()
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    a_pod(world, tolerations=[cordon])

    drain(world)

    assert is_asked_to_go(world)
    assert is_there(world)


def test_pods_that_nobody_owns_are_evicted() -> None:
    world = a_world()
    a_pod(world)

    drain(world)

    assert is_asked_to_go(world)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_hold_nothing_up(phase: str) -> None:
    world = a_world()
    a_pod(world, phase=phase)

    drain(world).wait(3)

    assert not is_there(world)


def test_static_pods_are_never_evicted_and_hold_nothing_up() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "Node", "node"))

    drain(world)
    asked = is_asked_to_go(world)
    world.wait(3)

    assert not asked
    assert not is_there(world)


def test_a_budget_that_lets_nobody_go_keeps_the_node() -> None:
    world = a_world()
    a_pod(world, owner=an_owner(world, "ReplicaSet"), labels={"app": "web"})
    a_budget(world, minAvailable=1)

    drain(world).wait(120)

    assert is_there(world)
    assert not is_asked_to_go(world)
    assert "FailedDraining" in world.events.about("node")


def test_pods_go_in_four_tiers_each_after_the_one_before_has_gone() -> None:
    world = a_world()
    critical = {"priorityClassName": "system-node-critical"}
    a_pod(world, "web", owner=an_owner(world, "ReplicaSet"))
    a_pod(world, "agent", owner=an_owner(world, "DaemonSet", "agents"))
    a_pod(
        world,
        "dns",
        owner=an_owner(world, "ReplicaSet"),
        priorityClassName="system-cluster-critical",
    )
    a_pod(world, "network", owner=an_owner(world, "DaemonSet", "agents"), **critical)
    order = ["web", "agent", "dns", "network"]

    drain(world)

    for turn, name in enumerate(order):
        asked = [pod for pod in order if is_asked_to_go(world, pod)]
        assert asked == order[: turn + 1]
        stop_pod(world, name)
    assert world.wait(6).get(NODES, "node") is None


def test_a_tier_is_not_even_queued_while_the_one_before_is_there() -> None:
    world = a_world()
    a_pod(world, "web", owner=an_owner(world, "ReplicaSet"), labels={"app": "web"})
    a_pod(world, "agent", owner=an_owner(world, "DaemonSet", "agents"))
    a_budget(world, minAvailable=1)

    drain(world).wait(60)

    agent = world.get(PODS, "agent", "default")["metadata"]["uid"]
    assert world.evictions.get(("default", "agent", agent)) is None


def test_a_high_number_as_priority_makes_no_pod_critical() -> None:
    world = a_world()
    a_pod(world, "high", priority=1_000_000)
    a_pod(world, "low")

    drain(world)

    assert is_asked_to_go(world, "high")
    assert is_asked_to_go(world, "low")


def test_a_pod_that_should_have_gone_a_minute_ago_is_given_up() -> None:
    world = a_world()
    a_pod(world, grace=10)

    drain(world).wait(70)
    there_until_then = is_there(world)
    world.wait(3)

    assert there_until_then
    assert not is_there(world)


def test_a_new_pod_under_an_old_name_is_not_evicted_in_its_stead() -> None:
    world = a_world()
    a_machine(world, "node-2")
    a_pod(world, annotations=DO_NOT_DISRUPT)
    drain(world).wait(2)

    stop_pod(world)
    a_pod(world, node="node-2")
    world.wait(30)

    assert not is_asked_to_go(world)


def test_a_protected_pod_that_needs_all_of_the_time_is_deleted_at_once() -> None:
    world = a_world()
    a_pod(world, grace=300, annotations=DO_NOT_DISRUPT)

    drain(world, grace=300)

    assert ends_at(world, "pod") == in_seconds(world, 300)
    assert world.events.about("pod") == ["Disrupted"]


def test_a_critical_pod_that_would_be_late_goes_while_others_drain_gracefully() -> None:
    world = a_world()
    a_pod(world, "web", grace=10, annotations=DO_NOT_DISRUPT)
    a_pod(world, "dns", grace=200, priorityClassName="system-cluster-critical")

    drain(world, grace=100)

    assert is_asked_to_go(world, "dns")
    assert not is_asked_to_go(world, "web")


def test_a_protected_pod_is_left_until_it_must_go_to_be_in_time() -> None:
    world = a_world()
    a_pod(world, grace=60, annotations=DO_NOT_DISRUPT)

    drain(world, grace=300).wait(90)
    early = is_asked_to_go(world)
    world.wait(149)
    just_before = is_asked_to_go(world)
    world.wait(1)

    assert (early, just_before) == (False, False)
    assert is_asked_to_go(world)
    assert ends_at(world, "pod") == in_seconds(world, 60)


def test_a_pod_that_would_end_too_late_is_hurried() -> None:
    world = a_world()
    a_pod(world, grace=600)
    world.api.delete(PODS, "pod", "default")

    drain(world, grace=100)
    hurried = world.get(PODS, "pod", "default")["metadata"]["deletionGracePeriodSeconds"]
    deleted = [one for one in world.writes if one[0] == "delete" and one[1] == "Pod/pod"]
    world.wait(50)

    assert hurried == 100
    assert [one for one in world.writes if one[1] == "Pod/pod"] == deleted


def test_after_the_deadline_pods_still_get_a_second() -> None:
    world = a_world()
    a_pod(world, annotations=DO_NOT_DISRUPT)

    drain(world, grace=-10)

    meta = world.get(PODS, "pod", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_pods_protected_for_a_while_are_evicted_when_it_is_over() -> None:
    world = a_world()
    for name, value in (("one", "1m"), ("two", "2m"), ("ever", "true")):
        a_pod(world, name, annotations={label_keys.DO_NOT_DISRUPT: value})

    drain(world).wait(50)
    before = [is_asked_to_go(world, name) for name in ("one", "two", "ever")]
    world.wait(25)
    after_a_minute = [is_asked_to_go(world, name) for name in ("one", "two", "ever")]
    world.wait(60)
    after_two = [is_asked_to_go(world, name) for name in ("one", "two", "ever")]

    assert before == [False, False, False]
    assert after_a_minute == [True, False, False]
    assert after_two == [True, True, False]
    assert "DoNotDisruptUntil" in world.events.about("two")


def test_removing_the_annotation_lets_the_drain_go_on() -> None:
    world = a_world()
    a_pod(world, annotations=DO_NOT_DISRUPT)
    drain(world).wait(60)

    nothing = {"metadata": {"annotations": {label_keys.DO_NOT_DISRUPT: None}}}
    world.patch(PODS, "pod", nothing, "default")
    world.wait(10)

    assert is_asked_to_go(world)


def test_pods_are_never_deleted_without_grace() -> None:
    world = a_world()
    a_pod(world, "quick", grace=0, annotations=DO_NOT_DISRUPT)

    drain(world, grace=0)

    meta = world.get(PODS, "quick", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_a_pod_that_somebody_else_took_away_is_not_missed() -> None:
    world = a_world()
    a_pod(world, annotations=DO_NOT_DISRUPT)
    drain(world).wait(10)

    world.api.delete(PODS, "pod", "default", options=DeleteOptions(grace_seconds=0))
    world.wait(10)

    assert not is_there(world)
