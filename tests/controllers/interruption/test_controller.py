"""Interruptions: 130–134 of the AWS checklist, as far as the queue is behind a port."""

from functools import partial

import pytest

from dovetail.controllers.interruption import controller as interruption
from dovetail.model import labels as label_keys
from dovetail.model.settings import InterruptionSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError, Interruption, Message
from dovetail.ports.kube_errors import InternalError
from dovetail.state.instancetypes.unavailable_offerings import Scarce
from tests.support import wire
from tests.support.world import Factory, World

HELD = ["test/held"]
LABELS = {label_keys.ZONE: "us-east-1a", label_keys.INSTANCE_TYPE: "m5.large"}
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def machine(number: int) -> str:
    return f"aws:///us-east-1a/i-{number}"


ACTS_ON_REBALANCE = partial(
    interruption.registration,
    interruption_settings=InterruptionSettings(act_on_rebalance=True),
)


def a_world(claims: int = 1, *, run: Factory = interruption.registration) -> World:
    world = World().run(run)
    for number in range(claims):
        made = wire.claim(
            f"claim-{number}", finalizers=HELD, labels=LABELS, provider_id=machine(number)
        )
        world.add(NODE_CLAIMS, made)
        world.add(NODES, wire.node(f"node-{number}", provider_id=machine(number)))
    return world


def warn(world: World, kind: Interruption, *numbers: int) -> World:
    """Have a warning arrive, and let it be taken."""
    ids = tuple(f"i-{number}" for number in numbers)
    name = f"message-{len(world.cloud.asked)}-{numbers}"
    world.cloud.messages.append(Message(id=name, kind=kind, instance_ids=ids, sent=world.now))
    return world.wait(1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Interruption.SPOT, "SpotInterrupted"),
        (Interruption.SCHEDULED_CHANGE, "InstanceUnhealthy"),
        (Interruption.STOPPING, "InstanceStopping"),
        (Interruption.TERMINATING, "InstanceTerminating"),
        (Interruption.RESERVATION, "CapacityReservationInstanceInterrupted"),
    ],
)
def test_a_machine_about_to_go_is_drained(kind: Interruption, reason: str) -> None:
    world = warn(a_world(2), kind, 0)

    assert world.claim("claim-0").deleting
    assert not world.claim("claim-1").deleting
    assert world.cloud.messages == []
    for name in ("claim-0", "node-0"):
        assert world.events.about(name) == [reason, "TerminatingOnInterruption"]
    assert world.metrics.total(DISRUPTED, reason=kind) == 1


def test_a_recommendation_is_only_told() -> None:
    world = warn(a_world(), Interruption.REBALANCE, 0)

    assert not world.claim("claim-0").deleting
    assert world.events.about("claim-0") == ["SpotRebalanceRecommendation"]
    assert world.cloud.messages == []


def test_a_recommendation_is_acted_on_where_users_want_that() -> None:
    world = warn(a_world(run=ACTS_ON_REBALANCE), Interruption.REBALANCE, 0)

    assert world.claim("claim-0").deleting
    told = ["SpotRebalanceRecommendation", "TerminatingOnInterruption"]
    assert world.events.about("claim-0") == told
    assert world.metrics.total(DISRUPTED, reason="rebalance_recommendation") == 1


def test_what_is_at_risk_is_not_bought_again_in_its_own_place() -> None:
    world = warn(a_world(run=ACTS_ON_REBALANCE), Interruption.REBALANCE, 0)

    at_risk = Scarce(capacity_type="spot", instance_type="m5.large", zone="us-east-1a")
    assert world.scarcity.marks(world.now) == {at_risk}


def test_a_recommendation_that_is_only_told_makes_nothing_scarce() -> None:
    world = warn(a_world(), Interruption.REBALANCE, 0)

    assert world.scarcity.marks(world.now) == frozenset()


def test_a_message_about_nothing_is_only_removed() -> None:
    world = warn(a_world(), Interruption.NOTHING)

    assert world.cloud.messages == []
    assert world.writes == []
    received = "karpenter_interruption_received_messages_total"
    assert world.metrics.total(received, message_type="no_op") == 1


def test_a_reservation_that_was_taken_back_counts_as_empty() -> None:
    world = warn(a_world(), Interruption.RESERVATION, 0)

    empty = Scarce(capacity_type="reserved", instance_type="m5.large", zone="us-east-1a")
    assert world.scarcity.marks(world.now) == {empty}


def test_the_same_message_twice_disrupts_once() -> None:
    world = warn(a_world(), Interruption.SPOT, 0)

    warn(world, Interruption.SPOT, 0)

    assert world.metrics.total(DISRUPTED) == 1
    assert world.cloud.messages == []


def test_a_hundred_warnings_at_once_are_all_taken() -> None:
    world = a_world(100)
    world.cloud.messages = [
        Message(id=str(number), kind=Interruption.SPOT, instance_ids=(f"i-{number}",))
        for number in range(100)
    ]

    world.wait(1)

    assert all(world.claim(f"claim-{number}").deleting for number in range(100))
    assert world.cloud.messages == []


def test_what_was_taken_back_is_left_alone_for_a_while() -> None:
    world = warn(a_world(), Interruption.SPOT, 0)

    taken = Scarce(capacity_type="spot", instance_type="m5.large", zone="us-east-1a")
    assert world.scarcity.marks(world.now) == {taken}


def test_only_spot_says_that_something_is_scarce() -> None:
    world = warn(a_world(), Interruption.TERMINATING, 0)

    assert world.scarcity.marks(world.now) == frozenset()


def test_a_machine_that_is_not_ours_is_no_matter() -> None:
    world = warn(a_world(), Interruption.SPOT, 7)

    assert world.cloud.messages == []
    assert world.writes == []


def test_a_claim_that_goes_already_is_not_deleted_twice() -> None:
    world = a_world()
    world.delete(NODE_CLAIMS, "claim-0")

    warn(world, Interruption.SPOT, 0)

    assert world.metrics.total(DISRUPTED) == 0
    assert world.cloud.messages == []


def test_a_message_that_could_not_be_acted_on_comes_again() -> None:
    world = a_world()
    world.faults.fail("delete", NODE_CLAIMS, InternalError("etcd is away"))

    warn(world, Interruption.SPOT, 0).wait(1)

    assert world.claim("claim-0").deleting
    assert world.cloud.messages == []
    assert len(world.log.said("reconciler error")) == 1


def test_a_queue_that_does_not_answer_is_asked_again() -> None:
    world = a_world()
    world.cloud.fail("receive", *[CloudError("QueueDoesNotExist")] * 3)

    warn(world, Interruption.SPOT, 0).wait(2)

    assert world.claim("claim-0").deleting


def test_a_second_pass_changes_nothing() -> None:
    world = warn(a_world(), Interruption.SPOT, 0)
    before = world.versions()

    world.wait(60)

    assert world.versions() == before
