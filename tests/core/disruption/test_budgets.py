"""How many nodes may be disrupted at once.

BU1, BU2, BU3, BU4, BU5, BU6, BU7, BU8, BU9, BU10, BU11, BU12, BU13, BU14, BU15, BU16, BU17, BU18,
BU19 (the CRD's rules are in tests/codec/inputs/test_mistakes.py).
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.budgets import (
    UNLIMITED,
    Census,
    Reason,
    allowance,
    census,
    is_active,
    left,
    nodes_of,
)
from dovetail.core.disruption.cron import next_after, parse_schedule
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.node import NodeObject

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""A Thursday."""
HOUR = timedelta(hours=1)


def a_machine(
    *, initialized: bool = True, ready: bool = True, ending: bool = False, **node: Any
) -> tuple[NodeClaim, NodeObject]:
    conditions = {"InstanceTerminating": Condition(status=TRUE)} if ending else {}
    deleting = node.pop("deleting", False)
    return (
        NodeClaim(name="claim", deleting=deleting, conditions=FrozenDict(conditions)),
        NodeObject(
            name="node",
            labels=FrozenDict({label_keys.INITIALIZED: "true"} if initialized else {}),
            conditions=FrozenDict({"Ready": Condition(status=TRUE if ready else FALSE)}),
            **node,
        ),
    )


def test_machines_that_have_not_started_or_have_ended_are_not_counted() -> None:
    nodeless = (NodeClaim(name="claim"), None)

    counted = census([a_machine(), a_machine(initialized=False), a_machine(ending=True), nodeless])

    assert counted == Census(total=1, disrupting=0)


@pytest.mark.parametrize(
    "trouble", [{"deleting": True}, {"ready": False}, {"taints": (DISRUPTED,)}]
)
def test_machines_that_go_or_are_out_of_order_use_up_the_budget(trouble: dict[str, Any]) -> None:
    counted = census([*[a_machine()] * 8, *[a_machine(**trouble)] * 2])

    assert counted == Census(total=10, disrupting=2)
    allowed = allowance([Budget(nodes="100%")], Reason.EMPTY, total=counted.total, now=NOON)
    assert left(allowed.allowed, counted) == 8


def test_what_is_left_is_never_below_nothing() -> None:
    assert left(1, Census(total=10, disrupting=5)) == 0


def test_a_budget_without_reasons_holds_for_all() -> None:
    for reason in Reason:
        assert allowance([Budget(nodes="3")], reason, total=10, now=NOON).allowed == 3


def test_the_least_of_what_holds_for_a_reason_counts() -> None:
    budgets = [Budget(nodes="5"), Budget(nodes="2", reasons=("Drifted",)), Budget(nodes="9")]

    allowed = {one: allowance(budgets, one, total=10, now=NOON).allowed for one in Reason}

    assert allowed == {Reason.EMPTY: 5, Reason.DRIFTED: 2, Reason.UNDERUTILIZED: 5}


def test_without_a_budget_that_holds_now_there_is_no_limit() -> None:
    later = Budget(nodes="1", schedule="0 15 * * *", duration=HOUR)

    assert allowance([later], Reason.EMPTY, total=10, now=NOON).allowed == UNLIMITED
    assert allowance([], Reason.EMPTY, total=10, now=NOON).allowed == UNLIMITED


def test_a_budget_for_a_reason_that_does_not_hold_now_is_ignored() -> None:
    later = Budget(nodes="1", schedule="0 15 * * *", duration=HOUR, reasons=("Empty",))

    allowed = allowance([later, Budget(nodes="4")], Reason.EMPTY, total=10, now=NOON)

    assert allowed.allowed == 4


