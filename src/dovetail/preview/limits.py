"""Limits on a preview, such as ``cost>+5%`` and ``available(shop/web)<80%``."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from dovetail.codec.text.suggestions import nearest_match, pluralize
from dovetail.errors import DovetailError
from dovetail.preview.durations import format_duration
from dovetail.preview.report import BrokenLimit, Preview, WorkloadDisruption

_FORM: Final = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z-]*)\s*(?:\((?P<argument>[^()]*)\))?\s*(?:(?P<operator>[<>])=?\s*(?P<value>.*))?"
)
_NUMBER: Final = re.compile(r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<percent>%?)")
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class InvalidLimitError(DovetailError):
    """A limit that cannot be parsed, or names something that does not exist."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed limit."""

    text: str
    name: str
    argument: str = ""
    amount: float = 0.0
    is_percent: bool = False
    is_change: bool = False
    """The amount is a difference to the cluster without the change."""


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of limit: how it is written, and how it is checked."""

    example: str
    operator: str
    """Empty: the limit has no amount."""
    check: Callable[[Preview, Limit], Iterator[str]]
    is_duration: bool = False
    allows_percent: bool = False
    allows_change: bool = False
    is_whole: bool = False
    takes_workload: bool = False


def parse_limit(text: str) -> Limit:
    """Parse a limit; raise ``InvalidLimitError`` with the right form."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise InvalidLimitError(f"{text!r} is not a limit; examples: {_examples()}")
    name = match["name"].lower()
    kind = _KINDS.get(name)
    if kind is None:
        nearest = nearest_match(name, _KINDS, cutoff=0.5)
        hint = f"did you mean {_KINDS[nearest].example!r}?" if nearest else f"examples: {_examples()}"
        raise InvalidLimitError(f"{text!r}: {name!r} is not a limit; {hint}")
    is_complete = (match["operator"] or "") == kind.operator and (match["argument"] is not None) == (
        kind.takes_workload
    )
    if not is_complete:
        raise InvalidLimitError(f"{text!r} must be written like {kind.example!r}")
    if not kind.operator:
        return Limit(text=text, name=name)
    limit = Limit(text=text, name=name, argument=(match["argument"] or "").strip())
    if kind.takes_workload and limit.argument.count("/") != 1:
        raise InvalidLimitError(f"{text!r}: {limit.argument!r} is not namespace/name, as in {kind.example!r}")
    return _with_amount(limit, match["value"].strip(), kind)


def check_limits(preview: Preview, limits: Sequence[Limit]) -> tuple[BrokenLimit, ...]:
    """Return the limits that a preview exceeds."""
    return tuple(
        BrokenLimit(limit=limit.text, message=message)
        for limit in limits
        for message in _KINDS[limit.name].check(preview, limit)
    )


def _with_amount(limit: Limit, value: str, kind: _Kind) -> Limit:
    if kind.is_duration:
        parts = _DURATION.findall(value)
        if not parts or "".join(map("".join, parts)) != value:
            raise InvalidLimitError(f"{limit.text!r}: {value!r} is not a duration such as 90m or 2h")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return msgspec.structs.replace(limit, amount=seconds)
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise InvalidLimitError(f"{limit.text!r}: {value!r} is not a number, as in {kind.example!r}")
    is_change = bool(match["sign"])
    if match["percent"] and kind.allows_percent and kind.allows_change and not is_change:
        raise InvalidLimitError(f"{limit.text!r}: a percentage needs a sign, as in {kind.example!r}")
    wrong = (
        (match["percent"] and not kind.allows_percent)
        or (is_change and not kind.allows_change)
        or (kind.is_whole and "." in match["number"])
    )
    if wrong:
        raise InvalidLimitError(f"{limit.text!r} must be written like {kind.example!r}")
    amount = float(match["sign"] + match["number"])
    return msgspec.structs.replace(
        limit, amount=amount, is_percent=bool(match["percent"]), is_change=is_change
    )


def _check_cost(preview: Preview, limit: Limit) -> Iterator[str]:
    difference, after = preview.difference, preview.after.price_per_hour
    if limit.is_percent:
        percent = difference.price_percent
        # Without a price before, any cost is an increase without bounds.
        actual = float("inf") if percent is None and after > 0 else percent or 0.0
        if actual > limit.amount:
            yield (
                f"the cost changes by {actual:+.1f} %, to ${after:,.4f} per hour: "
                f"{actual - limit.amount:.1f} points more than {limit.amount:+g} %"
            )
        return
    actual = difference.price_per_hour if limit.is_change else after
    if actual > limit.amount:
        verb = "rises by" if limit.is_change else "is"
        excess = actual - limit.amount
        yield f"the cost {verb} ${actual:,.4f} per hour, ${excess:,.4f} more than ${limit.amount:,.4f}"


