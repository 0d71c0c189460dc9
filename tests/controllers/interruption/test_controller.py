"""Interruptions: 130–134 of the AWS checklist, with a fake queue."""

from typing import Any

import pytest

from dovetail.controllers.interruption import controller as interruption
from dovetail.model import labels as label_keys
from dovetail.model.settings import InterruptionSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError, InterruptionKind, InterruptionMessage
from dovetail.ports.kube_errors import InternalError
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

HELD = ["test/held"]
LABELS = {label_keys.ZONE: "us-east-1a", label_keys.INSTANCE_TYPE: "m5.large"}
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def provider_id(number: int) -> str:
    return f"aws:///us-east-1a/i-{number}"


ACT_ON_REBALANCE = InterruptionSettings(act_on_rebalance=True)


def an_environment(claims: int = 1, **fields: Any) -> ControllerEnvironment:
    env = ControllerEnvironment().run(interruption.controller, **fields)
    for number in range(claims):
        claim = manifests.claim(
            f"claim-{number}", finalizers=HELD, labels=LABELS, provider_id=provider_id(number)
        )
        env.add(NODE_CLAIMS, claim)
        env.add(NODES, manifests.node(f"node-{number}", provider_id=provider_id(number)))
    return env


def interrupt(env: ControllerEnvironment, kind: InterruptionKind, *numbers: int) -> ControllerEnvironment:
    """Send a message and wait until it is handled."""
    ids = tuple(f"i-{number}" for number in numbers)
    name = f"message-{len(env.cloud.requests)}-{numbers}"
    env.interruptions.messages.append(
        InterruptionMessage(id=name, kind=kind, instance_ids=ids, sent_at=env.now)
    )
    return env.wait(1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (InterruptionKind.SPOT_INTERRUPTED, "SpotInterrupted"),
        (InterruptionKind.SCHEDULED_CHANGE, "InstanceUnhealthy"),
        (InterruptionKind.INSTANCE_STOPPED, "InstanceStopping"),
        (InterruptionKind.INSTANCE_TERMINATED, "InstanceTerminating"),
        (InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED, "CapacityReservationInstanceInterrupted"),
    ],
)
def test_interrupted_instance_is_drained(kind: InterruptionKind, reason: str) -> None:
    env = interrupt(an_environment(2), kind, 0)

    assert env.claim("claim-0").deleting
    assert not env.claim("claim-1").deleting
    assert env.interruptions.messages == []
    for name in ("claim-0", "node-0"):
        assert env.events.reasons(name) == [reason, "TerminatingOnInterruption"]
    assert env.metrics.total(DISRUPTED, reason=kind) == 1


def test_rebalance_recommendation_only_publishes_an_event() -> None:
    env = interrupt(an_environment(), InterruptionKind.REBALANCE_RECOMMENDATION, 0)

    assert not env.claim("claim-0").deleting
    assert env.events.reasons("claim-0") == ["SpotRebalanceRecommendation"]
    assert env.interruptions.messages == []


def test_rebalance_recommendation_deletes_the_nodeclaim_if_configured() -> None:
    env = interrupt(
        an_environment(interruption_settings=ACT_ON_REBALANCE), InterruptionKind.REBALANCE_RECOMMENDATION, 0
    )

    assert env.claim("claim-0").deleting
    reasons = ["SpotRebalanceRecommendation", "TerminatingOnInterruption"]
    assert env.events.reasons("claim-0") == reasons
    assert env.metrics.total(DISRUPTED, reason="rebalance_recommendation") == 1


def test_offering_of_an_acted_on_rebalance_recommendation_is_unavailable() -> None:
    env = interrupt(
        an_environment(interruption_settings=ACT_ON_REBALANCE), InterruptionKind.REBALANCE_RECOMMENDATION, 0
    )

    offering = UnavailableOffering(capacity_type="spot", instance_type="m5.large", zone="us-east-1a")
    assert env.unavailable_offerings.get(env.now) == {offering}


def test_ignored_rebalance_recommendation_keeps_the_offering_available() -> None:
    env = interrupt(an_environment(), InterruptionKind.REBALANCE_RECOMMENDATION, 0)

    assert env.unavailable_offerings.get(env.now) == frozenset()


def test_no_op_message_is_only_deleted() -> None:
    env = interrupt(an_environment(), InterruptionKind.NO_OP)

    assert env.interruptions.messages == []
    assert env.writes == []
    received = "karpenter_interruption_received_messages_total"
    assert env.metrics.total(received, message_type="no_op") == 1


def test_interrupted_reservation_is_unavailable() -> None:
    env = interrupt(an_environment(), InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED, 0)

    offering = UnavailableOffering(capacity_type="reserved", instance_type="m5.large", zone="us-east-1a")
    assert env.unavailable_offerings.get(env.now) == {offering}


def test_duplicate_message_disrupts_once() -> None:
    env = interrupt(an_environment(), InterruptionKind.SPOT_INTERRUPTED, 0)

    interrupt(env, InterruptionKind.SPOT_INTERRUPTED, 0)

    assert env.metrics.total(DISRUPTED) == 1
    assert env.interruptions.messages == []


def test_hundred_messages_are_handled_at_once() -> None:
    env = an_environment(100)
    env.interruptions.messages = [
        InterruptionMessage(
            id=str(number), kind=InterruptionKind.SPOT_INTERRUPTED, instance_ids=(f"i-{number}",)
        )
        for number in range(100)
    ]

    env.wait(1)

    assert all(env.claim(f"claim-{number}").deleting for number in range(100))
    assert env.interruptions.messages == []


def test_offering_of_a_spot_interruption_is_unavailable_for_a_while() -> None:
    env = interrupt(an_environment(), InterruptionKind.SPOT_INTERRUPTED, 0)

    offering = UnavailableOffering(capacity_type="spot", instance_type="m5.large", zone="us-east-1a")
    assert env.unavailable_offerings.get(env.now) == {offering}


def test_instance_termination_keeps_the_offering_available() -> None:
    env = interrupt(an_environment(), InterruptionKind.INSTANCE_TERMINATED, 0)

    assert env.unavailable_offerings.get(env.now) == frozenset()


def test_message_about_an_unmanaged_instance_is_ignored() -> None:
    env = interrupt(an_environment(), InterruptionKind.SPOT_INTERRUPTED, 7)

    assert env.interruptions.messages == []
    assert env.writes == []


def test_deleting_nodeclaim_is_not_deleted_again() -> None:
    env = an_environment()
    env.delete(NODE_CLAIMS, "claim-0")

    interrupt(env, InterruptionKind.SPOT_INTERRUPTED, 0)

    assert env.metrics.total(DISRUPTED) == 0
    assert env.interruptions.messages == []


def test_failed_message_is_delivered_again() -> None:
    env = an_environment()
    env.failing_client.fail("delete", NODE_CLAIMS, InternalError("etcd is unavailable"))

    interrupt(env, InterruptionKind.SPOT_INTERRUPTED, 0).wait(1)

    assert env.claim("claim-0").deleting
    assert env.interruptions.messages == []
    assert len(env.log.entries("reconciler error")) == 1


def test_failed_receive_is_retried() -> None:
    env = an_environment()
    env.interruptions.errors += [*[CloudError("QueueDoesNotExist")] * 3]

    interrupt(env, InterruptionKind.SPOT_INTERRUPTED, 0).wait(2)

    assert env.claim("claim-0").deleting


def test_second_reconcile_changes_nothing() -> None:
    env = interrupt(an_environment(), InterruptionKind.SPOT_INTERRUPTED, 0)
    before = env.versions()

    env.wait(60)

    assert env.versions() == before
