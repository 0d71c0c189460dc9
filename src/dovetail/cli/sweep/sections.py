"""Sections of a sweep's report, and its CSV."""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

import msgspec

from dovetail.cli.output.sections import Section, format_usd
from dovetail.codec.text.suggestions import pluralize
from dovetail.preview.durations import format_duration
from dovetail.replay.sweep.choice import CURRENT, SweptPoint, find_eligible
from dovetail.replay.sweep.report import Sweep
from dovetail.replay.sweep.worker import Outcome

_NONE: Final = "-"
"""Instead of an average that would mislead."""
_MAX_FRONT: Final = 20
_CENT: Final = 0.01
_HEADER: Final = ("cost", "evictions", "wait p95", "launched")


def build_sections(sweep: Sweep) -> list[Section]:
    """Return all sections that have something to say."""
    sections = [_choice(sweep), _front(sweep), _keys(sweep), _failed(sweep), _basis(sweep)]
    return [section for section in sections if section is not None]


def _choice(sweep: Sweep) -> Section | None:
    if not sweep.limits.is_set:
        return None
    limits = list(_list_limits(sweep))
    if sweep.chosen is None:
        eligible = [point.outcome for point in find_eligible(sweep.points)]
        fewest = min(outcome.evictions for outcome in eligible)
        cheapest = min(outcome.cost for outcome in eligible)
        return Section(
            title=f"No setting has {' and '.join(limits)}",
            lines=(f"The fewest evictions are {fewest:,}, the lowest cost is {format_usd(cheapest)}.",),
            is_bad=True,
        )
    price = sweep.limits.eviction_price
    wanted = [] if price is None else [f"evictions at ${price:g} each"]
    return Section(
        title=f"Choose, for {', '.join([*wanted, *limits])}",
        lines=(sweep.chosen.name, _compare(sweep.chosen.outcome, sweep.current.outcome)),
    )


def _list_limits(sweep: Sweep) -> Iterator[str]:
    limits = sweep.limits
    if limits.max_evictions is not None:
        yield f"at most {pluralize(limits.max_evictions, 'eviction')}"
    if limits.max_cost is not None:
        yield f"a cost of at most {format_usd(limits.max_cost)}"


def _compare(outcome: Outcome, current: Outcome) -> str:
    percent = f" ({outcome.cost / current.cost - 1:+.1%})" if current.cost else ""
    return (
        f"{format_usd(outcome.cost)}{percent} and {pluralize(outcome.evictions, 'eviction')}; "
        f"the current settings: {format_usd(current.cost)} and {current.evictions:,}."
    )


def _front(sweep: Sweep) -> Section:
    rows = [*sweep.front[:_MAX_FRONT]]
    if not sweep.current.on_front:
        rows.append(sweep.current)
    lines = (
        f"{pluralize(len(sweep.points), 'setting')}, {len(sweep.front):,} of them on the front (*): "
        "no other is cheaper with as few evictions.",
        f"Settings: {', '.join(sweep.varied)}.",
    )
    return Section(
        title="Cost and evictions",
        lines=lines,
        header=("", "settings", *_HEADER),
        rows=tuple(_row(point, sweep) for point in rows),
        left=2,
        footer=(_place(sweep),),
    )


def _row(point: SweptPoint, sweep: Sweep) -> tuple[str, ...]:
    outcome = point.outcome
    is_chosen = sweep.chosen is not None and point.values == sweep.chosen.values
    mark = ">" if is_chosen else "*" if point.on_front else ""
    return (
        mark,
        ", ".join(point.values.values()) or CURRENT,
        format_usd(outcome.cost),
        f"{outcome.evictions:,}",
        format_duration(outcome.waiting_p95),
        f"{outcome.launched_per_day:,.0f}/day",
    )


def _place(sweep: Sweep) -> str:
    """Return a sentence about the place of the current settings."""
    current = sweep.current.outcome
    if sweep.current.on_front:
        return "The current settings are on the front."
    better = [
        point
        for point in sweep.front
        if point.outcome.cost <= current.cost and point.outcome.evictions <= current.evictions
    ]
    if not better:
        return "The current settings leave more pods unschedulable than others."
    best = min(better, key=lambda point: point.outcome.evictions)
    saved = current.cost - best.outcome.cost
    avoided = current.evictions - best.outcome.evictions
    savings = []
    if saved > 0:
        savings.append(f"${saved:,.2f}" if saved >= _CENT else "less than a cent")
    if avoided:
        savings.append(pluralize(avoided, "eviction"))
    return f"The current settings are not on the front: {best.name} saves {' and '.join(savings)}."


def _keys(sweep: Sweep) -> Section | None:
    """Return the average of each value, over all other keys.

    Points that leave more pods unschedulable than others would make their values look cheap.
    """
    eligible = find_eligible(sweep.points)
    rows = []
    for key, values in sweep.varied.items():
        for value in values:
            chosen = [point.outcome for point in eligible if point.values.get(key) == value]
            if chosen:
                cost = sum(outcome.cost for outcome in chosen) / len(chosen)
                evictions = sum(outcome.evictions for outcome in chosen) / len(chosen)
                rows.append((key, value, format_usd(cost), f"{evictions:,.0f}"))
            elif any(point.values.get(key) == value for point in sweep.points):
                rows.append((key, value, _NONE, _NONE))
    if not rows:
        return None
    return Section(
        title="Average of each value",
        header=("key", "value", "cost", "evictions"),
        rows=tuple(rows),
        left=2,
        footer=(f"{_NONE}: it leaves more pods unschedulable than others",)
        if any(_NONE in row for row in rows)
        else (),
    )


def _failed(sweep: Sweep) -> Section | None:
    if not sweep.failed:
        return None
    lines = tuple(f"{name}: {message}" for name, message in sweep.failed.items())
    return Section(title="Settings that could not be replayed", lines=lines[:_MAX_FRONT], is_bad=True)


def _basis(sweep: Sweep) -> Section:
    span = f"{sweep.trace}, {format_duration(sweep.seconds)}; seed {sweep.seed}"
    return Section(title="Basis", lines=(span, sweep.prices, *sweep.assumptions))


def format_csv(sweep: Sweep) -> str:
    """Return a line for each point."""
    fields = Outcome.__struct_fields__
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*sweep.varied, *fields, "on_front", "current", "chosen"])
    for point in sweep.points:
        is_chosen = sweep.chosen is not None and point.values == sweep.chosen.values
        writer.writerow(
            [
                *(point.values.get(key, "") for key in sweep.varied),
                *msgspec.structs.astuple(point.outcome),
                *_flags(point.on_front, not point.values, is_chosen),
            ]
        )
    return text.getvalue().rstrip("\n")


def _flags(*values: bool) -> Sequence[str]:
    return ["true" if value else "false" for value in values]
