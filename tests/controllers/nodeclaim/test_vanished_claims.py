"""Claims that vanish unlaunched: SG1–SG4 of the lifecycle checklist.

Upstream has a controller that clears its state of them. Our picture is what the
API server says and nothing beside it, so there is nothing to clear.
"""

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import CloudError
from tests.support import wire
from tests.support.world import World


def unlaunched(world: World) -> list[str]:
    return [claim.name for claim in world.mirror.unlaunched()]


def test_a_claim_that_vanishes_before_its_launch_leaves_no_trace() -> None:
    world = World().run(lifecycle.registration)
    world.cloud.fail("create", *[CloudError("no")] * 1000)
    world.add(NODE_CLAIMS, wire.claim("waits"))
    world.add(NODE_CLAIMS, wire.claim("goes"))

    world.delete(NODE_CLAIMS, "goes")

    assert unlaunched(world) == ["waits"]
    assert [claim.name for claim in world.mirror.claims()] == ["waits"]


def test_a_launched_claim_is_awaited_no_longer() -> None:
    world = World().run(lifecycle.registration)

    world.add(NODE_CLAIMS, wire.claim())

    assert unlaunched(world) == []
    assert world.mirror.joined(world.claim().provider_id) is not None
