"""Hydration: HY1–HY2 of the lifecycle checklist."""

from dovetail.controllers.nodeclaim import hydration
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

PROVIDER_ID = "aws:///a/i-1"
OLD = {label_keys.EC2_NODE_CLASS: ""}


def test_nodeclaims_and_nodes_without_the_label_get_it() -> None:
    env = ControllerEnvironment()
    env.add(NODE_CLAIMS, manifests.claim(labels=OLD, provider_id=PROVIDER_ID))
    env.add(NODES, manifests.node(provider_id=PROVIDER_ID))

    env.run(hydration.controller)

    assert env.claim().labels[label_keys.EC2_NODE_CLASS] == "default"
    assert env.node().labels[label_keys.EC2_NODE_CLASS] == "default"


def test_nodeclaims_and_nodes_of_another_provider_are_ignored() -> None:
    env = ControllerEnvironment().run(hydration.controller)

    env.add(
        NODE_CLAIMS,
        manifests.claim(labels=OLD, provider_id=PROVIDER_ID, node_class=manifests.FOREIGN_NODE_CLASS),
    )
    env.add(NODES, manifests.node(provider_id=PROVIDER_ID))

    assert env.writes == []


def test_second_reconcile_changes_nothing() -> None:
    env = ControllerEnvironment().run(hydration.controller)
    env.add(NODE_CLAIMS, manifests.claim(labels=OLD, provider_id=PROVIDER_ID))
    before = env.versions()

    env.manager.enqueue("nodeclaim.hydration", "claim")
    env.wait(0)

    assert env.versions() == before
