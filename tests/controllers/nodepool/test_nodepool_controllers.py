"""All NodePool controllers together: NP1–NP10 of the lifecycle checklist."""

from dovetail.controllers.nodepool import counter, readiness, registration_health, validation
from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

ALL = (
    nodepool_hash.controller,
    readiness.controller,
    validation.controller,
    counter.controller,
    registration_health.controller,
)


def test_nodepools_of_another_provider_are_ignored() -> None:
    env = ControllerEnvironment().run(*ALL)

    env.add(NODE_POOLS, manifests.pool(template=NodeTemplate(node_class=manifests.FOREIGN_NODE_CLASS)))
    env.wait(60)

    assert env.writes == []


def test_second_reconcile_changes_nothing() -> None:
    env = ControllerEnvironment().run(*ALL)
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    env.add(NODE_POOLS, manifests.pool())
    env.wait(5)
    before = env.versions()

    for name in ("hash", "readiness", "validation", "counter", "registrationhealth"):
        env.manager.enqueue(f"nodepool.{name}", "default")
    env.restart().wait(3600)

    assert env.versions() == before
