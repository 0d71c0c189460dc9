"""Liveness: LV1–LV10 of the lifecycle checklist."""

from datetime import timedelta
from functools import partial

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.core.nodeclaim.lifecycle import Timeouts
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError, CreateFailed
from tests.support import wire
from tests.support.world import World, condition

MINUTE = 60
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def a_world() -> World:
    return World().run(lifecycle.registration, liveness.registration)


def never_launching(world: World) -> World:
    world.cloud.fail("create", *[CreateFailed("Unauthorized", "no")] * 1000)
    return world


def add(world: World, name: str = "claim", **claim: object) -> World:
    world.add(NODE_CLAIMS, wire.claim(name, **claim))
    return world


def test_a_machine_that_has_no_node_after_a_quarter_of_an_hour_is_given_back() -> None:
    world = add(a_world())

    world.wait(15 * MINUTE - 1)
    before = world.get(NODE_CLAIMS, "claim")
    world.wait(6)

    assert before is not None
    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.cloud.machines == {}
    assert world.metrics.total(DISRUPTED, reason="registration_timeout") == 1


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = add(a_world(), node_class=wire.SOMEBODY_ELSES)

    world.wait(3600)

    assert world.get(NODE_CLAIMS, "claim") is not None


def test_a_registered_claim_has_all_the_time_in_the_world() -> None:
    world = add(a_world())
    world.add(NODES, wire.node(provider_id=world.claim().provider_id, ready=False))

    world.wait(24 * 3600)

    assert condition(world.claim().conditions, "Initialized") == ("Unknown", "NodeNotReady")


def test_a_claim_that_is_not_launched_after_five_minutes_is_given_up_on_the_dot() -> None:
    world = add(never_launching(a_world()))

    world.wait(5 * MINUTE - 1)
    before = world.get(NODE_CLAIMS, "claim")
    world.wait(1)

    assert before is not None
    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.metrics.total(DISRUPTED, reason="launch_timeout") == 1


def test_how_long_launching_may_take_can_be_set() -> None:
    patience = Timeouts(launch=timedelta(seconds=45))
    world = World().run(lifecycle.registration, partial(liveness.registration, timeouts=patience))
    add(never_launching(world))

    world.wait(30)
    before = world.get(NODE_CLAIMS, "claim")
    world.wait(30)

    assert before is not None
    assert world.get(NODE_CLAIMS, "claim") is None


def test_the_time_counts_from_when_the_condition_changed_not_from_creation() -> None:
    world = add(World())
    world.wait(20 * MINUTE)
    # Somebody has launched it and registration was looked at anew since.
    since = "2026-01-01T09:19:00Z"
    looked_at = [
        {"type": kind, "status": status, "reason": "x", "lastTransitionTime": since}
        for kind, status in (("Launched", "True"), ("Registered", "Unknown"))
    ]
    world.patch(NODE_CLAIMS, "claim", {"status": {"conditions": looked_at}}, subresource="status")

    world.run(liveness.registration).wait(14 * MINUTE - 1)
    before = world.get(NODE_CLAIMS, "claim")
    world.wait(1)

    assert before is not None
    assert world.get(NODE_CLAIMS, "claim") is None


# What the pool hears of it.


def time_out(world: World, name: str, *, uid: str = "") -> None:
    owner = wire.owner("NodePool", "default", uid=uid or world.pool().uid)
    add(world, name, owners=[owner]).wait(20 * MINUTE)
    assert world.get(NODE_CLAIMS, name) is None


def healthy(world: World) -> tuple[str, str]:
    return condition(world.pool().conditions, "NodeRegistrationHealthy")


def test_the_second_failure_makes_a_pool_unhealthy() -> None:
    world = a_world()
    world.add(NODE_POOLS, wire.pool())

    time_out(world, "one")
    after_one = healthy(world)
    time_out(world, "two")

    assert after_one == ("", "")
    assert healthy(world) == ("False", "RegistrationFailed")


def test_a_pool_that_was_healthy_hears_why_nothing_launches() -> None:
    world = a_world()
    world.add(NODE_POOLS, wire.pool())
    owner = wire.owner("NodePool", "default", uid=world.pool().uid)
    add(world, "good", owners=[owner])
    world.add(NODES, wire.node(provider_id=world.claim("good").provider_id))
    assert healthy(world)[0] == "True"

    never_launching(world)
    time_out(world, "one")
    time_out(world, "two")

    assert healthy(world) == ("False", "Unauthorized")


def test_a_pool_that_was_made_anew_hears_nothing_of_old_claims() -> None:
    world = a_world()
    world.add(NODE_POOLS, wire.pool())

    other = world.add(NODE_POOLS, wire.pool("other"))["metadata"]["uid"]
    time_out(world, "one", uid=other)
    time_out(world, "two", uid=other)

    assert healthy(world) == ("", "")


def test_scarce_capacity_is_no_failure_of_the_pool() -> None:
    world = a_world()
    world.add(NODE_POOLS, wire.pool())

    world.cloud.fail("create", CloudError("throttled"))
    add(world, owners=[wire.owner("NodePool", "default", uid=world.pool().uid)])

    assert world.outcomes.of(world.pool()) == ()


def test_a_second_pass_changes_nothing() -> None:
    world = add(a_world())
    before = world.versions()

    world.runtime.ask("nodeclaim.liveness", "claim")
    world.wait(60)

    assert world.versions() == before
