"""kube-scheduler is told for whom a node was bought, and that it is void when it is."""

from functools import partial
from typing import Any

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.pod import nomination, nomination_cleanup
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import PROMISED_TO
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Forbidden
from tests.support import wire
from tests.support.world import World

SPREAD = {
    "topologyKey": "topology.kubernetes.io/zone",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def a_world(gates: Gates = Gates(), **spec: Any) -> World:  # noqa: B008 - frozen
    """A claim that was made for the pods ``one`` and ``two``, who wait."""
    world = World().run(
        *(
            partial(one.registration, gates=gates)
            for one in (lifecycle, nomination, nomination_cleanup)
            if gates.NominatedNodeName or one is lifecycle
        )
    )
    made = [a_waiting_pod(world, name, **spec) for name in ("one", "two")]
    named = ",".join(f"default/{one['name']}/{one['uid']}" for one in made)
    world.add(NODE_CLAIMS, wire.claim(annotations=FrozenDict({PROMISED_TO: named})))
    world.promises.make("claim", [the_pod(world, "one"), the_pod(world, "two")])
    return world


def a_waiting_pod(world: World, name: str, **spec: Any) -> dict[str, Any]:
    pod = wire.pod(name, node="", phase="Pending", **spec)
    pod["metadata"]["labels"] = {"app": "web"}
    found: dict[str, Any] = world.add(PODS, pod)["metadata"]
    return found


def join(world: World) -> World:
    """Have the claim's node join, not ready yet."""
    world.add(NODES, wire.node(provider_id=world.claim().provider_id, ready=False))
    return world


def the_pod(world: World, name: str) -> Pod:
    found = world.mirror.pod("default", name)
    assert found is not None
    return found


def nominated(world: World) -> list[str]:
    return [the_pod(world, name).nominated_node for name in ("one", "two")]


def nominate(world: World, name: str, node: str | None) -> None:
    """Write what kube-scheduler would."""
    status: dict[str, Any] = {"status": {"nominatedNodeName": node}}
    world.patch(PODS, name, status, "default", subresource="status")


def test_pods_are_nominated_for_their_node_before_anybody_may_come_to_it() -> None:
    world = join(a_world())

    assert nominated(world) == ["node", "node"]
    touched = [about for _, about in world.writes if about.startswith(("Pod/", "Node/"))]
    assert touched[:3] == ["Pod/one", "Pod/two", "Node/node"]


def test_without_the_gate_nobody_is_nominated() -> None:
    world = join(a_world(Gates(NominatedNodeName=False)))

    assert nominated(world) == ["", ""]
    assert world.claim().node_name == "node"


def test_a_pod_that_has_found_a_place_is_not_nominated() -> None:
    world = a_world()
    world.add(NODES, wire.node("other", provider_id="aws:///a/i-other"))
    world.api.bind("one", "default", {"target": {"name": "other"}})
    world.wait(0)

    join(world)

    assert nominated(world) == ["", "node"]


def test_pods_of_one_spread_are_nominated_one_after_the_other() -> None:
    world = join(a_world(topologySpreadConstraints=[SPREAD]))
    make_ready(world)
    assert nominated(world) == ["node", ""]

    world.api.bind("one", "default", {"target": {"name": "node"}})
    world.wait(0)

    assert nominated(world) == ["", "node"]


def test_whom_kube_scheduler_has_forgotten_is_nominated_again_once_the_node_is_ready() -> None:
    world = join(a_world())
    nominate(world, "one", None)
    world.wait(10)
    assert nominated(world) == ["", "node"]

    make_ready(world)

    assert nominated(world) == ["node", "node"]


def test_and_again_while_the_last_taints_are_on_their_way_out() -> None:
    world = join(a_world())
    make_ready(world)

    nominate(world, "one", None)
    world.wait(3)

    assert nominated(world) == ["node", "node"]


def test_a_pod_for_which_others_leave_another_node_is_not_nominated_away() -> None:
    world = a_world()
    world.add(NODES, wire.node("other", provider_id="aws:///a/i-other"))
    nominate(world, "one", "other")

    join(world)

    assert nominated(world) == ["other", "node"]


def test_who_may_not_nominate_still_registers_the_node() -> None:
    world = a_world()
    world.faults.fail("patch status", PODS, *(Forbidden("no") for _ in range(9)))

    join(world)

    assert nominated(world) == ["", ""]
    assert world.claim().node_name == "node"
    assert world.log.said("could not nominate pods")


def test_a_pod_to_which_kube_scheduler_has_not_come_yet_keeps_its_node() -> None:
    world = join(a_world())
    make_ready(world)
    world.wait(60)

    world.promises.lapse(world.now)

    assert world.promises.holds(the_pod(world, "one"))
    assert nominated(world) == ["node", "node"]


def test_whom_kube_scheduler_refuses_on_the_ready_node_is_planned_for_anew() -> None:
    world = join(a_world())
    make_ready(world)
    world.wait(60)
    nominate(world, "one", None)
    nominate(world, "two", None)
    world.wait(0)

    world.promises.lapse(world.now)

    assert nominated(world) == ["", ""]
    assert not world.promises.holds(the_pod(world, "one"))


def test_after_five_minutes_a_nomination_is_void_whatever_the_reason() -> None:
    world = join(a_world())
    make_ready(world)
    world.wait(301)

    world.promises.lapse(world.now)
    world.wait(3)

    assert nominated(world) == ["", ""]


def test_a_nomination_stands_as_long_as_the_promise() -> None:
    world = join(a_world())

    world.wait(600)

    assert nominated(world) == ["node", "node"]


def test_a_pod_whose_promise_is_over_may_be_planned_for_again() -> None:
    world = join(a_world())
    make_ready(world)

    world.promises.release([the_pod(world, "one")])
    world.wait(3)

    assert nominated(world) == ["", "node"]


def test_a_nomination_outlives_a_restart_while_its_node_is_coming() -> None:
    world = join(a_world())

    world.restart()
    world.wait(3)
    assert nominated(world) == ["node", "node"]

    make_ready(world)
    world.wait(3)
    assert nominated(world) == ["", ""]


def test_a_node_that_is_gone_takes_nobody() -> None:
    world = join(a_world())
    world.promises.release([the_pod(world, "one")])

    nominate(world, "one", "gone")
    world.wait(3)

    assert nominated(world) == ["", "node"]


def test_a_pod_for_which_others_have_to_leave_is_left_to_kube_scheduler() -> None:
    world = join(a_world())
    make_ready(world)
    world.promises.release([the_pod(world, "one"), the_pod(world, "two")])
    world.add(PODS, wire.pod("victim", terminationGracePeriodSeconds=60))
    world.delete(PODS, "victim", "default")

    nominate(world, "one", "node")
    world.wait(3)

    assert nominated(world)[0] == "node"


def test_a_nomination_for_a_node_that_was_not_bought_for_the_pod_is_none_of_ours() -> None:
    world = join(a_world())
    world.promises.release([the_pod(world, "one")])
    world.add(NODES, wire.node("other", provider_id="aws:///a/i-other"))

    nominate(world, "one", "other")
    world.wait(3)

    assert nominated(world) == ["other", "node"]


def make_ready(world: World) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    world.patch(NODES, "node", {"status": {"conditions": conditions}}, subresource="status")
    world.wait(0)
