"""NodePool registration health: NP7 of the lifecycle checklist."""

import pytest

from dovetail.controllers.nodepool import registration_health
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests


def test_registration_health_of_a_new_nodepool_is_unknown() -> None:
    env = ControllerEnvironment().run(registration_health.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())

    env.add(NODE_POOLS, manifests.pool())

    health = condition(env.pool().conditions, "NodeRegistrationHealthy")
    assert health == ("Unknown", "AwaitingReconciliation")


def test_nodepool_without_node_class_has_no_registration_health() -> None:
    env = ControllerEnvironment().run(registration_health.controller)

    env.add(NODE_POOLS, manifests.pool())

    assert env.writes == []


def with_health(status: str) -> ControllerEnvironment:
    env = ControllerEnvironment().run(registration_health.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    env.add(NODE_POOLS, manifests.pool())
    conditions = [
        {**condition, "status": status} if condition["type"] == "NodeRegistrationHealthy" else condition
        for condition in env.get(NODE_POOLS, "default")["status"]["conditions"]
    ]
    env.patch(NODE_POOLS, "default", {"status": {"conditions": conditions}}, subresource="status")
    env.launch_outcomes.record(env.pool(), False)
    return env


@pytest.mark.parametrize("status", ["True", "False"])
def test_registration_health_is_kept_while_nothing_changes(status: str) -> None:
    env = with_health(status)

    env.restart()

    assert condition(env.pool().conditions, "NodeRegistrationHealthy")[0] == status


def test_changed_node_class_resets_registration_health() -> None:
    env = with_health("True")

    env.patch(EC2_NODE_CLASSES, "default", {"spec": {"role": "others"}})

    assert condition(env.pool().conditions, "NodeRegistrationHealthy")[0] == "Unknown"
    assert env.pool().node_class_generation == 2
    assert env.launch_outcomes.get(env.pool()) == ()


def test_changed_nodepool_resets_registration_health() -> None:
    env = with_health("False")

    env.patch(NODE_POOLS, "default", {"spec": {"weight": 7}})

    assert condition(env.pool().conditions, "NodeRegistrationHealthy")[0] == "Unknown"
    assert env.launch_outcomes.get(env.pool()) == ()
