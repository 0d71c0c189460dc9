"""Initialization: IN1–IN10 and IN17 of the lifecycle checklist; DRA (IN11–IN16) is not there."""

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

BOOTING = Taint("booting", TaintEffect.NO_SCHEDULE)
GPU = "nvidia.com/gpu"
SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def joined(*, node: dict[str, object] | None = None, **claim: object) -> ControllerEnvironment:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim(**claim))
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, **(node or {})))
    return env


def initialized(env: ControllerEnvironment) -> tuple[str, str]:
    return condition(env.claim().conditions, "Initialized")


def test_complete_node_is_initialized_at_once() -> None:
    env = joined()

    assert initialized(env) == ("True", "Initialized")
    assert condition(env.claim().conditions, "Ready") == ("True", "Ready")
    assert env.node().labels[label_keys.INITIALIZED] == "true"
    assert len(env.log.entries("initialized nodeclaim")) == 1


def test_unregistered_nodeclaim_is_not_initialized() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)

    env.add(NODE_CLAIMS, manifests.claim())

    assert initialized(env) == ("Unknown", "AwaitingReconciliation")


def test_initialization_waits_for_readiness() -> None:
    env = joined(node={"ready": False})

    assert initialized(env) == ("Unknown", "NodeNotReady")
    env.patch(NODES, "node", READY, subresource="status")
    assert initialized(env) == ("True", "Initialized")


def test_initialization_waits_for_requested_extended_resources() -> None:
    env = joined(requests={"cpu": 1, GPU: 1}, node={"size": {**SIZE, GPU: "0"}})

    assert initialized(env) == ("Unknown", "ResourceNotRegistered")
    size = {"capacity": {**SIZE, GPU: "1"}, "allocatable": {**SIZE, GPU: "1"}}
    env.patch(NODES, "node", {"status": size}, subresource="status")
    assert initialized(env) == ("True", "Initialized")


def test_initialization_waits_for_removal_of_startup_taints() -> None:
    env = joined(startup_taints=(BOOTING,))

    held = env.claim().conditions["Initialized"]
    assert (held.status, held.reason) == ("Unknown", "StartupTaintsExist")
    assert str(BOOTING) in held.message
    env.patch(NODES, "node", {"spec": {"taints": None}})
    assert initialized(env) == ("True", "Initialized")


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE),
        Taint("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE),
        Taint("node.kubernetes.io/unreachable", TaintEffect.NO_SCHEDULE),
        Taint("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect.NO_SCHEDULE, "true"),
        Taint("readiness.k8s.io/network", TaintEffect.NO_SCHEDULE, "pending"),
    ],
    ids=str,
)
def test_initialization_waits_for_removal_of_ephemeral_taints(taint: Taint) -> None:
    env = joined(node={"taints": (taint,)})

    assert initialized(env) == ("Unknown", "KnownEphemeralTaintsExist")
    env.patch(NODES, "node", {"spec": {"taints": None}})
    assert initialized(env) == ("True", "Initialized")


def test_initialization_is_never_undone() -> None:
    env = joined()

    env.patch(
        NODES,
        "node",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        subresource="status",
    )

    assert initialized(env) == ("True", "Initialized")


def test_deleting_nodeclaim_stays_ready_at_its_newer_generation() -> None:
    env = joined()

    env.delete(NODE_CLAIMS, "claim")

    claim = env.claim()
    assert claim.generation == 2
    assert condition(claim.conditions, "Ready") == ("True", "Ready")


def test_second_reconcile_changes_nothing() -> None:
    env = joined()
    before = env.versions()

    env.manager.enqueue("nodeclaim.lifecycle", "claim")
    env.wait(3600)

    assert env.versions() == before
