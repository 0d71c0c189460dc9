"""Decoders and encoders of quantities, durations and timestamps."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest_match
from dovetail.model.kube.quantity import parse_amount, parse_quantity
from dovetail.model.kube.resources import (
    CPU,
    DEVICE_RESOURCES,
    EPHEMERAL_STORAGE,
    MEMORY,
    NO_RESOURCES,
    STANDARD_RESOURCES,
    Resources,
    is_container_resource,
)

MAX_CORES = 100_000
MAX_BYTES = 1 << 50
MIN_BYTES = 1 << 10
"""A smaller amount is a missing or wrong unit: ``512m`` instead of ``512Mi``."""

DURATION = re.compile(r"([0-9]+(s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MAX_DURATION = timedelta(days=365 * 290)
"""Approximate range of a Go duration (int64 nanoseconds)."""
_NEVER_SYNONYMS = ("never", "none", "off", "disabled", "infinity", "")


def decode_resources(field: Field) -> Resources:
    """Decode a resource list; a negative amount is an error."""
    return _decode_resources(field, check_plausible=False)


def decode_crd_resources(field: Field) -> Resources:
    """Decode a resource list of a CRD, whose schema accepts integers and text only."""
    if field.context.strict:
        for entry in field.entries() if isinstance(field.value, dict) else ():
            if isinstance(entry.value, float):
                entry.add_error(f"must be a whole number or text, not {entry.value}; put it in quotes")
    return decode_resources(field)


def decode_pod_resources(field: Field) -> Resources:
    """Decode a resource list of a container; implausible amounts get a note, as the API server takes them."""
    context = field.context
    if context.strict and isinstance(field.value, dict):
        for entry in field.entries():
            _check_resource_name(entry, str(entry.key))
    return _decode_resources(field, check_plausible=context.strict and not context.api_rules_only)


def _check_resource_name(entry: Field, name: str) -> None:
    """Add an error for a name that is neither standard nor qualified, a note for a likely typo."""
    if "/" in name:
        meant = None if name in DEVICE_RESOURCES else nearest_match(name, DEVICE_RESOURCES, cutoff=0.93)
        if meant is not None and not entry.context.api_rules_only:
            entry.context.add_note(entry.path, f"no known resource; did you mean {meant!r}?")
    elif not is_container_resource(name):
        names = {device.rpartition("/")[2]: device for device in reversed(DEVICE_RESOURCES)}
        names |= {standard: standard for standard in STANDARD_RESOURCES}
        match = nearest_match(name, names)
        hint = f"; did you mean {names[match]!r}?" if match else ""
        entry.add_error(f"must be a standard resource type or fully qualified{hint}")


def _decode_resources(field: Field, *, check_plausible: bool) -> Resources:
    value = field.value
    if not value:
        field.mapping()
        return NO_RESOURCES
    key = ("resources", check_plausible, *value.items()) if isinstance(value, dict) else None

    def decode() -> Resources:
        amounts = {
            str(entry.key): _decode_amount(str(entry.key), entry, check_plausible=check_plausible)
            for entry in field.entries()
        }
        return Resources({name: amount for name, amount in amounts.items() if amount is not None})

    return field.context.decode_cached(key, decode)


def _decode_amount(name: str, field: Field, *, check_plausible: bool) -> int | None:
    value = field.value
    try:
        amount = parse_amount(name, value)
    except ValueError as error:
        field.add_error(str(error))
        return None
    if amount < 0:
        field.add_error(f"{value!r} is negative; an amount is zero or more")
        return None
    problem = _find_typo(name, amount, str(value)) if check_plausible else None
    if problem is not None:
        field.context.add_note(field.path, problem)
    return amount


def _find_typo(name: str, amount: int, spelt: str) -> str | None:
    """Return a description of an amount that is probably mistyped."""
    if name == CPU and amount > MAX_CORES * 1000:
        guess = f"; did you mean '{spelt[:-1]}m'?" if spelt.endswith("M") else ""
        return f"{spelt!r} is {amount // 1000:,} CPUs, more than any instance type has{guess}"
    if name in (MEMORY, EPHEMERAL_STORAGE):
        if amount > MAX_BYTES:
            return f"{spelt!r} is more {name} than any instance type has"
        if 0 < amount < MIN_BYTES:
            number = spelt.rstrip("m")
            return f"{spelt!r} is {_format_bytes(amount)}; did you mean '{number}Mi'?"
    return None


def _format_bytes(amount: int) -> str:
    return "one byte or less" if amount == 1 else f"{amount} bytes"


def decode_bytes(field: Field) -> int | None:
    """Decode a size such as ``20Gi`` to bytes."""
    if not field:
        return None
    return _decode_amount(MEMORY, field, check_plausible=False)


def is_quantity(text: str) -> bool:
    """Return True if ``text`` is a quantity of zero or more."""
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return False


def decode_duration(field: Field, *, never_allowed: bool) -> timedelta | None:
    """Decode a duration such as ``1h30m``; None for ``Never`` and invalid values."""
    value = field.value
    if value == "Never" and never_allowed:
        return None
    if not isinstance(value, str) or not DURATION.fullmatch(value):
        field.add_error(f"{value!r} is not a duration{_duration_hint(value, never_allowed)}")
        return None
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(value[:60]))
    if seconds > _MAX_DURATION.total_seconds():
        field.add_error(f"{value!r} is longer than Kubernetes can count")
        return None
    return timedelta(seconds=seconds)


def _duration_hint(value: object, never_allowed: bool) -> str:
    """Return a suggestion for a duration that Kubernetes does not accept."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return f"; did you mean '{value}s'?"
    text = str(value).strip()
    if never_allowed and text.lower() in _NEVER_SYNONYMS:
        return "; did you mean 'Never'?"
    longer = re.fullmatch(r"([0-9]{1,6}) ?(d|days?|w|weeks?)", text.lower())
    if longer:
        hours = int(longer[1]) * (24 if longer[2][0] == "d" else 168)
        return f"; the largest unit is the hour: '{hours}h'"
    if re.fullmatch(r"[0-9]{1,12}", text):
        return f"; did you mean '{text}s'?"
    return "; write it as in 30s, 15m, 720h, 1h30m"


def encode_duration(duration: timedelta | None) -> str:
    """Encode a duration in its shortest form; None is ``Never``."""
    if duration is None:
        return "Never"
    left = int(duration.total_seconds())
    text = ""
    for unit in ("h", "m", "s"):
        count, left = divmod(left, _SECONDS[unit])
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def decode_time(field: Field) -> datetime | None:
    """Decode a timestamp; without a time zone it is UTC."""
    value = field.value
    if value is None:
        return None
    try:
        read = datetime.fromisoformat(value if type(value) is str else field.text())
    except ValueError:
        field.add_error(f"{field.value!r} is not a timestamp; write it as in 2026-01-31T12:00:00Z")
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)
def encode_time(time: datetime | None) -> str | None:
    """Encode a timestamp like Kubernetes, in seconds; conditions repeat theirs for days."""
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
