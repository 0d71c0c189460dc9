"""NodePool readiness: NP6 of the lifecycle checklist."""

from dovetail.controllers.nodepool import readiness, validation
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests


def test_nodepool_without_node_class_is_not_ready() -> None:
    env = ControllerEnvironment().run(readiness.controller)

    env.add(NODE_POOLS, manifests.pool())

    assert condition(env.pool().conditions, "NodeClassReady") == ("False", "NodeClassNotFound")
    assert not env.pool().ready


def test_valid_nodepool_with_ready_node_class_is_ready() -> None:
    env = ControllerEnvironment().run(readiness.controller, validation.controller)
    env.add(NODE_POOLS, manifests.pool())

    env.add(EC2_NODE_CLASSES, manifests.node_class())

    assert condition(env.pool().conditions, "NodeClassReady") == ("True", "NodeClassReady")
    assert condition(env.pool().conditions, "Ready") == ("True", "Ready")
    assert env.pool().ready


def test_nodepool_has_the_reason_of_its_unready_node_class() -> None:
    env = ControllerEnvironment().run(readiness.controller)
    env.add(NODE_POOLS, manifests.pool())
    not_ready = manifests.node_class(ready=False)
    not_ready["status"]["conditions"][0] |= {"reason": "UnhealthyDependents", "message": "no AMI"}

    env.add(EC2_NODE_CLASSES, not_ready)

    ready = env.pool().conditions["NodeClassReady"]
    assert (ready.status, ready.reason) == ("False", "UnhealthyDependents")
    assert ready.message == "no AMI"


def test_unresolved_node_class_is_not_ready() -> None:
    env = ControllerEnvironment().run(readiness.controller)
    env.add(NODE_POOLS, manifests.pool())

    env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))

    assert condition(env.pool().conditions, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")


def test_deleting_node_class_is_not_ready() -> None:
    env = ControllerEnvironment().run(readiness.controller)
    env.add(NODE_POOLS, manifests.pool())
    node_class = manifests.node_class()
    node_class["metadata"]["finalizers"] = ["test/held"]
    env.add(EC2_NODE_CLASSES, node_class)

    env.delete(EC2_NODE_CLASSES, "default")

    assert condition(env.pool().conditions, "NodeClassReady") == ("False", "NodeClassTerminating")
