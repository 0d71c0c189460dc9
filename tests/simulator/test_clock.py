"""Virtual clock: order and time of scheduled calls."""

from datetime import UTC, datetime, timedelta

import pytest

from dovetail.simulator.clock import VirtualClock

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_calls_at_one_instant_run_by_priority_and_then_in_the_order_scheduled() -> None:
    clock = VirtualClock(start=NINE)
    log: list[str] = []
    for name, priority in (("late", 1), ("first", 0), ("second", 0), ("early", -1)):
        clock.call_later(MINUTE, lambda name=name: log.append(name), priority=priority)  # type: ignore[misc]

    clock.run(until=NINE + MINUTE)

    assert log == ["early", "first", "second", "late"]


def test_a_call_sees_its_own_time_and_a_run_ends_at_its_limit() -> None:
    clock = VirtualClock(start=NINE)
    times: list[datetime] = []
    clock.call_later(MINUTE, lambda: times.append(clock.now()))

    clock.run(until=NINE + 5 * MINUTE)

    assert times == [NINE + MINUTE]
    assert clock.now() == NINE + 5 * MINUTE


def test_a_call_can_schedule_further_calls_even_for_the_same_instant() -> None:
    clock = VirtualClock(start=NINE)
    log: list[str] = []

    def first() -> None:
        log.append("first")
        clock.call_later(timedelta(), lambda: log.append("at once"))
        clock.call_later(MINUTE, lambda: log.append("later"))
        clock.call_later(10 * MINUTE, lambda: log.append("too late"))

    clock.call_at(NINE + MINUTE, first)
    clock.run(until=NINE + 5 * MINUTE)

    assert log == ["first", "at once", "later"]
    assert clock.next_due() == NINE + 11 * MINUTE


def test_a_cancelled_call_neither_runs_nor_is_due() -> None:
    clock = VirtualClock(start=NINE)
    log: list[str] = []
    call = clock.call_later(MINUTE, lambda: log.append("never"))

    call.cancel()

    assert clock.next_due() is None
    assert clock.step() is False
    assert log == []


def test_steps_go_from_call_to_call() -> None:
    clock = VirtualClock(start=NINE)
    clock.call_later(MINUTE, lambda: None)
    clock.call_later(3 * MINUTE, lambda: None)

    assert clock.step() is True
    assert clock.now() == NINE + MINUTE
    assert clock.step() is True
    assert clock.now() == NINE + 3 * MINUTE


def test_nothing_can_be_scheduled_in_the_past() -> None:
    clock = VirtualClock(start=NINE)

    with pytest.raises(ValueError, match="has passed"):
        clock.call_later(-MINUTE, lambda: None)
    with pytest.raises(ValueError, match="has passed"):
        clock.run(until=NINE - MINUTE)


def test_a_failing_call_ends_the_run_unless_its_error_is_handled() -> None:
    clock = VirtualClock(start=NINE)
    ran: list[datetime] = []
    errors: list[Exception] = []

    def fail() -> None:
        raise ValueError("odd")

    clock.call_later(timedelta(seconds=1), fail)
    clock.call_later(timedelta(seconds=1), fail)
    clock.call_later(timedelta(seconds=2), lambda: ran.append(clock.now()))
    with pytest.raises(ValueError, match="odd"):
        clock.run(until=NINE + timedelta(minutes=1))
    clock.on_error = errors.append
    clock.run(until=NINE + timedelta(minutes=1))

    assert [str(error) for error in errors] == ["odd"]
    assert ran == [NINE + timedelta(seconds=2)]
