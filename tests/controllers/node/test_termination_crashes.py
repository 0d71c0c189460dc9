"""Controllers that are killed after any single write go on where they were.

The writes of a whole termination are counted first; then it is run once for
each of them, killed right after that one, and started anew.
"""

import pytest

from dovetail.controllers.node import eviction, termination
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from tests.support.fleet import a_budget, a_machine, a_pod, an_owner, in_seconds, stop_pod
from tests.support.world import World

WRITES = 8
"""Also those to the cloud: what is given back is as final as a write."""


def a_world() -> World:
    world = World()
    a_machine(world)
    a_pod(world, owner=an_owner(world, "ReplicaSet"), labels={"app": "web"})
    return world.run(lifecycle.registration, termination.Termination, eviction.EvictionQueue)


def pass_time(world: World, seconds: int) -> None:
    """Let time pass, with a kubelet that ends pods a second after they were asked to go."""
    for _ in range(seconds):
        world.wait(1)
        found = world.get(PODS, "pod", "default")
        if found is not None and "deletionTimestamp" in found["metadata"]:
            stop_pod(world)
        # The finalizer is the last to go: it never outruns the machine.
        assert world.get(NODES, "node") is not None or not world.cloud.machines


def is_all_gone(world: World) -> bool:
    objects = (world.get(NODES, "node"), world.get(NODE_CLAIMS, "claim"))
    return objects == (None, None) and not world.cloud.machines


def test_nothing_happens_that_the_crashes_do_not_cover() -> None:
    world = a_world()

    world.delete(NODE_CLAIMS, "claim")
    pass_time(world, 20)

    assert is_all_gone(world)
    assert len(world.writes) == WRITES


@pytest.mark.parametrize("write", range(1, WRITES + 1))
@pytest.mark.parametrize("what", ["claim", "node"])
def test_killed_after_any_write_a_new_life_finishes_the_work(what: str, write: int) -> None:
    world = a_world()
    world.die_after(write)

    world.delete(NODE_CLAIMS if what == "claim" else NODES, what)
    pass_time(world, 15)
    world.restart()
    pass_time(world, 30)

    assert is_all_gone(world)
    assert world.get(PODS, "pod", "default") is None


@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_killed_while_pods_are_made_to_go_a_new_life_meets_the_deadline(write: int) -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(world, 60)}
    world.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    world.die_after(write)

    world.delete(NODE_CLAIMS, "claim")
    pass_time(world, 45)
    world.restart()
    pass_time(world, 30)

    assert is_all_gone(world)


def test_killed_over_and_over_the_work_still_comes_to_an_end() -> None:
    world = a_world()
    world.delete(NODE_CLAIMS, "claim")

    for _ in range(2 * WRITES):
        world.die_after(1)
        pass_time(world, 7)
        world.restart()
    pass_time(world, 20)

    assert is_all_gone(world)
