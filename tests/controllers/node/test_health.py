"""Nodes that stay broken: NH1–NH16 of the lifecycle checklist."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from dovetail.controllers.node import health as repair
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support import wire
from tests.support.world import World

MINUTE = 60
SWITCHED_ON = partial(repair.registration, gates=Gates(NodeRepair=True))
UNHEALTHY = "karpenter_nodeclaims_unhealthy_disrupted_total"
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def a_world(machines: int = 6, *, pool: str = "default") -> World:
    world = World().run(SWITCHED_ON)
    for number in range(machines):
        machine = f"aws:///us-east-1a/i-{number}"
        made = wire.claim(
            f"claim-{number}",
            pool=pool,
            finalizers=["test/held"],
            provider_id=machine,
            termination_grace_period=timedelta(hours=9),
        )
        world.add(NODE_CLAIMS, made)
        world.add(NODES, wire.node(f"node-{number}", provider_id=machine))
    return world


def report(world: World, kind: str, status: str, *, node: str = "node-0", **more: str) -> None:
    """Have a kubelet, or an agent, report a condition that came about just now."""
    known = world.get(NODES, node)["status"]["conditions"]
    kept = [one for one in known if one["type"] != kind]
    new = {"type": kind, "status": status, "lastTransitionTime": f"{world.now:%Y-%m-%dT%H:%M:%SZ}"}
    status_: dict[str, Any] = {"conditions": [*kept, {**new, **more}]}
    world.patch(NODES, node, {"status": status_}, subresource="status")


def annotate(world: World, when: timedelta) -> str:
    """Have somebody set the claim's deadline."""
    text = f"{world.now + when:%Y-%m-%dT%H:%M:%SZ}"
    annotations = {label_keys.TERMINATION_TIMESTAMP: text}
    world.patch(NODE_CLAIMS, "claim-0", {"metadata": {"annotations": annotations}})
    return text


def gone(world: World) -> list[str]:
    return sorted(one.name for one in world.mirror.claims() if one.deleting)


@pytest.mark.parametrize(
    ("kind", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ],
)
def test_a_node_that_is_broken_for_as_long_as_is_borne_is_replaced_at_that_moment(
    kind: str, status: str, minutes: int
) -> None:
    world = a_world()
    report(world, kind, status)

    world.wait(minutes * MINUTE - 1)
    before = gone(world)
    world.wait(1)

    assert before == []
    assert gone(world) == ["claim-0"]
    assert world.metrics.total(DISRUPTED, reason="unhealthy", nodepool="default") == 1


def test_the_condition_is_counted_in_the_words_of_metrics() -> None:
    world = a_world()
    report(world, "AcceleratedHardwareReady", "False")

    world.wait(10 * MINUTE)

    labels = {"condition": "accelerated_hardware_ready", "nodepool": "default"}
    assert world.metrics.total(UNHEALTHY, **labels) == 1


@pytest.mark.parametrize(
    ("kind", "status"), [("DiskPressure", "True"), ("StorageReady", "Unknown")]
)
def test_what_no_policy_names_is_left_alone(kind: str, status: str) -> None:
    world = a_world()
    report(world, kind, status)

    world.wait(24 * 60 * MINUTE)

    assert gone(world) == []


def test_a_node_that_recovers_in_time_stays() -> None:
    world = a_world()
    report(world, "Ready", "False")
    world.wait(29 * MINUTE)
    report(world, "Ready", "True")

    world.wait(60 * MINUTE)

    assert gone(world) == []


def test_of_two_breakages_the_one_whose_time_is_up_first_counts() -> None:
    world = a_world()
    report(world, "Ready", "False")
    world.wait(5 * MINUTE)
    report(world, "AcceleratedHardwareReady", "False")

    world.wait(10 * MINUTE)

    assert gone(world) == ["claim-0"]
    assert world.metrics.total(UNHEALTHY, condition="accelerated_hardware_ready") == 1