def _check_evictions(preview: Preview, limit: Limit) -> Iterator[str]:
    without = preview.course_without.evictions
    actual = preview.course.evictions - (without if limit.is_change else 0)
    if actual > limit.amount:
        more = " more than without the change" if limit.is_change else ""
        yield f"{pluralize(actual, 'eviction')}{more}, {_excess(actual, limit)}"


def _excess(actual: int, limit: Limit) -> str:
    return f"{actual - limit.amount:,.0f} over the limit of {limit.amount:,.0f}"


def _check_unschedulable(preview: Preview, _: Limit) -> Iterator[str]:
    new = [entry for entry in preview.pods_without_node if not entry.also_without_change]
    if new:
        pods = sum(entry.pods for entry in new)
        yield f"{pluralize(pods, 'pod')} of {new[0].workload}{_more(len(new))} find no node: {new[0].message}"


def _more(workloads: int) -> str:
    return f" and {pluralize(workloads - 1, 'other workload')}" if workloads > 1 else ""


def _check_duration(preview: Preview, limit: Limit) -> Iterator[str]:
    actual = preview.course.duration
    if not preview.course.at_rest:
        yield f"nodes or pods still move after {format_duration(preview.played_seconds)}, when the play ends"
    elif actual > limit.amount:
        yield (
            f"it takes {format_duration(actual)}, {format_duration(actual - limit.amount)} more than "
            f"{format_duration(limit.amount)}"
        )


def _check_available(preview: Preview, limit: Limit) -> Iterator[str]:
    matching = [entry for entry in preview.workloads if entry.workload == limit.argument]
    if not matching:
        names = [entry.workload for entry in preview.workloads]
        nearest = nearest_match(limit.argument, names, cutoff=0.6)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        raise InvalidLimitError(f"{limit.text!r}: there is no workload {limit.argument}{hint}")
    for entry in matching:
        needed = entry.replicas * limit.amount / 100 if limit.is_percent else limit.amount
        if entry.replicas and entry.least_available < needed:
            yield _describe_availability(entry, limit)


def _describe_availability(entry: WorkloadDisruption, limit: Limit) -> str:
    share = 100 * entry.least_available / entry.replicas
    wanted = f"{limit.amount:g} %" if limit.is_percent else f"{limit.amount:g} replicas"
    return (
        f"{entry.least_available} of {pluralize(entry.replicas, 'replica')} ({share:.0f} %) of "
        f"{entry.workload} are available at the lowest, less than {wanted}"
    )


def _check_peak_nodes(preview: Preview, limit: Limit) -> Iterator[str]:
    actual = preview.course.peak_nodes
    if actual > limit.amount:
        yield f"up to {pluralize(actual, 'node')} at once, {_excess(actual, limit)}"


def _check_nodes(preview: Preview, limit: Limit) -> Iterator[str]:
    actual = preview.difference.nodes if limit.is_change else preview.after.nodes
    if actual > limit.amount:
        more = " more than without the change" if limit.is_change else " at the end"
        yield f"{pluralize(actual, 'node')}{more}, {_excess(actual, limit)}"


def _check_kept(preview: Preview, _: Limit) -> Iterator[str]:
    if preview.kept_nodes:
        first = preview.kept_nodes[0]
        yield f"{pluralize(len(preview.kept_nodes), 'node')} cannot go, such as {first.node}: {first.message}"


_KINDS: Final = {
    "cost": _Kind(
        example="cost>+5%", operator=">", check=_check_cost, allows_percent=True, allows_change=True
    ),
    "evictions": _Kind(
        example="evictions>200", operator=">", check=_check_evictions, allows_change=True, is_whole=True
    ),
    "unschedulable": _Kind(example="unschedulable", operator="", check=_check_unschedulable),
    "duration": _Kind(example="duration>2h", operator=">", check=_check_duration, is_duration=True),
    "available": _Kind(
        example="available(shop/web)<80%",
        operator="<",
        check=_check_available,
        allows_percent=True,
        takes_workload=True,
    ),
    "peak-nodes": _Kind(example="peak-nodes>120", operator=">", check=_check_peak_nodes, is_whole=True),
    "nodes": _Kind(example="nodes>+10", operator=">", check=_check_nodes, allows_change=True, is_whole=True),
    "kept-nodes": _Kind(example="kept-nodes", operator="", check=_check_kept),
}
"""All kinds of limits, by name."""


def _examples() -> str:
    return ", ".join(kind.example for kind in _KINDS.values())
