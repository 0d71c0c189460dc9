"""Reading the interruption queue: 130 and 132 of the AWS checklist."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.interruption.messages import Unreadable, parse
from dovetail.ports.cloudprovider import Interruption, Message
from tests.support import warnings

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(body: str) -> Message:
    return parse(body, receipt="receipt")


def meaning(body: str) -> tuple[Interruption, tuple[str, ...]]:
    message = read(body)
    return message.kind, message.instance_ids


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (warnings.spot("i-1"), Interruption.SPOT),
        (warnings.rebalance("i-1"), Interruption.REBALANCE),
        (warnings.reservation("i-1"), Interruption.RESERVATION),
        (warnings.health("i-1"), Interruption.SCHEDULED_CHANGE),
        (warnings.state("i-1", "stopping"), Interruption.STOPPING),
        (warnings.state("i-1", "stopped"), Interruption.STOPPING),
        (warnings.state("i-1", "shutting-down"), Interruption.TERMINATING),
        (warnings.state("i-1", "terminated"), Interruption.TERMINATING),
    ],
)
def test_every_kind_of_warning_is_understood(body: str, kind: Interruption) -> None:
    assert meaning(body) == (kind, ("i-1",))


def test_a_message_is_removed_by_its_receipt_and_as_old_as_its_event() -> None:
    message = read(warnings.spot("i-1"))

    assert message.id == "receipt"
    assert message.sent == datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize("state", ["pending", "running", "creating", ""])
def test_states_that_a_node_survives_are_no_warning(state: str) -> None:
    assert read(warnings.state("i-1", state)).kind is Interruption.NOTHING


def test_states_are_understood_in_any_case() -> None:
    assert read(warnings.state("i-1", "Stopping")).kind is Interruption.STOPPING


def test_one_scheduled_change_can_concern_many_machines() -> None:
    assert meaning(warnings.health("i-1", "i-2")) == (
        Interruption.SCHEDULED_CHANGE,
        ("i-1", "i-2"),
    )


@pytest.mark.parametrize(
    "body",
    [
        warnings.health("i-1", service="RDS"),
        warnings.health("i-1", category="issue"),
        warnings.health("i-1", category="accountNotification"),
    ],
)
def test_what_happens_to_other_services_or_is_no_change_does_not_concern_us(body: str) -> None:
    assert meaning(body) == (Interruption.NOTHING, ())


def test_a_scheduled_change_may_name_no_machine() -> None:
    assert meaning(warnings.health(affectedEntities=None)) == (Interruption.SCHEDULED_CHANGE, ())


@pytest.mark.parametrize(
    "body",
    [
        "",
        "  \n",
        "{}",
        warnings.event("EC2 Fleet Instance Change", {"instance-id": "i-1"}),
        warnings.spot("i-1", version="1"),
        warnings.spot("i-1", source="my.app"),
        json.dumps({"Event": "s3:TestEvent"}),
    ],
)
def test_what_nobody_has_heard_of_is_nothing(body: str) -> None:
    assert meaning(body) == (Interruption.NOTHING, ())


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[]",
        "null",
        "{",
        warnings.spot("i-1", detail="terminate"),
        warnings.spot("i-1", detail={}),
        warnings.spot("i-1", detail={"instance-id": 7}),
        warnings.spot("i-1", time=1767258000),
        warnings.health(affectedEntities="i-1"),
    ],
)
def test_what_eventbridge_would_never_send_cannot_be_read(body: str) -> None:
    with pytest.raises(Unreadable):
        read(body)


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_a_warning_with_an_odd_date_is_a_warning_all_the_same(time: str) -> None:
    message = read(warnings.spot("i-1", time=time))

    assert (message.kind, message.sent) == (Interruption.SPOT, None)


@given(st.text())
def test_any_text_is_read_or_refused(body: str) -> None:
    with suppress(Unreadable):
        assert isinstance(read(body), Message)


@given(ANYTHING, st.sampled_from(["aws.ec2", "aws.health"]))
def test_any_detail_is_read_or_refused(detail: Any, source: str) -> None:
    for title in ("EC2 Instance State-change Notification", "AWS Health Event"):
        with suppress(Unreadable):
            message = read(warnings.event(title, detail, source=source))
            assert all(isinstance(one, str) for one in message.instance_ids)
