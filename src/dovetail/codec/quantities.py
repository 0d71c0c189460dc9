"""Quantities, durations and times in fields of objects."""

import re
from datetime import UTC, datetime, timedelta

from dovetail.codec.fields import Field
from dovetail.model.kube.quantity import parse_amount, parse_quantity
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, NOTHING, Resources

MOST_CORES = 100_000
MOST_BYTES = 1 << 50
FEWEST_BYTES = 1 << 10
"""Fewer bytes than this are a forgotten or mistaken unit: ``512m`` for ``512Mi``."""

DURATION = re.compile(r"([0-9]+(s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LONGEST = timedelta(days=365 * 290)
"""What a duration can hold in Kubernetes, roughly."""
_INSTEAD_OF_NEVER = ("never", "none", "off", "disabled", "infinity", "")


def resources(field: Field) -> Resources:
    """Read a resource list of any size; a negative amount is a mistake."""
    return _resources(field, sane=False)


def pod_resources(field: Field) -> Resources:
    """Read a container's resource list; absurd amounts are mistakes, with a guess."""
    findings = field.findings
    return _resources(field, sane=findings.written_by_hand and not findings.by_the_letter)


def _resources(field: Field, *, sane: bool) -> Resources:
    value = field.value
    if not value:
        field.mapping()
        return NOTHING
    key = None
    if isinstance(value, dict):
        key = ("resources", sane, *value.items())
        try:
            known = field.findings.remembered(key)
        except TypeError:  # A list or map where an amount should be.
            key, known = None, None
        if known is not None:
            return known  # type: ignore[no-any-return]
    before = len(field.findings.found)
    amounts: dict[str, int] = {}
    for entry in field.entries():
        amount = _amount(str(entry.key), entry, sane=sane)
        if amount is not None:
            amounts[str(entry.key)] = amount
    read = Resources(amounts)
    if key is not None and len(field.findings.found) == before:
        field.findings.remember(key, read)
    return read


def _amount(name: str, field: Field, *, sane: bool) -> int | None:
    value = field.value
    try:
        amount = parse_amount(name, value)
    except ValueError as error:
        field.mistake(str(error))
        return None
    if amount < 0:
        field.mistake(f"{value!r} is negative; an amount is zero or more")
        return None
    if sane and not _is_sane(name, amount, field):
        return None
    return amount


def _is_sane(name: str, amount: int, field: Field) -> bool:
    spelt = str(field.value)
    if name == CPU and amount > MOST_CORES * 1000:
        guess = f"; did you mean '{spelt[:-1]}m'?" if spelt.endswith("M") else ""
        field.mistake(f"{spelt!r} is {amount // 1000:,} CPUs, more than any machine has{guess}")
        return False
    if name in (MEMORY, EPHEMERAL_STORAGE):
        if amount > MOST_BYTES:
            field.mistake(f"{spelt!r} is more {name} than any machine has")
            return False
        if 0 < amount < FEWEST_BYTES:
            number = spelt.rstrip("m")
            field.mistake(f"{spelt!r} is {_bytes(amount)}; did you mean '{number}Mi'?")
            return False
    return True


def _bytes(amount: int) -> str:
    return "one byte or less" if amount == 1 else f"{amount} bytes"


def quantity_bytes(field: Field) -> int | None:
    """Read a size such as ``20Gi``."""
    if not field:
        return None
    return _amount(MEMORY, field, sane=False)


def is_quantity(text: str) -> bool:
    """Tell whether ``text`` is a quantity of zero or more."""
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return False


def duration(field: Field, *, never_allowed: bool) -> timedelta | None:
    """Read ``1h30m``; None for ``Never`` and for what is wrong."""
    value = field.value
    if value == "Never" and never_allowed:
        return None
    if not isinstance(value, str) or not DURATION.fullmatch(value):
        field.mistake(f"{value!r} is no duration{_better(value, never_allowed)}")
        return None
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(value[:60]))
    if seconds > _LONGEST.total_seconds():
        field.mistake(f"{value!r} is longer than Kubernetes can count")
        return None
    return timedelta(seconds=seconds)


def _better(value: object, never_allowed: bool) -> str:
    """Say how a duration that Kubernetes does not read should be written."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return f"; did you mean '{value}s'?"
    text = str(value).strip()
    if never_allowed and text.lower() in _INSTEAD_OF_NEVER:
        return "; did you mean 'Never'?"
    longer = re.fullmatch(r"([0-9]{1,6}) ?(d|days?|w|weeks?)", text.lower())
    if longer:
        hours = int(longer[1]) * (24 if longer[2][0] == "d" else 168)
        return f"; the largest unit is the hour: '{hours}h'"
    if re.fullmatch(r"[0-9]{1,12}", text):
        return f"; did you mean '{text}s'?"
    return "; write it as in 30s, 15m, 720h, 1h30m"


def show_duration(span: timedelta | None) -> str:
    """Write a duration the short way; None is ``Never``."""
    if span is None:
        return "Never"
    left = int(span.total_seconds())
    text = ""
    for unit in ("h", "m", "s"):
        count, left = divmod(left, _SECONDS[unit])
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def instant(field: Field) -> datetime | None:
    """Read a time stamp; always with a time zone."""
    if not field:
        return None
    try:
        read = datetime.fromisoformat(field.text())
    except ValueError:
        field.mistake(f"{field.value!r} is no time; write it as in 2026-01-31T12:00:00Z")
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def show_instant(when: datetime | None) -> str | None:
    """Write a time stamp as Kubernetes does, to the second."""
    return None if when is None else when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
