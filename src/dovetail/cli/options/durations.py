"""Durations on the command line."""

import re
from datetime import timedelta
from typing import Any, Final

import click

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_MAX_DAYS: Final = 30
_SPAN_PART: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class Duration(click.ParamType[timedelta]):
    """Go's notation, and days: ``500ms``, ``10s``, ``1m30s``, ``7d``; greater than zero."""

    name = "duration"

    def __init__(self, *, longest: timedelta = timedelta(days=1)) -> None:
        self._longest = longest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        parts = _PART.findall(str(value))
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if "".join(map("".join, parts)) != value or not 0 < seconds <= self._longest.total_seconds():
            self.fail(f"{value!r} is not a duration {self._describe()}.")
        return timedelta(seconds=seconds)

    def _describe(self) -> str:
        days = self._longest.days
        return (
            "up to a day; examples: 500ms, 10s, 1m30s"
            if days == 1
            else f"up to {days:,} days; examples: 90m, 48h, 7d"
        )


class Span(click.ParamType[timedelta]):
    """``90m``, ``24h``, ``7d``: up to 30 days."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        number, unit = str(value)[:-1], _SPAN_PART.get(str(value)[-1:])
        if (
            unit is None
            or not number.isdecimal()
            or not timedelta() < int(number) * unit <= timedelta(days=_MAX_DAYS)
        ):
            self.fail(
                f"{value!r} is not a duration up to {_MAX_DAYS} days; examples: 90m, 24h, 7d.", param, ctx
            )
        return int(number) * unit
