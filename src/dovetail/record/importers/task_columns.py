"""Columns of CSV task traces: which is which, in which unit, and presets of public traces."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from dovetail.errors import DovetailError

FIELDS: Final = ("start", "end", "duration", "cpu", "memory", "gpu", "count", "workload")
"""Fields of a task that a column can have."""
UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "start": {"s": 1, "ms": 1e-3, "us": 1e-6, "m": 60, "h": 3600, "d": 86_400},
    "cpu": {"cores": 1, "milli": 1e-3, "percent": 1e-2},
    "memory": {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9},
    "gpu": {"gpus": 1, "milli": 1e-3, "percent": 1e-2},
}
"""Factor of each unit to seconds, cores, bytes and GPUs. Times share the units of ``start``."""
_UNIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)?([A-Za-z]*)")
"""A factor, a unit, or both."""
_ABSENT: Final = ("", "nan", "NaN", "null", "NULL", "None", "none", "N/A", "Unknown", "-", r"\N")
_UNIT_OF: Final = {"end": "start", "duration": "start"}
_DEFAULT_UNITS: Final = {"start": "s", "cpu": "cores", "memory": "bytes", "gpu": "gpus"}


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column by name or by position, counted from 1, and the factor of its unit."""

    name: str
    factor: float = 1.0


class TaskColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of a file."""

    columns: dict[str, Column]
    """Field → column."""
    header: tuple[str, ...] = ()
    """Names of the columns of a file without a header line."""
    skip: tuple[str, tuple[str, ...]] = ("", ())
    """A column, and values of it whose rows never ran."""


def _columns(**texts: str) -> dict[str, Column]:
    return dict(parse_column(f"{field}={text}") for field, text in texts.items())


def parse_column(text: str) -> tuple[str, Column]:
    """Parse ``cpu=plan_cpu:percent``; raise ``DovetailError`` with what would be right."""
    field, equals, rest = text.partition("=")
    if not equals or not rest:
        raise DovetailError(f"--column {text}: write FIELD=COLUMN or FIELD=COLUMN:UNIT")
    if field not in FIELDS:
        raise DovetailError(f"--column {text}: {field!r} is not one of {', '.join(FIELDS)}")
    name, colon, unit = rest.rpartition(":")
    if not colon:
        name, unit = rest, ""
    return field, Column(name=name, factor=_parse_unit(text, field, unit))


def _parse_unit(text: str, field: str, unit: str) -> float:
    """Return the factor of ``GiB``, of ``64``, or of ``64GiB`` for a share of 64 GiB."""
    group = _UNIT_OF.get(field, field)
    known = UNITS.get(group, {})
    match = _UNIT.fullmatch(unit)
    number, name = (match[1], match[2]) if match else ("", unit)
    if (unit and not known) or (name and name not in known):
        choices = ", ".join((*known, "numbers such as 64")) if known else "none: it has no unit"
        raise DovetailError(f"--column {text}: {unit!r} is not a unit of {field}; there are {choices}")
    factor = float(number or 1) * known.get(name or _DEFAULT_UNITS.get(group, ""), 1.0)
    if not 0 < factor < math.inf:
        raise DovetailError(f"--column {text}: the factor must be greater than 0")
    return factor


def parse_value(field: str, text: str, column: Column) -> float | None:
    """Return a value in seconds, cores, bytes or GPUs; None if it is absent.

    Starts and ends can be dates, in UTC if they have no zone. Raises ``ValueError``.
    """
    if text in _ABSENT:
        return None
    try:
        value = float(text)
    except ValueError:
        if field not in ("start", "end"):
            raise ValueError(f"{text!r} is not a number") from None
        return _parse_date(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value * column.factor


def _parse_date(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor a date such as 2020-04-01 00:00:13") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


PRESETS: Final[Mapping[str, TaskColumns]] = {
    "alibaba-gpu-2020": TaskColumns(
        columns=_columns(
            start="start_time",
            end="end_time",
            cpu="plan_cpu:percent",
            memory="plan_mem:GB",
            gpu="plan_gpu:percent",
            count="inst_num",
            workload="task_name",
        ),
        # The file has no header line; the names are in pai_task_table.header.
        header=(
            *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
            *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
        ),
    ),
    "alibaba-gpu-2023": TaskColumns(
        columns=_columns(
            start="creation_time",
            end="deletion_time",
            cpu="cpu_milli:milli",
            memory="memory_mib:MiB",
            gpu="num_gpu",
        ),
        skip=("pod_phase", ("Pending",)),
    ),
    "alibaba-spot-gpu-2026": TaskColumns(
        columns=_columns(
            start="submit_time",
            duration="duration",
            cpu="cpu_request",
            gpu="gpu_request",
            count="worker_num",
            workload="job_type",
        )
    ),
}
"""Files of Alibaba's cluster data: pai_task_table.csv, openb_pod_list_*.csv, job_info_df.csv."""
