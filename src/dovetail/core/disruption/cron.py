"""Cron schedules of disruption budgets, in UTC."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

_MINUTE: Final = timedelta(minutes=1)
_MAX_YEARS_AHEAD: Final = 5
"""A schedule without a run in so many years never runs (30 February)."""
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {
    name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_WEEKDAYS: Final = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed cron schedule."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    either_day: bool
    """Day of month and day of week are both restricted: one match is enough."""

    def matches_day(self, moment: datetime) -> bool:
        by_date = moment.day in self.days
        by_weekday = moment.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either_day else by_date and by_weekday


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Parse five fields or a macro such as ``@daily``; ValueError if it is invalid."""
    fields = _MACROS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ValueError(f"{text!r} is not a cron schedule; use five fields or a macro like @daily")
    minute, hour, day, month, weekday = fields
    return Schedule(
        minutes=_parse_field(minute, 0, 59),
        hours=_parse_field(hour, 0, 23),
        days=_parse_field(day, 1, 31),
        months=_parse_field(month, 1, 12, _MONTHS),
        weekdays=_parse_field(weekday, 0, 6, _WEEKDAYS),
        either_day=not _is_wildcard(day) and not _is_wildcard(weekday),
    )


def find_next_run(schedule: Schedule, moment: datetime) -> datetime | None:
    """Return the next run of a schedule strictly after a moment; None: never."""
    at = moment.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
    last_year = at.year + _MAX_YEARS_AHEAD
    while at.year <= last_year:
        if at.month not in schedule.months:
            at = (at.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0)
        elif not schedule.matches_day(at):
            at = at.replace(hour=0, minute=0) + timedelta(days=1)
        elif at.hour not in schedule.hours:
            at = at.replace(minute=0) + timedelta(hours=1)
        elif at.minute not in schedule.minutes:
            at += _MINUTE
        else:
            return at
    return None


def _is_wildcard(field: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _parse_field(field: str, low: int, high: int, names: Mapping[str, int] | None = None) -> frozenset[int]:
    return frozenset(n for part in field.split(",") for n in _parse_range(part, low, high, names or {}))


def _parse_range(part: str, low: int, high: int, names: Mapping[str, int]) -> Iterator[int]:
    span, slash, step_text = part.partition("/")
    step = _parse_number(step_text, {}) if slash else 1
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        start, end = low, high
    else:
        start = _parse_number(first, names)
        end = _parse_number(last, names) if dash else high if slash else start
    if step < 1 or not low <= start <= end <= high:
        raise ValueError(f"{part!r} is not within {low}-{high}")
    yield from range(start, end + 1, step)


def _parse_number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
