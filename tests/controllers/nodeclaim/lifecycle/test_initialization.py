"""Initialization: IN1–IN10 and IN17 of the lifecycle checklist; DRA (IN11–IN16) is not there."""

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import Effect, Taint
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support import wire
from tests.support.world import World, condition

BOOTING = Taint("booting", Effect.NO_SCHEDULE)
GPU = "nvidia.com/gpu"
SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def joined(*, node: dict[str, object] | None = None, **claim: object) -> World:
    world = World().run(lifecycle.registration)
    world.add(NODE_CLAIMS, wire.claim(**claim))
    world.add(NODES, wire.node(provider_id=world.claim().provider_id, **(node or {})))
    return world


def initialized(world: World) -> tuple[str, str]:
    return condition(world.claim().conditions, "Initialized")


def test_a_complete_node_is_initialized_at_once() -> None:
    world = joined()

    assert initialized(world) == ("True", "Initialized")
    assert condition(world.claim().conditions, "Ready") == ("True", "Ready")
    assert world.node().labels[label_keys.INITIALIZED] == "true"
    assert len(world.log.said("initialized nodeclaim")) == 1


def test_a_claim_that_is_not_registered_is_never_initialized() -> None:
    world = World().run(lifecycle.registration)

    world.add(NODE_CLAIMS, wire.claim())

    assert initialized(world) == ("Unknown", "AwaitingReconciliation")


def test_a_node_that_is_not_ready_is_waited_for() -> None:
    world = joined(node={"ready": False})

    assert initialized(world) == ("Unknown", "NodeNotReady")
    world.patch(NODES, "node", READY, subresource="status")
    assert initialized(world) == ("True", "Initialized")


def test_a_requested_device_must_have_been_reported() -> None:
    world = joined(requests={"cpu": 1, GPU: 1}, node={"size": {**SIZE, GPU: "0"}})

    assert initialized(world) == ("Unknown", "ResourceNotRegistered")
    size = {"capacity": {**SIZE, GPU: "1"}, "allocatable": {**SIZE, GPU: "1"}}
    world.patch(NODES, "node", {"status": size}, subresource="status")
    assert initialized(world) == ("True", "Initialized")


def test_startup_taints_are_waited_for() -> None:
    world = joined(startup_taints=(BOOTING,))

    held = world.claim().conditions["Initialized"]
    assert (held.status, held.reason) == ("Unknown", "StartupTaintsExist")
    assert str(BOOTING) in held.message
    world.patch(NODES, "node", {"spec": {"taints": None}})
    assert initialized(world) == ("True", "Initialized")


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/not-ready", Effect.NO_SCHEDULE),
        Taint("node.kubernetes.io/not-ready", Effect.NO_EXECUTE),
        Taint("node.kubernetes.io/unreachable", Effect.NO_SCHEDULE),
        Taint("node.cloudprovider.kubernetes.io/uninitialized", Effect.NO_SCHEDULE, "true"),
        Taint("readiness.k8s.io/network", Effect.NO_SCHEDULE, "pending"),
    ],
    ids=str,
)
def test_taints_of_a_starting_node_are_waited_for(taint: Taint) -> None:
    world = joined(node={"taints": (taint,)})

    assert initialized(world) == ("Unknown", "KnownEphemeralTaintsExist")
    world.patch(NODES, "node", {"spec": {"taints": None}})
    assert initialized(world) == ("True", "Initialized")


def test_initialization_does_not_go_back() -> None:
    world = joined()

    world.patch(
        NODES,
        "node",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        subresource="status",
    )

    assert initialized(world) == ("True", "Initialized")


def test_a_claim_that_is_being_deleted_stays_ready_at_its_newer_generation() -> None:
    world = joined()

    world.delete(NODE_CLAIMS, "claim")

    claim = world.claim()
    assert claim.generation == 2
    assert condition(claim.conditions, "Ready") == ("True", "Ready")


def test_a_second_pass_changes_nothing() -> None:
    world = joined()
    before = world.versions()

    world.runtime.ask("nodeclaim.lifecycle", "claim")
    world.wait(3600)

    assert world.versions() == before
