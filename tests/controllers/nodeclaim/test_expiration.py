"""Expiration: EX1–EX8 of the lifecycle checklist."""

from datetime import timedelta

from dovetail.controllers.nodeclaim import expiration
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import Budget, Disruption
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.support import wire
from tests.support.world import World

HOUR = 3600
HELD = ["test/held"]
DISRUPTED = "karpenter_nodeclaims_disrupted_total"
INITIATED = "karpenter_pods_disruption_initiated_total"


def a_world(**claim: object) -> World:
    world = World().run(expiration.registration)
    world.add(NODE_CLAIMS, wire.claim(finalizers=HELD, **claim))
    return world


def test_a_claim_goes_at_the_moment_it_expires() -> None:
    world = a_world(expire_after=timedelta(hours=2))

    world.wait(2 * HOUR - 1)
    before = world.claim().deleting
    world.wait(1)

    assert not before
    assert world.claim().deleting
    assert world.metrics.total(DISRUPTED, reason="expired", termination_mode="graceful") == 1


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    world = a_world(expire_after=timedelta(hours=2), node_class=wire.SOMEBODY_ELSES)

    world.wait(3 * HOUR)

    assert not world.claim().deleting


def test_a_claim_that_never_expires_stays() -> None:
    world = a_world(expire_after=None)

    world.wait(10_000 * HOUR)

    assert not world.claim().deleting


def test_the_claims_age_counts_and_not_the_nodes() -> None:
    world = a_world(expire_after=timedelta(hours=2), provider_id="aws:///a/i-1")
    world.wait(HOUR)
    world.add(NODES, wire.node(provider_id="aws:///a/i-1"))

    world.wait(HOUR)

    assert world.claim().deleting


def test_a_claim_that_goes_already_is_not_counted() -> None:
    world = a_world(expire_after=timedelta(hours=2))
    world.delete(NODE_CLAIMS, "claim")

    world.wait(3 * HOUR)

    assert world.metrics.total(DISRUPTED) == 0


def test_only_pods_that_need_another_node_are_counted() -> None:
    world = a_world(expire_after=timedelta(hours=2), node_name="node")
    world.add(NODES, wire.node())
    world.add(PODS, wire.pod("app"))
    daemon = wire.owner("DaemonSet", "agent", uid="1", controller=True)
    world.api.create(PODS, wire.pod("agent", owner=daemon))

    world.wait(2 * HOUR)

    assert world.metrics.total(INITIATED, reason="expired") == 1


def test_neither_budgets_nor_annotations_hold_it_back() -> None:
    world = World().run(expiration.registration)
    world.add(NODE_POOLS, wire.pool(disruption=Disruption(budgets=(Budget(nodes="0"),))))
    world.add(
        NODE_CLAIMS,
        wire.claim(
            finalizers=HELD,
            expire_after=timedelta(hours=2),
            annotations=FrozenDict({label_keys.DO_NOT_DISRUPT: "true"}),
        ),
    )

    world.wait(2 * HOUR)

    assert world.claim().deleting


def test_a_claim_that_expired_while_nobody_ran_goes_at_once() -> None:
    world = a_world(expire_after=timedelta(hours=2)).crash().wait(3 * HOUR)

    world.run(expiration.registration)

    assert world.claim().deleting


def test_a_second_pass_changes_nothing() -> None:
    world = a_world(expire_after=timedelta(hours=2)).wait(3 * HOUR)
    before = world.versions()

    world.runtime.ask("nodeclaim.expiration", "claim")
    world.wait(HOUR)

    assert world.versions() == before
    assert world.metrics.total(DISRUPTED) == 1
