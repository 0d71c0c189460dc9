"""Partition placement groups: 139 of the AWS checklist."""

import msgspec

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model.labels import PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support import wire
from tests.support.world import World, condition


def a_world(**labels: str) -> World:
    """A claim whose node is there, in a placement group."""
    world = World()
    world.cloud.labels = world.cloud.labels.with_items(labels)
    world.run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))
    return world


def registered(world: World) -> str:
    return condition(world.claim().conditions, "Registered")[0]


def test_a_node_waits_until_ec2_says_in_which_partition_it_is() -> None:
    world = a_world(**{PLACEMENT_GROUP_ID: "pg-1", PLACEMENT_GROUP_PARTITION: ""})
    provider_id = world.claim().provider_id
    before = registered(world)

    machine = world.cloud.machines[provider_id]
    world.cloud.machines[provider_id] = msgspec.structs.replace(machine, partition="2")
    world.wait(1)

    assert before == "Unknown"
    assert registered(world) == "True"
    assert world.claim().labels[PLACEMENT_GROUP_PARTITION] == "2"
    assert world.node().labels[PLACEMENT_GROUP_PARTITION] == "2"


def test_a_partition_that_was_chosen_is_not_asked_for() -> None:
    world = a_world(**{PLACEMENT_GROUP_ID: "pg-1", PLACEMENT_GROUP_PARTITION: "3"})

    assert registered(world) == "True"
    assert world.cloud.calls("get") == []


def test_groups_without_partitions_hold_nobody_back() -> None:
    world = a_world(**{PLACEMENT_GROUP_ID: "pg-1"})

    assert registered(world) == "True"
    assert world.cloud.calls("get") == []
