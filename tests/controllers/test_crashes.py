"""A claim's whole life, with the controllers killed after every single change they make.

The steps are enumerated, not sampled: a first run counts them.
"""

import pytest

from dovetail.controllers.nodeclaim import (
    consistency,
    consolidatable,
    expiration,
    garbage_collection,
    hydration,
)
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.controllers.nodepool import counter, readiness, registration_health, validation
from dovetail.controllers.nodepool import hash as stamping
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from tests.support import wire
from tests.support.world import World, condition

EVERYBODY = (
    lifecycle.registration,
    liveness.registration,
    expiration.registration,
    garbage_collection.claims_registration,
    garbage_collection.machines_registration,
    consolidatable.registration,
    consistency.registration,
    hydration.registration,
    nodeclass.registration,
    counter.registration,
    registration_health.registration,
    readiness.registration,
    stamping.registration,
    validation.registration,
)


class Life:
    """The outside of it: a user, a kubelet, and somebody who restarts what has died."""

    def __init__(self, *, dies_after: int | None = None) -> None:
        self.world = World()
        if dies_after is not None:
            self.world.die_after(dies_after)
        self.world.run(*EVERYBODY)

    def lead(self) -> World:
        world = self.world
        world.add(EC2_NODE_CLASSES, wire.node_class(ready=None))
        world.add(NODE_POOLS, wire.pool())
        world.add(NODE_CLAIMS, wire.claim())
        self.restarted_if_dead()
        world.add(NODES, wire.node(provider_id=world.claim().provider_id))
        self.restarted_if_dead()
        assert condition(world.claim().conditions, "Ready") == ("True", "Ready")
        assert world.pool().ready
        assert world.pool().node_count == 1

        world.delete(NODE_CLAIMS, "claim")
        self.restarted_if_dead()
        world.patch(NODES, "node", {"metadata": {"finalizers": None}})
        self.restarted_if_dead()
        return world

    def restarted_if_dead(self) -> None:
        self.world.wait(2)
        if self.world.dead:
            self.world.restart().wait(2)


def steps() -> int:
    return len(Life().lead().writes)


@pytest.mark.parametrize("step", range(1, steps() + 1))
def test_nothing_is_bought_twice_and_nothing_is_left_behind(step: int) -> None:
    world = Life(dies_after=step).lead()

    assert world.cloud.bought == ["claim"]
    assert world.cloud.machines == {}
    assert world.get(NODE_CLAIMS, "claim") is None
    assert world.get(NODES, "node") is None
    assert world.pool().node_count == 0