@pytest.mark.parametrize(
    "broken",
    [
        Budget(nodes="1", schedule="* * *", duration=HOUR),
        Budget(nodes="1", schedule="@sometimes", duration=HOUR),
        Budget(nodes="many"),
        Budget(nodes="-1"),
        Budget(nodes="10 %"),
    ],
)
def test_one_budget_that_cannot_be_read_closes_the_pool_for_every_reason(broken: Budget) -> None:
    broken = Budget(broken.nodes, broken.schedule, broken.duration, ("Drifted",))

    for reason in Reason:
        found = allowance([Budget(nodes="5"), broken], reason, total=10, now=NOON)
        assert found.allowed == 0
        assert len(found.mistakes) == 1


@pytest.mark.parametrize(("nodes", "meant"), [("10%", 1), ("11%", 2), ("0%", 0), ("7", 7)])
def test_a_share_is_rounded_up(nodes: str, meant: int) -> None:
    assert nodes_of(Budget(nodes=nodes), 10) == meant


def test_schedules_are_read_in_utc() -> None:
    at_noon = Budget(nodes="1", schedule="0 12 * * *", duration=timedelta(minutes=5))
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))

    assert is_active(at_noon, elsewhere)
    assert not is_active(at_noon, datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=9))))


def test_a_budget_without_a_schedule_always_holds() -> None:
    assert is_active(Budget(nodes="1"), NOON)


@pytest.mark.parametrize(
    ("minutes_past", "holds"), [(-1, False), (0, True), (59, True), (60, False), (61, False)]
)
def test_a_budget_holds_for_its_duration_after_the_schedule(minutes_past: int, holds: bool) -> None:
    budget = Budget(nodes="1", schedule="0 12 * * *", duration=HOUR)

    assert is_active(budget, NOON + timedelta(minutes=minutes_past)) is holds


@given(st.integers(0, 10_000))
def test_a_duration_longer_than_the_recurrence_always_holds(minutes: int) -> None:
    budget = Budget(nodes="1", schedule="@hourly", duration=timedelta(minutes=90))

    assert is_active(budget, NOON + timedelta(minutes=minutes))


def test_a_schedule_that_never_comes_round_never_holds() -> None:
    budget = Budget(nodes="0", schedule="0 0 30 2 *", duration=timedelta(days=400))

    assert not is_active(budget, NOON)


@pytest.mark.parametrize(
    ("schedule", "after", "next_time"),
    [
        ("@hourly", "2026-01-01T12:00", "2026-01-01T13:00"),
        ("@daily", "2026-01-01T12:00", "2026-01-02T00:00"),
        ("@midnight", "2026-01-31T12:00", "2026-02-01T00:00"),
        ("@weekly", "2026-01-01T12:00", "2026-01-04T00:00"),
        ("@monthly", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("@yearly", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("*/15 9-17 * * mon-fri", "2026-01-02T17:45", "2026-01-05T09:00"),
        ("30 8,20 * * *", "2026-01-01T08:30", "2026-01-01T20:30"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("0 0 13 * ?", "2026-01-01T00:00", "2026-01-13T00:00"),
        ("5/20 * * * *", "2026-01-01T12:06", "2026-01-01T12:25"),
        ("0 12 1 JAN,jul *", "2026-01-01T12:00", "2026-07-01T12:00"),
    ],
)
def test_a_schedule_comes_round(schedule: str, after: str, next_time: str) -> None:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)

    found = next_after(parse_schedule(schedule), start)

    assert found == datetime.fromisoformat(next_time).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 7",
        "a * * * *",
        "1-0 * * * *",
        "*/0 * * * *",
        "1,, * * * *",
        "-1 * * * *",
        "@every 1h",
    ],
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is not within"):
        parse_schedule(text)


_minutes = st.integers(0, 59)


@given(_minutes, st.integers(0, 23), st.integers(0, 400 * 24 * 60), st.integers(0, 59))
def test_the_next_time_is_later_and_nothing_lies_between(
    minute: int, hour: int, past: int, seconds: int
) -> None:
    schedule = parse_schedule(f"{minute} {hour} * * *")
    start = NOON + timedelta(minutes=past, seconds=seconds)

    found = next_after(schedule, start)

    assert found is not None
    assert start < found <= start + timedelta(days=1)
    assert (found.minute, found.hour) == (minute, hour)
