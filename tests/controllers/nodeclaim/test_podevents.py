"""Pod events: PE1–PE5 of the lifecycle checklist.

After a restart upstream takes every pod that is there for one that has just come;
we do not, so that consolidateAfter does not begin anew with each restart.
"""

from typing import Any

from dovetail.controllers.nodeclaim import podevents
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from tests.support import wire
from tests.support.cluster import START
from tests.support.world import World

MACHINE = "aws:///a/i-1"
DAEMON = wire.owner("DaemonSet", "agent", uid="1", controller=True)


def a_world(**claim: Any) -> World:
    world = World().run(podevents.registration)
    world.add(NODE_CLAIMS, wire.claim(provider_id=MACHINE, **claim))
    world.add(NODES, wire.node(provider_id=MACHINE))
    return world


def noted(world: World) -> float | None:
    """Seconds from the beginning to the last pod event."""
    at = world.claim().last_pod_event
    return None if at is None else (at - START).total_seconds()


def bind(world: World, name: str, **pod: Any) -> None:
    """Create a pod and bind it, as users and schedulers do."""
    world.add(PODS, wire.pod(name, node="", phase="Pending", **pod))
    world.api.bind(name, "default", {"target": {"name": "node"}})
    world.wait(0)


def test_a_pod_that_comes_is_noted() -> None:
    world = a_world().wait(5)

    bind(world, "one")

    assert noted(world) == 5


def test_pods_that_wait_for_a_node_are_no_event() -> None:
    world = a_world()

    world.add(PODS, wire.pod("one", node="", phase="Pending"))

    assert noted(world) is None


def test_a_pod_that_ends_is_noted() -> None:
    world = a_world()
    bind(world, "one")
    world.wait(60)

    world.patch(PODS, "one", {"status": {"phase": "Succeeded"}}, "default", subresource="status")

    assert noted(world) == 60


def test_a_pod_that_begins_to_go_is_noted_and_its_end_is_not() -> None:
    world = a_world()
    bind(world, "one")
    world.wait(60)

    world.delete(PODS, "one", "default")
    world.wait(30)
    world.patch(PODS, "one", {"metadata": {"labels": {"a": "b"}}}, "default")

    assert noted(world) == 60


def test_daemon_pods_are_no_event() -> None:
    world = a_world()

    world.api.create(PODS, wire.pod("agent", owner=DAEMON))
    world.wait(0)

    assert noted(world) is None


def test_a_node_that_is_not_there_or_not_ours_is_no_matter() -> None:
    world = a_world(node_class=wire.SOMEBODY_ELSES)
    world.add(NODES, wire.node("unmanaged", provider_id="aws:///a/i-2"))

    bind(world, "one")
    world.add(PODS, wire.pod("two", node="unmanaged"))
    world.add(PODS, wire.pod("three", node="nowhere"))

    assert noted(world) is None
    assert world.log.said("reconciler error") == []


def test_events_within_ten_seconds_are_one() -> None:
    world = a_world()
    bind(world, "one")

    world.wait(9)
    bind(world, "two")
    after_nine = noted(world)
    world.wait(1)
    bind(world, "three")

    assert after_nine == 0
    assert noted(world) == 10


def test_a_restart_is_no_event() -> None:
    world = a_world()
    bind(world, "one")
    world.wait(60)

    world.restart()

    assert noted(world) == 0


def test_a_pod_that_came_while_nobody_looked_is_noted() -> None:
    world = a_world()
    bind(world, "one")
    world.crash().wait(60)
    world.add(PODS, wire.pod("two"))
    world.wait(60)

    world.run(podevents.registration)

    assert noted(world) == 120


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    bind(world, "one")
    before = world.versions()

    world.runtime.ask("nodeclaim.podevents", "node")
    world.wait(0)

    assert world.versions() == before
