"""Columns of CSV task traces: which is which, in which unit, and presets of public traces."""

from collections.abc import Mapping
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
    known = UNITS.get(_UNIT_OF.get(field, field), {})
    if unit and unit not in known:
        choices = ", ".join(known) or "none: it has no unit"
        raise DovetailError(f"--column {text}: {unit!r} is not a unit of {field}; there are {choices}")
    default = _DEFAULT_UNITS.get(_UNIT_OF.get(field, field), "")
    return field, Column(name=name, factor=known.get(unit or default, 1.0))


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
