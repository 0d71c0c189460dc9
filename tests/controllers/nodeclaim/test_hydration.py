"""Hydration: HY1–HY2 of the lifecycle checklist."""

from dovetail.controllers.nodeclaim import hydration
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support import wire
from tests.support.world import World

MACHINE = "aws:///a/i-1"
OLD = {label_keys.EC2_NODE_CLASS: ""}


def test_claims_and_nodes_of_old_get_the_label_of_their_class() -> None:
    world = World()
    world.add(NODE_CLAIMS, wire.claim(labels=OLD, provider_id=MACHINE))
    world.add(NODES, wire.node(provider_id=MACHINE))

    world.run(hydration.registration)

    assert world.claim().labels[label_keys.EC2_NODE_CLASS] == "default"
    assert world.node().labels[label_keys.EC2_NODE_CLASS] == "default"


def test_claims_and_nodes_of_somebody_elses_are_left_alone() -> None:
    world = World().run(hydration.registration)

    world.add(
        NODE_CLAIMS,
        wire.claim(labels=OLD, provider_id=MACHINE, node_class=wire.SOMEBODY_ELSES),
    )
    world.add(NODES, wire.node(provider_id=MACHINE))

    assert world.writes == []


def test_a_second_pass_changes_nothing() -> None:
    world = World().run(hydration.registration)
    world.add(NODE_CLAIMS, wire.claim(labels=OLD, provider_id=MACHINE))
    before = world.versions()

    world.runtime.ask("nodeclaim.hydration", "claim")
    world.wait(0)

    assert world.versions() == before
