"""Importer of CSV task traces: one row per task, as in public cluster traces.

Rows are read one by one. Of each only four numbers are kept, so that files of millions of
rows fit into memory; they need not be sorted.
"""

import csv
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np

from dovetail import __version__
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.record.importers.task_columns import Column, TaskColumns
from dovetail.trace.model import End, Event, Header, Tasks, Template

_MAX_ERRORS: Final = 20
_GPU: Final = "nvidia.com/gpu"
_MILLICORES: Final = 10
"""Requests are rounded up to this, so that similar tasks share a template."""
_MEBIBYTES: Final = 16
_ABSENT: Final = ("", "nan", "NaN", "null", "None", "-")


class _Shape(msgspec.Struct, frozen=True):
    """Requests of a task."""

    millicores: int
    mebibytes: int
    gpus: int
    workload: str


class ImportedTasks:
    """Tasks of a file, in its order; ``events`` sorts them."""

    def __init__(self) -> None:
        self.starts: array[float] = array("d")
        self.seconds: array[float] = array("d")
        self.counts: array[int] = array("q")
        self.shapes: array[int] = array("q")
        """Positions in ``templates``."""
        self.templates: list[_Shape] = []
        self.skipped: dict[str, int] = {}
        """Reason → rows that were left out."""

    def header(self, start: datetime, source: str, columns: TaskColumns) -> Header:
        """Return the header, with what the file does not say."""
        assumptions = [f"every row of {source} is a pod of its own without constraints on nodes"]
        if "memory" not in columns.columns:
            assumptions.append("the file has no memory: pods request none")
        if any(shape.gpus for shape in self.templates):
            assumptions.append(f"parts of a GPU are rounded up to whole ones, requested as {_GPU}")
        assumptions += [
            f"left out {pluralize(count, 'row')}: {reason}" for reason, count in self.skipped.items()
        ]
        return Header(
            written_by=f"dovetail trace import csv {__version__}", start=start, assumptions=tuple(assumptions)
        )

    def events(self, *, until: float = math.inf) -> Iterator[Event]:
        """Yield the events in order of time; the first task is at 0."""
        starts = np.frombuffer(self.starts, dtype=np.float64)
        order = np.argsort(starts, kind="stable")
        first = float(starts[order[0]])
        ids: dict[int, str] = {}
        end = 0.0
        for row in order.tolist():
            t = round(float(starts[row]) - first, 3)
            if t > until:
                break
            shape = self.shapes[row]
            if shape not in ids:
                template = _template(self.templates[shape], t)
                ids[shape] = template.id
                yield template
            seconds = round(self.seconds[row], 3)
            end = max(end, t, min(until, t + seconds))
            yield Tasks(t=t, template=ids[shape], count=self.counts[row], seconds=seconds)
        yield End(t=end)


def read_tasks(file: Iterable[str], name: str, columns: TaskColumns) -> ImportedTasks:
    """Read all rows; raise ``InvalidInputError`` with up to 20 wrong ones."""
    reader = csv.reader(file)
    header = list(columns.header) or next(reader, [])
    if not header:
        raise InvalidInputError([ValidationError(name, 0, "", "is empty")])
    positions = _find_columns(header, columns, name)
    tasks = ImportedTasks()
    shapes: dict[_Shape, int] = {}
    errors: list[ValidationError] = []
    skip_at = header.index(columns.skip[0]) if columns.skip[0] in header else -1
    for row in _rows(reader, name, errors):
        if not row:
            continue
        if len(row) < len(header):
            message = f"the row has {len(row)} columns, not {len(header)}; is the file truncated?"
            errors.append(ValidationError(name, reader.line_num, "", message))
        elif skip_at >= 0 and row[skip_at] in columns.skip[1]:
            _skip(tasks, f"{columns.skip[0]} is {row[skip_at]}")
        else:
            _add_row(tasks, shapes, _Row(name, reader.line_num, row, positions, errors))
        if len(errors) >= _MAX_ERRORS:
            break
    if errors:
        raise InvalidInputError(errors)
    if not tasks.starts:
        raise InvalidInputError([ValidationError(name, 0, "", "has no row with a task that ran")])
    return tasks


