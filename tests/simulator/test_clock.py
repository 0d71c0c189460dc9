"""Virtual time: what happens when, and in which order."""

from datetime import UTC, datetime, timedelta

import pytest

from dovetail.simulator.clock import Engine

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_events_at_one_instant_happen_by_priority_and_then_in_the_order_they_were_arranged() -> (
    None
):
    engine = Engine(start=NINE)
    log: list[str] = []
    for name, priority in (("late", 1), ("first", 0), ("second", 0), ("early", -1)):
        engine.after(MINUTE, lambda name=name: log.append(name), priority=priority)  # type: ignore[misc]

    engine.run(until=NINE + MINUTE)

    assert log == ["early", "first", "second", "late"]


def test_an_event_sees_the_time_it_was_arranged_for_and_the_run_ends_at_its_own() -> None:
    engine = Engine(start=NINE)
    times: list[datetime] = []
    engine.after(MINUTE, lambda: times.append(engine.now()))

    engine.run(until=NINE + 5 * MINUTE)

    assert times == [NINE + MINUTE]
    assert engine.now() == NINE + 5 * MINUTE


def test_an_event_can_arrange_further_events_even_for_the_same_instant() -> None:
    engine = Engine(start=NINE)
    log: list[str] = []

    def first() -> None:
        log.append("first")
        engine.after(timedelta(), lambda: log.append("at once"))
        engine.after(MINUTE, lambda: log.append("later"))
        engine.after(10 * MINUTE, lambda: log.append("too late"))

    engine.at(NINE + MINUTE, first)
    engine.run(until=NINE + 5 * MINUTE)

    assert log == ["first", "at once", "later"]
    assert engine.next_at() == NINE + 11 * MINUTE


def test_what_is_called_off_does_not_happen_and_is_not_waited_for() -> None:
    engine = Engine(start=NINE)
    log: list[str] = []
    appointment = engine.after(MINUTE, lambda: log.append("never"))

    appointment.cancel()

    assert engine.next_at() is None
    assert engine.step() is False
    assert log == []


def test_steps_go_from_event_to_event() -> None:
    engine = Engine(start=NINE)
    engine.after(MINUTE, lambda: None)
    engine.after(3 * MINUTE, lambda: None)

    assert engine.step() is True
    assert engine.now() == NINE + MINUTE
    assert engine.step() is True
    assert engine.now() == NINE + 3 * MINUTE


def test_nothing_can_be_arranged_for_the_past() -> None:
    engine = Engine(start=NINE)

    with pytest.raises(ValueError, match="has passed"):
        engine.after(-MINUTE, lambda: None)
    with pytest.raises(ValueError, match="has passed"):
        engine.run(until=NINE - MINUTE)
