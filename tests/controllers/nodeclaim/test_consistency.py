"""Consistency: CO1–CO2 of the lifecycle checklist."""

from dovetail.controllers.nodeclaim import consistency
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support import wire
from tests.support.world import World, condition

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "110"}
RESIZED = {"capacity": SMALL, "allocatable": SMALL}


def a_world(size: dict[str, str] | None = None) -> World:
    world = World().run(lifecycle.registration, consistency.registration)
    world.add(NODE_CLAIMS, wire.claim(requests={"cpu": 1, "memory": "1Gi"}))
    world.add(NODES, wire.node(provider_id=world.claim().provider_id, size=size))
    return world.wait(600)


def consistent(world: World) -> tuple[str, str]:
    return condition(world.claim().conditions, "ConsistentStateFound")


def test_a_node_as_bought_is_consistent() -> None:
    assert consistent(a_world()) == ("True", "ConsistentStateFound")


def test_a_node_with_half_the_memory_is_told_of() -> None:
    world = a_world(SMALL)

    assert consistent(world) == ("False", "ConsistencyCheckFailed")
    (told,) = {one for one in world.events.told if one.reason == "FailedConsistencyCheck"}
    assert "memory" in told.message
    assert "50.0% of expected" in told.message
    assert told.warning


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = World().run(consistency.registration)
    world.add(NODE_CLAIMS, wire.claim(node_class=wire.SOMEBODY_ELSES, provider_id="aws:///a/i"))
    world.add(NODES, wire.node(provider_id="aws:///a/i"))

    assert world.wait(3600).writes == []


def test_a_claim_is_looked_at_once_in_ten_minutes() -> None:
    world = a_world()
    world.patch(NODES, "node", {"status": RESIZED}, subresource="status")

    world.wait(599)
    before = consistent(world)
    world.wait(1)

    assert before[0] == "True"
    assert consistent(world)[0] == "False"


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    before = world.versions()

    world.wait(3600)

    assert world.versions() == before
