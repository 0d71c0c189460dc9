"""The Consolidatable condition: CN1–CN9 of the lifecycle checklist."""

from datetime import timedelta
from typing import Any

from dovetail.controllers.nodeclaim import consolidatable, podevents
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model.karpenter.nodepool import Disruption
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support import wire
from tests.support.world import World, condition


def after(seconds: float | None) -> Disruption:
    wait = None if seconds is None else timedelta(seconds=seconds)
    return Disruption(consolidate_after=wait)


def a_world(consolidate_after: float | None = 30, **pool: Any) -> World:
    """A claim with a node that is complete."""
    world = World().run(lifecycle.registration, podevents.registration, consolidatable.registration)
    world.add(NODE_POOLS, wire.pool(disruption=after(consolidate_after), **pool))
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))
    return world


def consolidatable_now(world: World) -> bool:
    return condition(world.claim().conditions, "Consolidatable")[0] == "True"


def test_a_node_is_consolidatable_so_long_after_its_last_pod_event() -> None:
    world = a_world().wait(20)
    world.add(PODS, wire.pod())

    world.wait(29)
    before = consolidatable_now(world)
    world.wait(1)

    assert not before
    assert consolidatable_now(world)


def test_a_node_that_never_had_a_pod_counts_from_its_initialization() -> None:
    world = a_world()

    world.wait(29)
    before = consolidatable_now(world)
    world.wait(1)

    assert not before
    assert consolidatable_now(world)


def test_zero_does_not_wait() -> None:
    world = a_world(0)

    assert consolidatable_now(world)


def test_a_new_pod_event_takes_it_away_again() -> None:
    world = a_world().wait(60)
    assert consolidatable_now(world)

    world.add(PODS, wire.pod())

    assert not consolidatable_now(world)
    assert "Consolidatable" not in world.claim().conditions


def test_never_takes_it_away_and_comes_to_be_known_at_once() -> None:
    world = a_world().wait(60)

    world.patch(NODE_POOLS, "default", {"spec": {"disruption": {"consolidateAfter": "Never"}}})

    assert "Consolidatable" not in world.claim().conditions


def test_a_node_that_is_not_complete_is_not_consolidatable() -> None:
    for status in ("Unknown", "False"):
        world = a_world().wait(60).crash()
        known = world.get(NODE_CLAIMS, "claim")["status"]["conditions"]
        changed = [
            {**one, "status": status} if one["type"] == "Initialized" else one for one in known
        ]
        world.patch(NODE_CLAIMS, "claim", {"status": {"conditions": changed}}, subresource="status")

        world.run(consolidatable.registration)

        assert "Consolidatable" not in world.claim().conditions


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = World().run(consolidatable.registration)
    world.add(NODE_POOLS, wire.pool())
    world.add(NODE_CLAIMS, wire.claim(node_class=wire.SOMEBODY_ELSES))

    assert world.writes == []


def test_static_pools_are_never_consolidated() -> None:
    world = a_world(0, replicas=1)

    assert "Consolidatable" not in world.claim().conditions


def test_another_condition_beside_it_stays() -> None:
    world = a_world().wait(60)
    known = world.get(NODE_CLAIMS, "claim")["status"]["conditions"]
    drifted = {"type": "Drifted", "status": "True", "reason": "Drifted"}
    world.patch(
        NODE_CLAIMS,
        "claim",
        {"status": {"conditions": [*known, drifted]}},
        subresource="status",
    )

    world.add(PODS, wire.pod())

    assert "Consolidatable" not in world.claim().conditions
    assert condition(world.claim().conditions, "Drifted")[0] == "True"


def test_a_second_pass_changes_nothing() -> None:
    world = a_world().wait(60)
    before = world.versions()

    world.runtime.ask("nodeclaim.disruption", "claim")
    world.wait(3600)

    assert world.versions() == before
