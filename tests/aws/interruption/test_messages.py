"""Reading the interruption queue: 130 and 132 of the AWS checklist."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.interruption.messages import InvalidMessageError, decode_message
from dovetail.ports.cloudprovider import InterruptionKind, InterruptionMessage
from tests.support.aws import interruption_events

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(body: str) -> InterruptionMessage:
    return decode_message(body, receipt_handle="receipt")


def meaning(body: str) -> tuple[InterruptionKind, tuple[str, ...]]:
    message = read(body)
    return message.kind, message.instance_ids


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (interruption_events.spot("i-1"), InterruptionKind.SPOT_INTERRUPTED),
        (interruption_events.rebalance("i-1"), InterruptionKind.REBALANCE_RECOMMENDATION),
        (interruption_events.reservation("i-1"), InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED),
        (interruption_events.health("i-1"), InterruptionKind.SCHEDULED_CHANGE),
        (interruption_events.state("i-1", "stopping"), InterruptionKind.INSTANCE_STOPPED),
        (interruption_events.state("i-1", "stopped"), InterruptionKind.INSTANCE_STOPPED),
        (interruption_events.state("i-1", "shutting-down"), InterruptionKind.INSTANCE_TERMINATED),
        (interruption_events.state("i-1", "terminated"), InterruptionKind.INSTANCE_TERMINATED),
    ],
)
def test_every_interruption_event_is_decoded(body: str, kind: InterruptionKind) -> None:
    assert meaning(body) == (kind, ("i-1",))


def test_a_message_has_its_receipt_handle_and_event_time() -> None:
    message = read(interruption_events.spot("i-1"))

    assert message.id == "receipt"
    assert message.sent_at == datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize("state", ["pending", "running", "creating", ""])
def test_other_instance_states_are_no_op(state: str) -> None:
    assert read(interruption_events.state("i-1", state)).kind is InterruptionKind.NO_OP


def test_instance_states_are_case_insensitive() -> None:
    assert read(interruption_events.state("i-1", "Stopping")).kind is InterruptionKind.INSTANCE_STOPPED


def test_one_scheduled_change_can_affect_many_instances() -> None:
    assert meaning(interruption_events.health("i-1", "i-2")) == (
        InterruptionKind.SCHEDULED_CHANGE,
        ("i-1", "i-2"),
    )


@pytest.mark.parametrize(
    "body",
    [
        interruption_events.health("i-1", service="RDS"),
        interruption_events.health("i-1", category="issue"),
        interruption_events.health("i-1", category="accountNotification"),
    ],
)
def test_events_of_other_services_are_no_op(body: str) -> None:
    assert meaning(body) == (InterruptionKind.NO_OP, ())


def test_a_scheduled_change_may_name_no_instance() -> None:
    assert meaning(interruption_events.health(affectedEntities=None)) == (
        InterruptionKind.SCHEDULED_CHANGE,
        (),
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "  \n",
        "{}",
        interruption_events.event("EC2 Fleet Instance Change", {"instance-id": "i-1"}),
        interruption_events.spot("i-1", version="1"),
        interruption_events.spot("i-1", source="my.app"),
        json.dumps({"Event": "s3:TestEvent"}),
    ],
)
def test_unknown_events_are_no_op(body: str) -> None:
    assert meaning(body) == (InterruptionKind.NO_OP, ())


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[]",
        "null",
        "{",
        interruption_events.spot("i-1", detail="terminate"),
        interruption_events.spot("i-1", detail={}),
        interruption_events.spot("i-1", detail={"instance-id": 7}),
        interruption_events.spot("i-1", time=1767258000),
        interruption_events.health(affectedEntities="i-1"),
    ],
)
def test_malformed_events_are_rejected(body: str) -> None:
    with pytest.raises(InvalidMessageError):
        read(body)


def test_a_deeply_nested_event_is_rejected() -> None:
    deep = interruption_events.spot("i-1").replace('"i-1"', "[" * 100_000)

    with pytest.raises(InvalidMessageError):
        read(deep)


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_a_message_with_an_invalid_time_is_still_valid(time: str) -> None:
    message = read(interruption_events.spot("i-1", time=time))

    assert (message.kind, message.sent_at) == (InterruptionKind.SPOT_INTERRUPTED, None)


@given(st.text())
def test_any_text_is_decoded_or_rejected(body: str) -> None:
    with suppress(InvalidMessageError):
        assert isinstance(read(body), InterruptionMessage)


@given(ANYTHING, st.sampled_from(["aws.ec2", "aws.health"]))
def test_any_detail_is_decoded_or_rejected(detail: Any, source: str) -> None:
    for title in ("EC2 Instance State-change Notification", "AWS Health Event"):
        with suppress(InvalidMessageError):
            message = read(interruption_events.event(title, detail, source=source))
            assert all(isinstance(instance_id, str) for instance_id in message.instance_ids)