def test_heartbeats_do_not_begin_the_wait_anew() -> None:
    world = a_world()
    report(world, "Ready", "False")
    began = f"{world.now:%Y-%m-%dT%H:%M:%SZ}"

    for _ in range(6):
        world.wait(5 * MINUTE)
        report(world, "Ready", "False", lastHeartbeatTime="x", lastTransitionTime=began)

    assert gone(world) == ["claim-0"]


def test_nobody_waits_for_pods_budgets_or_annotations() -> None:
    world = a_world()
    disruption = Disruption(budgets=(Budget(nodes="0"),))
    world.add(NODE_POOLS, wire.pool(disruption=disruption))
    world.patch(NODES, "node-0", {"metadata": {"annotations": {label_keys.DO_NOT_DISRUPT: "true"}}})
    world.add(PODS, wire.pod(node="node-0"))
    report(world, "Ready", "False")

    world.wait(30 * MINUTE)

    claim = world.claim("claim-0")
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == f"{world.now:%Y-%m-%dT%H:%M:%SZ}"
    assert world.metrics.total("karpenter_pods_disruption_initiated_total") == 1


def test_a_deadline_in_the_future_becomes_now() -> None:
    world = a_world()
    annotate(world, timedelta(days=2))
    report(world, "Ready", "False")

    world.wait(30 * MINUTE)

    deadline = world.claim("claim-0").annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == f"{world.now:%Y-%m-%dT%H:%M:%SZ}"


def test_a_deadline_that_has_passed_stays_what_it_is() -> None:
    world = a_world()
    text = annotate(world, timedelta(minutes=-5))
    report(world, "Ready", "False")

    world.wait(30 * MINUTE)

    claim = world.claim("claim-0")
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == text


@pytest.mark.parametrize("pool", ["default", ""])
def test_where_more_than_a_fifth_is_broken_nobody_is_replaced_and_people_are_told(
    pool: str,
) -> None:
    world = a_world(10, pool=pool)
    for number in range(3):
        report(world, "Ready", "False", node=f"node-{number}")

    world.wait(30 * MINUTE)

    assert gone(world) == []
    assert world.events.about("node-0") == ["NodeRepairBlocked"]


def test_when_enough_have_recovered_the_others_are_replaced_within_five_minutes() -> None:
    world = a_world(10)
    for number in range(3):
        report(world, "Ready", "False", node=f"node-{number}")
    world.wait(31 * MINUTE)
    report(world, "Ready", "True", node="node-2")

    world.wait(5 * MINUTE)

    assert gone(world) == ["claim-0", "claim-1"]


def test_of_three_one_may_be_broken_since_the_share_is_rounded_up() -> None:
    world = a_world(3)
    report(world, "Ready", "False")

    world.wait(30 * MINUTE)

    assert gone(world) == ["claim-0"]


def test_other_pools_do_not_count() -> None:
    world = a_world(3)
    for number in range(10, 15):
        machine = f"aws:///us-east-1a/i-{number}"
        world.add(NODE_CLAIMS, wire.claim(f"other-{number}", pool="other", provider_id=machine))
        world.add(NODES, wire.node(f"node-{number}", provider_id=machine))
        report(world, "Ready", "False", node=f"node-{number}")
    report(world, "Ready", "False")

    world.wait(30 * MINUTE)

    assert gone(world) == ["claim-0"]


def test_killed_after_either_of_its_writes_it_ends_what_it_began() -> None:
    for writes in (1, 2):
        world = a_world()
        report(world, "Ready", "False")
        world.die_after(writes)
        world.wait(30 * MINUTE)

        world.restart().wait(MINUTE)

        assert world.claim("claim-0").deleting


def test_it_is_off_unless_switched_on() -> None:
    switched_off = World()

    made = repair.registration(
        mirror=switched_off.mirror,
        kube=switched_off.kube,
        loop=switched_off.loop,
        log=switched_off.log,
        events=switched_off.events,
        metrics=switched_off.metrics,
        gates=Gates(),
    )

    assert made is None
