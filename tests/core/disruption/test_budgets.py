"""Disruption budgets and their schedules.

BU1, BU2, BU3, BU4, BU5, BU6, BU7, BU8, BU9, BU10, BU11, BU12, BU13, BU14, BU15, BU16, BU17, BU18,
BU19 (the CRD's rules are in tests/codec/inputs/test_validation_errors.py).
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.budgets import (
    UNLIMITED,
    NodeCounts,
    count_nodes,
    count_remaining,
    get_allowed_disruptions,
    is_budget_active,
    parse_node_count,
    validate_budgets,
)
from dovetail.core.disruption.cron import find_next_run, parse_schedule
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, DisruptionReason
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.node import NodeObject

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""A Thursday."""
HOUR = timedelta(hours=1)


def a_node(
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


def test_uninitialized_and_terminated_nodes_are_not_counted() -> None:
    nodeless = (NodeClaim(name="claim"), None)

    counted = count_nodes([a_node(), a_node(initialized=False), a_node(ending=True), nodeless])

    assert counted == NodeCounts(total=1, disrupting=0)


@pytest.mark.parametrize("fields", [{"deleting": True}, {"ready": False}, {"taints": (DISRUPTED_TAINT,)}])
def test_deleting_tainted_and_unready_nodes_consume_the_budget(fields: dict[str, Any]) -> None:
    counted = count_nodes([*[a_node()] * 8, *[a_node(**fields)] * 2])

    assert counted == NodeCounts(total=10, disrupting=2)
    allowed = get_allowed_disruptions(
        [Budget(nodes="100%")], DisruptionReason.EMPTY, total=counted.total, now=NOON
    )
    assert count_remaining(allowed.allowed, counted) == 8


def test_remaining_disruptions_are_never_negative() -> None:
    assert count_remaining(1, NodeCounts(total=10, disrupting=5)) == 0


def test_budget_without_reasons_applies_to_all_reasons() -> None:
    for reason in DisruptionReason:
        assert get_allowed_disruptions([Budget(nodes="3")], reason, total=10, now=NOON).allowed == 3


def test_minimum_of_the_applicable_budgets_counts() -> None:
    budgets = [Budget(nodes="5"), Budget(nodes="2", reasons=("Drifted",)), Budget(nodes="9")]

    allowed = {
        reason: get_allowed_disruptions(budgets, reason, total=10, now=NOON).allowed
        for reason in DisruptionReason
    }

    assert allowed == {
        DisruptionReason.EMPTY: 5,
        DisruptionReason.DRIFTED: 2,
        DisruptionReason.UNDERUTILIZED: 5,
    }


def test_without_an_active_budget_disruptions_are_unlimited() -> None:
    later = Budget(nodes="1", schedule="0 15 * * *", duration=HOUR)

    assert get_allowed_disruptions([later], DisruptionReason.EMPTY, total=10, now=NOON).allowed == UNLIMITED
    assert get_allowed_disruptions([], DisruptionReason.EMPTY, total=10, now=NOON).allowed == UNLIMITED


def test_inactive_budget_for_a_reason_is_ignored() -> None:
    later = Budget(nodes="1", schedule="0 15 * * *", duration=HOUR, reasons=("Empty",))

    allowed = get_allowed_disruptions([later, Budget(nodes="4")], DisruptionReason.EMPTY, total=10, now=NOON)

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
def test_invalid_budget_blocks_the_nodepool_for_every_reason(broken: Budget) -> None:
    broken = Budget(broken.nodes, broken.schedule, broken.duration, ("Drifted",))

    for reason in DisruptionReason:
        allowed = get_allowed_disruptions([Budget(nodes="5"), broken], reason, total=10, now=NOON)
        assert allowed.allowed == 0
        assert len(allowed.errors) == 1


@pytest.mark.parametrize(("nodes", "meant"), [("10%", 1), ("11%", 2), ("0%", 0), ("7", 7)])
def test_percentage_is_rounded_up(nodes: str, meant: int) -> None:
    assert parse_node_count(Budget(nodes=nodes), 10) == meant


def test_schedules_are_in_utc() -> None:
    at_noon = Budget(nodes="1", schedule="0 12 * * *", duration=timedelta(minutes=5))
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))

    assert is_budget_active(at_noon, elsewhere)
    assert not is_budget_active(at_noon, datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=9))))


def test_budget_without_a_schedule_is_always_active() -> None:
    assert is_budget_active(Budget(nodes="1"), NOON)


def test_budget_with_a_schedule_and_no_duration_is_always_active() -> None:
    # The CRD rejects it; an object may be older than the rule.
    assert is_budget_active(Budget(nodes="1", schedule="0 9 * * *"), NOON)


@pytest.mark.parametrize(
    ("minutes_past", "holds"), [(-1, False), (0, True), (59, True), (60, False), (61, False)]
)
def test_budget_is_active_for_its_duration_after_each_run(minutes_past: int, holds: bool) -> None:
    budget = Budget(nodes="1", schedule="0 12 * * *", duration=HOUR)

    assert is_budget_active(budget, NOON + timedelta(minutes=minutes_past)) is holds


@given(st.integers(0, 10_000))
def test_budget_with_a_duration_longer_than_the_interval_is_always_active(minutes: int) -> None:
    budget = Budget(nodes="1", schedule="@hourly", duration=timedelta(minutes=90))

    assert is_budget_active(budget, NOON + timedelta(minutes=minutes))


def test_budget_whose_schedule_never_runs_is_never_active() -> None:
    budget = Budget(nodes="0", schedule="0 0 30 2 *", duration=timedelta(days=400))

    assert not is_budget_active(budget, NOON)


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
def test_next_run_of_a_schedule(schedule: str, after: str, next_time: str) -> None:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)

    next_run = find_next_run(parse_schedule(schedule), start)

    assert next_run == datetime.fromisoformat(next_time).replace(tzinfo=UTC)


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
def test_invalid_schedule_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is not within"):
        parse_schedule(text)


_minutes = st.integers(0, 59)


@given(_minutes, st.integers(0, 23), st.integers(0, 400 * 24 * 60), st.integers(0, 59))
def test_next_run_is_the_earliest_matching_minute(minute: int, hour: int, past: int, seconds: int) -> None:
    schedule = parse_schedule(f"{minute} {hour} * * *")
    start = NOON + timedelta(minutes=past, seconds=seconds)

    next_run = find_next_run(schedule, start)

    assert next_run is not None
    assert start < next_run <= start + timedelta(days=1)
    assert (next_run.minute, next_run.hour) == (minute, hour)


def test_validation_reports_the_position_of_each_budget_with_a_wrong_schedule_or_number() -> None:
    budgets = [
        Budget(nodes="1"),
        Budget(nodes="1", schedule="0 9 * * *", duration=HOUR),
        Budget(nodes="1", schedule="never", duration=HOUR),
        Budget(nodes="many"),
    ]

    errors = validate_budgets(budgets)

    assert [error.partition(":")[0] for error in errors] == ["budgets[2]", "budgets[3]"]
