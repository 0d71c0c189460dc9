"""Garbage collection: GC1–GC4 of the lifecycle checklist, and orphaned instances (aws.md 136)."""

from datetime import timedelta

import pytest

from dovetail.controllers.nodeclaim import garbage_collection
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support import wire
from tests.support.world import World

ORPHAN = "aws:///us-east-1a/i-orphan"
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def a_world(*names: str) -> World:
    """Claims with ready nodes."""
    world = World().run(
        lifecycle.registration,
        garbage_collection.claims_registration,
        garbage_collection.machines_registration,
    )
    for name in names:
        world.add(NODE_CLAIMS, wire.claim(name))
        world.add(NODES, wire.node(f"node-of-{name}", provider_id=world.claim(name).provider_id))
    return world


def lose(world: World, name: str, *, ready: bool = False) -> None:
    world.cloud.vanish(world.claim(name).provider_id)
    if not ready:
        world.patch(NODES, f"node-of-{name}", NOT_READY, subresource="status")


def gone(world: World, name: str) -> bool:
    found = world.mirror.claim(name)
    return found is None or found.deleting


def test_claims_whose_machines_are_gone_go_too() -> None:
    world = a_world("one", "two", "stays")
    lose(world, "one")
    lose(world, "two")

    world.wait(120)

    assert gone(world, "one")
    assert gone(world, "two")
    assert not gone(world, "stays")
    metric = "karpenter_nodeclaims_disrupted_total"
    assert world.metrics.total(metric, reason="garbage_collected") == 2


def test_a_machine_that_is_going_counts_as_gone() -> None:
    world = a_world("one")
    world.cloud.terminating_takes = timedelta(hours=1)
    machine = world.claim("one").provider_id
    world.patch(NODES, "node-of-one", NOT_READY, subresource="status")
    world.cloud.terminate(machine)

    world.wait(120)

    assert gone(world, "one")


def test_a_ready_node_is_believed_more_than_the_cloud() -> None:
    world = a_world("one")
    lose(world, "one", ready=True)

    world.wait(600)

    assert not gone(world, "one")


def test_a_claim_that_is_not_registered_has_its_own_time_out() -> None:
    world = a_world()
    world.add(NODE_CLAIMS, wire.claim("young"))
    world.cloud.vanish(world.claim("young").provider_id)

    world.wait(600)

    assert not gone(world, "young")


def test_a_claim_whose_node_is_missing_stays_while_its_machine_is_there() -> None:
    world = a_world("one")
    world.patch(NODES, "node-of-one", {"metadata": {"finalizers": None}})
    world.delete(NODES, "node-of-one")

    world.wait(600)

    assert not gone(world, "one")


def test_a_machine_that_nobody_claims_goes_with_its_node() -> None:
    world = a_world("one")
    world.cloud.has(ORPHAN, claim="somebody")
    world.add(NODES, wire.node("stray", provider_id=ORPHAN))

    world.wait(120)

    assert world.cloud.machines.keys() == {world.claim("one").provider_id, ORPHAN}
    assert world.cloud.machines[ORPHAN].terminating
    assert world.get(NODES, "stray") is None
    assert not world.node("node-of-one").deleting


@pytest.mark.parametrize(("age", "stays"), [(29, True), (30, False)])
def test_a_machine_gets_thirty_seconds_to_be_claimed(age: int, stays: bool) -> None:
    world = a_world()
    world.wait(120 - age)
    world.cloud.has(ORPHAN)

    world.wait(age)

    assert world.cloud.machines[ORPHAN].terminating is not stays


def test_a_machine_whose_claim_does_not_say_so_yet_is_left_alone() -> None:
    world = World().run(garbage_collection.machines_registration)
    world.add(NODE_CLAIMS, wire.claim())
    world.cloud.has(ORPHAN, claim="claim")

    world.wait(600)

    assert not world.cloud.machines[ORPHAN].terminating


def test_a_second_machine_for_a_claim_goes() -> None:
    world = a_world("one")
    world.cloud.has(ORPHAN, claim="one")

    world.wait(120)

    assert world.cloud.machines[ORPHAN].terminating


def test_a_cloud_that_does_not_answer_is_asked_again() -> None:
    world = a_world("one")
    world.cloud.has(ORPHAN)
    world.cloud.fail("list", CloudError("throttled"), CloudError("throttled"))

    world.wait(130)

    assert world.cloud.machines[ORPHAN].terminating
    assert not gone(world, "one")


def test_a_second_pass_changes_nothing() -> None:
    world = a_world("one")
    before = world.versions()

    world.wait(600)

    assert world.versions() == before
    assert world.cloud.calls("delete") == []
