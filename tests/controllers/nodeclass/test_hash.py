"""Hashes on node classes and their claims: 27 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.controllers.nodeclass import hash as classstamping
from dovetail.core.nodeclass.hash import CLASS_HASH_VERSION
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from tests.support import wire
from tests.support.world import World

HASH, VERSION = label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION
OLD = FrozenDict({HASH: "1", VERSION: "v6"})


def stamps(world: World, resource: Any, name: str) -> tuple[str | None, str | None]:
    noted = world.get(resource, name)["metadata"].get("annotations", {})
    return noted.get(HASH), noted.get(VERSION)


def a_world() -> World:
    world = World()
    world.add(NODE_CLAIMS, wire.claim("plain", annotations=OLD))
    drifted = FrozenDict({"Drifted": Condition(status=TRUE, reason="AMIDrift")})
    world.add(NODE_CLAIMS, wire.claim("drifted", annotations=OLD, conditions=drifted))
    world.add(NODE_CLAIMS, wire.claim("others", annotations=OLD, node_class=wire.SOMEBODY_ELSES))
    return world


def test_a_class_of_other_rules_and_its_claims_are_stamped_anew() -> None:
    world = a_world()

    world.run(classstamping.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())

    ours = stamps(world, EC2_NODE_CLASSES, "default")
    assert ours[1] == CLASS_HASH_VERSION
    assert stamps(world, NODE_CLAIMS, "plain") == ours
    assert stamps(world, NODE_CLAIMS, "drifted") == ("1", CLASS_HASH_VERSION)
    assert stamps(world, NODE_CLAIMS, "others") == ("1", "v6")


def test_a_changed_class_has_another_hash_and_its_claims_keep_theirs() -> None:
    world = a_world()
    world.run(classstamping.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())
    before = stamps(world, NODE_CLAIMS, "plain")

    world.patch(EC2_NODE_CLASSES, "default", {"spec": {"userData": "other"}})

    assert stamps(world, EC2_NODE_CLASSES, "default") != before
    assert stamps(world, NODE_CLAIMS, "plain") == before


@pytest.mark.parametrize("writes", [1, 2])
def test_controllers_killed_after_any_write_finish_after_a_restart(writes: int) -> None:
    world = a_world()
    world.die_after(writes)
    world.run(classstamping.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())

    world.restart()

    ours = stamps(world, EC2_NODE_CLASSES, "default")
    assert ours[1] == CLASS_HASH_VERSION
    assert stamps(world, NODE_CLAIMS, "plain") == ours
    assert stamps(world, NODE_CLAIMS, "drifted") == ("1", CLASS_HASH_VERSION)


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    world.run(classstamping.registration)
    world.add(EC2_NODE_CLASSES, wire.node_class())
    before = world.versions()

    world.wait(600)

    assert world.versions() == before