class _Row:
    """One row, with its errors."""

    def __init__(
        self,
        file: str,
        line: int,
        values: Sequence[str],
        positions: Mapping[str, tuple[int, Column]],
        errors: list[ValidationError],
    ) -> None:
        self._file, self._line, self._values = file, line, values
        self._positions, self._errors = positions, errors

    def text(self, field: str) -> str:
        position = self._positions.get(field)
        return "" if position is None else self._values[position[0]].strip()

    def number(self, field: str) -> float | None:
        """Return a number in base units; None if it is absent or wrong."""
        text = self.text(field)
        if text in _ABSENT:
            return None
        column = self._positions[field][1]
        try:
            value = float(text)
        except ValueError:
            self.fail(field, f"{text!r} is not a number")
            return None
        if not math.isfinite(value):
            self.fail(field, f"{text!r} is not a finite number")
            return None
        return value * column.factor

    def fail(self, field: str, message: str) -> None:
        column = self._positions[field][1].name if field in self._positions else field
        self._errors.append(ValidationError(self._file, self._line, column, message))


def _rows(reader: Iterator[list[str]], name: str, errors: list[ValidationError]) -> Iterator[list[str]]:
    try:
        yield from reader
    except (csv.Error, UnicodeDecodeError) as error:
        errors.append(
            ValidationError(name, getattr(reader, "line_num", 0) + 1, "", f"this is not CSV: {error}")
        )


def _add_row(tasks: ImportedTasks, shapes: dict[_Shape, int], row: _Row) -> None:
    start, seconds = row.number("start"), row.number("duration")
    if start is None or (seconds is None and (end := row.number("end")) is None):
        _skip(tasks, "no start or no end")
        return
    if seconds is None:
        seconds = float(end or 0.0) - start
    if seconds < 0:
        row.fail(
            "end" if row.text("end") else "duration", "the task ends before it starts; are the units right?"
        )
        return
    cpu, memory, gpu, count = (row.number(field) or 0.0 for field in ("cpu", "memory", "gpu", "count"))
    if min(cpu, memory, gpu, count) < 0:
        row.fail("cpu", "requests and counts cannot be negative")
        return
    shape = _Shape(
        millicores=_round_up(cpu * 1000, _MILLICORES),
        mebibytes=_round_up(memory / 2**20, _MEBIBYTES),
        gpus=math.ceil(gpu - 1e-9),
        workload=row.text("workload")[:50],
    )
    tasks.shapes.append(shapes.setdefault(shape, len(shapes)))
    if len(shapes) > len(tasks.templates):
        tasks.templates.append(shape)
    tasks.starts.append(start)
    tasks.seconds.append(seconds)
    tasks.counts.append(max(1, int(count)))


def _skip(tasks: ImportedTasks, reason: str) -> None:
    tasks.skipped[reason] = tasks.skipped.get(reason, 0) + 1


def _find_columns(header: list[str], columns: TaskColumns, name: str) -> dict[str, tuple[int, Column]]:
    positions: dict[str, tuple[int, Column]] = {}
    errors = []
    for field, column in columns.columns.items():
        if column.name in header:
            positions[field] = (header.index(column.name), column)
        elif column.name.isdecimal() and 0 < int(column.name) <= len(header):
            positions[field] = (int(column.name) - 1, column)
        else:
            message = f"there is no column {column.name!r} for {field}; there are {', '.join(header)}"
            errors.append(ValidationError(name, 1, "", message))
    for needed, alternatives in (
        ("start", ("start",)),
        ("duration or end", ("duration", "end")),
        ("cpu", ("cpu",)),
    ):
        if not any(field in columns.columns for field in alternatives):
            hint = f"no column for {needed}; name it with --column {alternatives[0]}=COLUMN"
            errors.append(ValidationError(name, 1, "", hint))
    if errors:
        raise InvalidInputError(errors)
    return positions


def _round_up(value: float, step: int) -> int:
    return math.ceil(value / step - 1e-9) * step


def _template(shape: _Shape, t: float) -> Template:
    requests = {"cpu": f"{shape.millicores}m"}
    if shape.mebibytes:
        requests["memory"] = f"{shape.mebibytes}Mi"
    resources: dict[str, dict[str, str]] = {"requests": requests}
    if shape.gpus:
        requests[_GPU] = str(shape.gpus)
        resources["limits"] = {_GPU: str(shape.gpus)}
    content = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": resources}]}}
    identity = msgspec.json.encode([shape.workload, content])
    return Template(
        t=t, id=blake2b(identity, digest_size=6).hexdigest(), workload=shape.workload, template=content
    )
