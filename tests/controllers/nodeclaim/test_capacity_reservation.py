"""Capacity reservations: 138 of the AWS checklist."""

from typing import Any

import msgspec
import pytest

from dovetail.controllers.nodeclaim import capacity_reservation
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from tests.support.controllers.cloud_provider import TYPE, ZONE
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

LABELS = FrozenDict(
    {
        label_keys.INSTANCE_TYPE: TYPE,
        label_keys.ZONE: ZONE,
        label_keys.CAPACITY_TYPE: label_keys.RESERVED,
        label_keys.CAPACITY_RESERVATION_ID: "cr-1",
        label_keys.CAPACITY_RESERVATION_TYPE: "default",
        label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: "false",
    }
)


def an_environment() -> ControllerEnvironment:
    """Return an environment with a NodeClaim in a capacity reservation."""
    env = ControllerEnvironment()
    env.cloud.labels = LABELS
    env.run(lifecycle.controller, capacity_reservation.controller)
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
    return env


def set_capacity_type(env: ControllerEnvironment, capacity_type: str) -> None:
    for provider_id, instance in env.cloud.instances.items():
        changed = msgspec.structs.replace(instance, capacity_type=capacity_type)
        env.cloud.instances[provider_id] = changed


def a_node_class(kind: str, state: str) -> dict[str, Any]:
    reservation = {
        "id": "cr-1",
        "instanceType": TYPE,
        "availabilityZone": ZONE,
        "reservationType": kind,
        "state": state,
    }
    node_class = manifests.node_class()
    node_class["status"]["capacityReservations"] = [reservation]
    return node_class


def test_nodeclaim_in_its_reservation_is_unchanged() -> None:
    env = an_environment()

    env.wait(600)

    assert LABELS.items() <= env.claim().labels.items()


def test_nodeclaim_outside_its_reservation_becomes_on_demand_within_a_minute() -> None:
    env = an_environment()

    set_capacity_type(env, label_keys.ON_DEMAND)
    env.wait(60)

    for labels in (env.claim().labels, env.node().labels):
        assert labels[label_keys.CAPACITY_TYPE] == label_keys.ON_DEMAND
        assert not [key for key in labels if "capacity-reservation" in key]


def test_missing_instance_changes_no_labels() -> None:
    env = an_environment()

    env.cloud.remove_instance(env.claim().provider_id)
    env.wait(120)

    assert LABELS.items() <= env.claim().labels.items()


@pytest.mark.parametrize(
    ("kind", "state", "is_deleted"),
    [("capacity-block", "expiring", True), ("capacity-block", "active", False), ("default", "active", False)],
)
def test_nodeclaim_in_an_expiring_capacity_block_is_deleted(kind: str, state: str, is_deleted: bool) -> None:
    env = an_environment()

    env.add(EC2_NODE_CLASSES, a_node_class(kind, state))
    env.wait(60)

    claim = env.get(NODE_CLAIMS, "claim")
    assert (claim is None or "deletionTimestamp" in claim["metadata"]) == is_deleted


def test_nodeclaims_without_reservation_need_no_cloud_call() -> None:
    env = ControllerEnvironment().run(lifecycle.controller, capacity_reservation.controller)
    env.add(NODE_CLAIMS, manifests.claim())
    calls = len(env.cloud.calls("get"))

    env.wait(600)

    assert len(env.cloud.calls("get")) == calls


@pytest.mark.parametrize("writes", [1, 2])
def test_controllers_that_crash_between_node_and_nodeclaim_relabel_both_after_a_restart(writes: int) -> None:
    env = an_environment()
    set_capacity_type(env, label_keys.ON_DEMAND)
    env.crash_after(writes)
    env.wait(60)

    env.restart().wait(60)

    for labels in (env.claim().labels, env.node().labels):
        assert labels[label_keys.CAPACITY_TYPE] == label_keys.ON_DEMAND


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    set_capacity_type(env, label_keys.ON_DEMAND)
    env.wait(60)
    before = env.versions()

    env.restart().wait(600)

    assert env.versions() == before
