"""Hashes of node classes and their NodeClaims: 27 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.controllers.nodeclass import hash as nodeclass_hash
from dovetail.core.nodeclass.hash import NODECLASS_HASH_VERSION
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

HASH, VERSION = label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION
OLD = FrozenDict({HASH: "1", VERSION: "v6"})


def get_hash(env: ControllerEnvironment, resource: Any, name: str) -> tuple[str | None, str | None]:
    annotations = env.get(resource, name)["metadata"].get("annotations", {})
    return annotations.get(HASH), annotations.get(VERSION)


def an_environment() -> ControllerEnvironment:
    env = ControllerEnvironment()
    env.add(NODE_CLAIMS, manifests.claim("plain", annotations=OLD))
    drifted = FrozenDict({"Drifted": Condition(status=TRUE, reason="AMIDrift")})
    env.add(NODE_CLAIMS, manifests.claim("drifted", annotations=OLD, conditions=drifted))
    env.add(
        NODE_CLAIMS, manifests.claim("unsupported", annotations=OLD, node_class=manifests.FOREIGN_NODE_CLASS)
    )
    return env


def test_node_class_of_another_hash_version_and_its_nodeclaims_get_a_new_hash() -> None:
    env = an_environment()

    env.run(nodeclass_hash.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())

    expected = get_hash(env, EC2_NODE_CLASSES, "default")
    assert expected[1] == NODECLASS_HASH_VERSION
    assert get_hash(env, NODE_CLAIMS, "plain") == expected
    assert get_hash(env, NODE_CLAIMS, "drifted") == ("1", NODECLASS_HASH_VERSION)
    assert get_hash(env, NODE_CLAIMS, "unsupported") == ("1", "v6")


def test_changed_node_class_gets_a_new_hash_and_its_nodeclaims_keep_theirs() -> None:
    env = an_environment()
    env.run(nodeclass_hash.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    before = get_hash(env, NODE_CLAIMS, "plain")

    env.patch(EC2_NODE_CLASSES, "default", {"spec": {"userData": "other"}})

    assert get_hash(env, EC2_NODE_CLASSES, "default") != before
    assert get_hash(env, NODE_CLAIMS, "plain") == before


@pytest.mark.parametrize("writes", [1, 2])
def test_controllers_that_crash_after_any_write_finish_after_a_restart(writes: int) -> None:
    env = an_environment()
    env.crash_after(writes)
    env.run(nodeclass_hash.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())

    env.restart()

    expected = get_hash(env, EC2_NODE_CLASSES, "default")
    assert expected[1] == NODECLASS_HASH_VERSION
    assert get_hash(env, NODE_CLAIMS, "plain") == expected
    assert get_hash(env, NODE_CLAIMS, "drifted") == ("1", NODECLASS_HASH_VERSION)


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    env.run(nodeclass_hash.controller)
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    before = env.versions()

    env.wait(600)

    assert env.versions() == before
