"""Expiration: EX1–EX8 of the lifecycle checklist."""

from datetime import timedelta

from dovetail.controllers.nodeclaim import expiration
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

HOUR = 3600
HELD = ["test/held"]
DISRUPTED = "karpenter_nodeclaims_disrupted_total"
INITIATED = "karpenter_pods_disruption_initiated_total"


def an_environment(**claim: object) -> ControllerEnvironment:
    env = ControllerEnvironment().run(expiration.controller)
    env.add(NODE_CLAIMS, manifests.claim(finalizers=HELD, **claim))
    return env


def test_nodeclaim_is_deleted_when_it_expires() -> None:
    env = an_environment(expire_after=timedelta(hours=2))

    env.wait(2 * HOUR - 1)
    before = env.claim().deleting
    env.wait(1)

    assert not before
    assert env.claim().deleting
    assert env.metrics.total(DISRUPTED, reason="expired", termination_mode="graceful") == 1


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = an_environment(expire_after=timedelta(hours=2), node_class=manifests.FOREIGN_NODE_CLASS)

    env.wait(3 * HOUR)

    assert not env.claim().deleting


def test_nodeclaim_without_expiry_is_kept() -> None:
    env = an_environment(expire_after=None)

    env.wait(10_000 * HOUR)

    assert not env.claim().deleting


def test_age_of_the_nodeclaim_counts_not_of_the_node() -> None:
    env = an_environment(expire_after=timedelta(hours=2), provider_id="aws:///a/i-1")
    env.wait(HOUR)
    env.add(NODES, manifests.node(provider_id="aws:///a/i-1"))

    env.wait(HOUR)

    assert env.claim().deleting


def test_deleting_nodeclaim_is_not_counted() -> None:
    env = an_environment(expire_after=timedelta(hours=2))
    env.delete(NODE_CLAIMS, "claim")

    env.wait(3 * HOUR)

    assert env.metrics.total(DISRUPTED) == 0


def test_only_reschedulable_pods_are_counted() -> None:
    env = an_environment(
        expire_after=timedelta(hours=2), node_name="node", provider_id="aws:///us-east-1a/i-1"
    )
    env.add(NODES, manifests.node(provider_id="aws:///us-east-1a/i-1"))
    env.add(PODS, manifests.pod("app"))
    daemon = manifests.owner("DaemonSet", "agent", uid="1", controller=True)
    env.api.create(PODS, manifests.pod("agent", owner=daemon))

    env.wait(2 * HOUR)

    assert env.metrics.total(INITIATED, reason="expired") == 1


def test_expiration_ignores_budgets_and_annotations() -> None:
    env = ControllerEnvironment().run(expiration.controller)
    env.add(NODE_POOLS, manifests.pool(disruption=Disruption(budgets=(Budget(nodes="0"),))))
    env.add(
        NODE_CLAIMS,
        manifests.claim(
            finalizers=HELD,
            expire_after=timedelta(hours=2),
            annotations=FrozenDict({label_keys.DO_NOT_DISRUPT: "true"}),
        ),
    )

    env.wait(2 * HOUR)

    assert env.claim().deleting


def test_nodeclaim_that_expired_during_downtime_is_deleted_at_once() -> None:
    env = an_environment(expire_after=timedelta(hours=2)).crash().wait(3 * HOUR)

    env.run(expiration.controller)

    assert env.claim().deleting


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment(expire_after=timedelta(hours=2)).wait(3 * HOUR)
    before = env.versions()

    env.manager.enqueue("nodeclaim.expiration", "claim")
    env.wait(HOUR)

    assert env.versions() == before
    assert env.metrics.total(DISRUPTED) == 1
