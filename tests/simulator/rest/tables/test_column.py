from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.simulator.rest.tables.column import format_age, format_duration

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("length", "written"),
    [
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-10), "<invalid>"),
        (timedelta(), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(seconds=125), "2m5s"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=59), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2, hours=1), "2d1h"),
        (timedelta(days=8, hours=1), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=8 * 365), "8y"),
    ],
)
def test_a_duration_has_at_most_two_units(length: timedelta, written: str) -> None:
    assert format_duration(length) == written


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=20_000)))
def test_no_duration_has_more_than_six_characters(length: timedelta) -> None:
    assert len(format_duration(length)) <= 6


@pytest.mark.parametrize("since", [None, "", "yesterday", "2026-01-01T11:00:00", 7])
def test_an_age_without_a_timestamp_is_unknown(since: object) -> None:
    assert format_age(since, NOW) == "<unknown>"


def test_an_age_is_the_time_since_a_timestamp() -> None:
    assert format_age("2026-01-01T11:59:30Z", NOW) == "30s"
