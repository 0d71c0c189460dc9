"""Machines in capacity reservations: 138 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.controllers.nodeclaim import capacity_reservation
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from tests.support import wire
from tests.support.cloud import TYPE, ZONE
from tests.support.world import World

LABELS = FrozenDict(
    {
        label_keys.INSTANCE_TYPE: TYPE,
        label_keys.ZONE: ZONE,
        label_keys.CAPACITY_TYPE: label_keys.RESERVED,
        label_keys.CAPACITY_RESERVATION_ID: "cr-1",
        label_keys.CAPACITY_RESERVATION_TYPE: "default",
        label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: "false",
    }
)


def a_world() -> World:
    """A claim whose node runs in a reservation."""
    world = World()
    world.cloud.labels = LABELS
    world.run(lifecycle.registration, capacity_reservation.registration)
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))
    return world


def become(world: World, capacity_type: str) -> None:
    for key, one in world.cloud.machines.items():
        changed = msgspec.structs.replace(one, capacity_type=capacity_type)
        world.cloud.machines[key] = changed


def a_class(kind: str, state: str) -> dict[str, Any]:
    held = {
        "id": "cr-1",
        "instanceType": TYPE,
        "availabilityZone": ZONE,
        "reservationType": kind,
        "state": state,
    }
    made = wire.node_class()
    made["status"]["capacityReservations"] = [held]
    return made


def test_what_is_in_its_reservation_stays_as_it_is() -> None:
    world = a_world()

    world.wait(600)

    assert LABELS.items() <= world.claim().labels.items()


def test_what_left_its_reservation_is_on_demand_within_a_minute() -> None:
    world = a_world()

    become(world, label_keys.ON_DEMAND)
    world.wait(60)

    for known in (world.claim().labels, world.node().labels):
        assert known[label_keys.CAPACITY_TYPE] == label_keys.ON_DEMAND
        assert not [key for key in known if "capacity-reservation" in key]


def test_a_machine_that_is_gone_says_nothing_of_its_reservation() -> None:
    world = a_world()

    world.cloud.vanish(world.claim().provider_id)
    world.wait(120)

    assert LABELS.items() <= world.claim().labels.items()


@pytest.mark.parametrize(
    ("kind", "state", "goes"),
    [
        ("capacity-block", "expiring", True),
        ("capacity-block", "active", False),
        ("default", "active", False),
    ],
)
def test_what_is_in_a_block_that_ends_goes_in_good_time(kind: str, state: str, goes: bool) -> None:
    world = a_world()

    world.add(EC2_NODE_CLASSES, a_class(kind, state))
    world.wait(60)

    found = world.get(NODE_CLAIMS, "claim")
    assert (found is None or "deletionTimestamp" in found["metadata"]) == goes


def test_claims_that_are_not_reserved_are_never_asked_for() -> None:
    world = World().run(lifecycle.registration, capacity_reservation.registration)
    world.add(NODE_CLAIMS, wire.claim())
    asked = len(world.cloud.calls("get"))

    world.wait(600)

    assert len(world.cloud.calls("get")) == asked


@pytest.mark.parametrize("writes", [1, 2])
def test_killed_between_node_and_claim_it_is_said_of_both_after_a_restart(writes: int) -> None:
    world = a_world()
    become(world, label_keys.ON_DEMAND)
    world.die_after(writes)
    world.wait(60)

    world.restart().wait(60)

    for known in (world.claim().labels, world.node().labels):
        assert known[label_keys.CAPACITY_TYPE] == label_keys.ON_DEMAND


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    become(world, label_keys.ON_DEMAND)
    world.wait(60)
    before = world.versions()

    world.restart().wait(600)

    assert world.versions() == before
