"""Cron schedules: when they come round next. Always in UTC."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

_MINUTE: Final = timedelta(minutes=1)
_YEARS_AHEAD: Final = 5
"""A schedule that does not come round in so many years never does (30 February)."""
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
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_WEEKDAYS: Final = {
    name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())
}


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The minutes, hours and days at which something begins."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    either_day: bool
    """Day of month and day of week are both given: one of them is enough."""

    def on_day_of(self, moment: datetime) -> bool:
        by_date = moment.day in self.days
        by_weekday = moment.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either_day else by_date and by_weekday


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Read five fields, or one of the names such as ``@daily``; ValueError says what is wrong."""
    fields = _MACROS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ValueError(f"{text!r} is no cron schedule; it takes five fields or @daily")
    minute, hour, day, month, weekday = fields
    return Schedule(
        minutes=_numbers(minute, 0, 59),
        hours=_numbers(hour, 0, 23),
        days=_numbers(day, 1, 31),
        months=_numbers(month, 1, 12, _MONTHS),
        weekdays=_numbers(weekday, 0, 6, _WEEKDAYS),
        either_day=not _is_open(day) and not _is_open(weekday),
    )


def next_after(schedule: Schedule, moment: datetime) -> datetime | None:
    """Return when a schedule comes round next, strictly after a moment; None for never."""
    at = moment.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
    last_year = at.year + _YEARS_AHEAD
    while at.year <= last_year:
        if at.month not in schedule.months:
            at = (at.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0)
        elif not schedule.on_day_of(at):
            at = at.replace(hour=0, minute=0) + timedelta(days=1)
        elif at.hour not in schedule.hours:
            at = at.replace(minute=0) + timedelta(hours=1)
        elif at.minute not in schedule.minutes:
            at += _MINUTE
        else:
            return at
    return None


def _is_open(field: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _numbers(
    field: str, low: int, high: int, names: Mapping[str, int] | None = None
) -> frozenset[int]:
    return frozenset(
        number for part in field.split(",") for number in _part(part, low, high, names or {})
    )


def _part(part: str, low: int, high: int, names: Mapping[str, int]) -> Iterator[int]:
    span, slash, pace = part.partition("/")
    step = _number(pace, {}) if slash else 1
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        start, end = low, high
    else:
        start = _number(first, names)
        end = _number(last, names) if dash else high if slash else start
    if step < 1 or not low <= start <= end <= high:
        raise ValueError(f"{part!r} is not within {low}-{high}")
    yield from range(start, end + 1, step)


def _number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no number")
    return int(text)
