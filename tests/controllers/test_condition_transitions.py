"""Events on conditions that change (lifecycle.md 7.2, last line)."""

from dovetail.controllers import condition_transitions
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodepool import readiness
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support import wire
from tests.support.world import World


def test_users_can_follow_how_far_a_claim_has_come() -> None:
    world = World().run(lifecycle.registration, condition_transitions.claims_registration)

    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node(provider_id=world.claim().provider_id))

    assert world.events.about("claim") == ["Launched", "Registered", "Initialized", "Ready"]
    assert world.events.told[0].message == (
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    )
    metric = "operator_nodeclaim_status_condition_transitions_total"
    assert world.metrics.total(metric, type="Ready", status="True") == 1


def test_users_can_follow_what_becomes_of_a_pool() -> None:
    world = World().run(readiness.registration, condition_transitions.pools_registration)

    world.add(NODE_POOLS, wire.pool())

    assert world.events.about("default") == ["NodeClassReady", "Ready"]


def test_a_restart_tells_nothing_again() -> None:
    world = World().run(lifecycle.registration, condition_transitions.claims_registration)
    world.add(NODE_CLAIMS, wire.claim())
    told = len(world.events.told)

    world.restart()

    assert len(world.events.told) == told


def test_a_second_pass_changes_nothing() -> None:
    world = World().run(lifecycle.registration, condition_transitions.claims_registration)
    world.add(NODE_CLAIMS, wire.claim())
    told = len(world.events.told)

    world.runtime.ask("nodeclaim.status", "claim")
    world.wait(60)

    assert len(world.events.told) == told
