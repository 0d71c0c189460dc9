"""Importer of CSV task traces: one row per task, as in public cluster traces.

Rows are read one by one. Of each only four numbers are kept, so that files of millions of
rows fit into memory; they need not be sorted.
"""

import csv
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from dovetail import __version__
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.record.importers.task_columns import Column, TaskColumns, parse_value
from dovetail.trace.model import MAX_SECONDS, End, Event, Header, Tasks, Template

_MAX_ERRORS: Final = 20
_GPU: Final = "nvidia.com/gpu"
_MILLICORES: Final = 10
"""Requests are rounded up to this, so that similar tasks share a template."""
_MEBIBYTES: Final = 16
_REQUESTS: Final = {"cpu": 1e6, "memory": 2.0**60, "gpu": 1e6}
"""Field → largest amount; cores, bytes, GPUs."""
_MAX_COUNT: Final = 1_000_000
"""Pods of a row."""
_LAST_START: Final = 5e9
"""Seconds since 1970, in the year 2128: public traces write the largest integer if a task never starts."""
_CHUNK: Final = 1 << 16
"""Rows that are Python objects at a time."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class _Shape(msgspec.Struct, frozen=True):
    """Requests of a task."""

    millicores: int
    mebibytes: int
    gpus: int
    workload: str


class ImportedTasks:
    """Tasks of a file, in its order; ``select`` sorts those of a window."""

    def __init__(self) -> None:
        self.starts: array[float] = array("d")
        self.seconds: array[float] = array("d")
        """Infinity: the task did not end."""
        self.counts: array[int] = array("q")
        self.shapes: array[int] = array("q")
        """Positions in ``templates``."""
        self.templates: list[_Shape] = []
        self.skipped: Counter[str] = Counter()
        """Reason → rows that were left out."""
        self.noted: Counter[str] = Counter()
        """Sentence → rows of which it is true."""

    def select(self, name: str, *, begin: float = 0.0, length: float = math.inf) -> "SelectedTasks":
        """Return the tasks of a window that begins some time after the first start.

        Tasks that run when it begins start with it. Raises ``InvalidInputError`` if there are none,
        or if they start over more than ten years.
        """
        starts = np.frombuffer(self.starts, dtype=np.float64)
        order = np.argsort(starts, kind="stable")
        times = np.round(starts[order] - starts[order[0]] - begin, 3)
        seconds = np.round(np.frombuffer(self.seconds, dtype=np.float64)[order], 3)
        running = (times < 0) & (times + seconds > 0)
        inside = running | ((times >= 0) & (times <= length))
        if outside := len(times) - int(inside.sum()):
            self.skipped["they are outside the window of time"] = outside
        if count := int(running.sum()):
            self.noted["from before the window, whose pods run from its start for the rest of their time"] = (
                count
            )
        if not inside.any():
            message = (
                f"no row runs in the window; the last one starts {_days(times[-1] + begin)} after the first"
            )
            raise InvalidInputError([ValidationError(name, 0, "", message)])
        seconds = np.where(running, times + seconds, seconds)[inside]
        times = np.maximum(times, 0.0)[inside]
        if times[-1] > MAX_SECONDS:
            message = f"the rows start over {_days(times[-1])}; are the units right? --for limits the time"
            raise InvalidInputError([ValidationError(name, 0, "", message)])
        return SelectedTasks(self, order[inside], times, seconds, length)


class SelectedTasks:
    """Tasks in order of their start, as a trace."""

    def __init__(
        self, tasks: ImportedTasks, rows: Integers, times: Floats, seconds: Floats, length: float
    ) -> None:
        self._tasks = tasks
        self._rows, self._times, self._seconds = rows, times, seconds
        self._length = length

    def header(self, start: datetime, source: str, columns: TaskColumns) -> Header:
        """Return the header, with what the file does not say."""
        tasks = self._tasks
        assumptions = [f"every row of {source} is a pod of its own without constraints on nodes"]
        if "memory" not in columns.columns:
            assumptions.append("the file has no memory: pods request none")
        if any(shape.gpus for shape in tasks.templates):
            assumptions.append(f"parts of a GPU are rounded up to whole ones, requested as {_GPU}")
        assumptions += [f"{pluralize(count, 'row')} {sentence}" for sentence, count in tasks.noted.items()]
        assumptions += [
            f"left out {pluralize(count, 'row')}: {reason}" for reason, count in tasks.skipped.items()
        ]
        return Header(
            written_by=f"dovetail trace import csv {__version__}", start=start, assumptions=tuple(assumptions)
        )

    def events(self) -> Iterator[Event]:
        """Yield the events in order of time."""
        tasks = self._tasks
        ids: dict[int, str] = {}
        end = 0.0
        for row, t, seconds in self._iterate():
            shape = tasks.shapes[row]
            if shape not in ids:
                template = _template(tasks.templates[shape], t)
                ids[shape] = template.id
                yield template
            ends = math.isfinite(seconds)
            end = max(end, min(self._length, t + seconds) if ends else t)
            yield Tasks(
                t=t, template=ids[shape], count=tasks.counts[row], seconds=round(seconds, 3) if ends else None
            )
        yield End(t=min(end, MAX_SECONDS))

    def _iterate(self) -> Iterator[tuple[int, float, float]]:
        for begin in range(0, len(self._rows), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            columns = (self._rows[part], self._times[part], self._seconds[part])
            yield from zip(*(column.tolist() for column in columns), strict=True)


def read_tasks(
    file: Iterable[str], name: str, columns: TaskColumns, *, skip_invalid: bool = False
) -> ImportedTasks:
    """Read all rows; raise ``InvalidInputError`` with up to 20 wrong ones, or count and skip them."""
    reader = csv.reader(file)
    header = list(columns.header) or next(reader, [])
    if not header:
        raise InvalidInputError([ValidationError(name, 0, "", "is empty")])
    positions = _find_columns(header, columns, name)
    tasks = ImportedTasks()
    shapes: dict[_Shape, int] = {}
    errors: list[ValidationError] = []
    invalid = ""
    skip_at = header.index(columns.skip[0]) if columns.skip[0] in header else -1
    for values in _rows(reader, name, errors):
        if not values:
            continue
        if skip_at >= 0 and len(values) > skip_at and values[skip_at] in columns.skip[1]:
            tasks.skipped[f"{columns.skip[0]} is {values[skip_at]}"] += 1
            continue
        error = _read_row(tasks, shapes, values, positions, len(header))
        if error is None:
            continue
        located = msgspec.structs.replace(error, file=name, line=reader.line_num)
        if skip_invalid:
            # The first one is named: a wrong unit makes many rows invalid.
            invalid = invalid or f"invalid, the first {located}"
            tasks.skipped[invalid] += 1
            continue
        errors.append(located)
        if len(errors) >= _MAX_ERRORS:
            break
    if errors:
        raise InvalidInputError(errors)
    if not tasks.starts:
        reasons = "; ".join(f"{pluralize(count, 'row')}: {why}" for why, count in tasks.skipped.items())
        message = "has no row with a task that ran" + (f" ({reasons})" if reasons else "")
        raise InvalidInputError([ValidationError(name, 0, "", message)])
    return tasks


def _read_row(
    tasks: ImportedTasks,
    shapes: dict[_Shape, int],
    values: Sequence[str],
    positions: Mapping[str, tuple[int, Column]],
    width: int,
) -> ValidationError | None:
    """Add a row; return what is wrong with it, without its file and line."""
    if len(values) < width:
        message = f"the row has {len(values)} columns, not {width}; is the file truncated?"
        return ValidationError("", 0, "", message)
    try:
        _add_row(tasks, shapes, _Row(values, positions))
    except _InvalidRow as error:
        column = positions[error.field][1].name
        return ValidationError("", 0, column, str(error))
    return None


class _InvalidRow(Exception):
    """A field of a row is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class _Row:
    """Values of one row."""

    def __init__(self, values: Sequence[str], positions: Mapping[str, tuple[int, Column]]) -> None:
        self._values, self._positions = values, positions

    def text(self, field: str) -> str:
        position = self._positions.get(field)
        return "" if position is None else self._values[position[0]].strip()

    def number(self, field: str) -> float | None:
        """Return a number in base units; None if it is absent. Raises ``_InvalidRow``."""
        if field not in self._positions:
            return None
        try:
            return parse_value(field, self.text(field), self._positions[field][1])
        except ValueError as error:
            raise _InvalidRow(field, str(error)) from None


def _rows(reader: Iterator[list[str]], name: str, errors: list[ValidationError]) -> Iterator[list[str]]:
    try:
        yield from reader
    except (csv.Error, UnicodeDecodeError) as error:
        errors.append(
            ValidationError(name, getattr(reader, "line_num", 0) + 1, "", f"this is not CSV: {error}")
        )


def _add_row(tasks: ImportedTasks, shapes: dict[_Shape, int], row: _Row) -> None:
    start, seconds, count = row.number("start"), _find_run_time(row), row.number("count")
    if start is None or seconds is None:
        tasks.skipped["no start or no end"] += 1
        return
    if start > _LAST_START:
        tasks.skipped["they never start"] += 1
        return
    if start < -_LAST_START:
        raise _InvalidRow("start", f"{row.text('start')!r} is before any trace; is the unit right?")
    if count is not None and not 0 <= count <= _MAX_COUNT:
        raise _InvalidRow("count", f"{row.text('count')!r} is not a number of pods up to {_MAX_COUNT:,}")
    if count is not None and count < 1:
        tasks.skipped["they are of no pod"] += 1
        return
    shape = _read_shape(tasks, row)
    tasks.shapes.append(shapes.setdefault(shape, len(shapes)))
    if len(shapes) > len(tasks.templates):
        tasks.templates.append(shape)
    tasks.starts.append(start)
    tasks.seconds.append(seconds)
    tasks.counts.append(1 if count is None else int(count))
    if math.isinf(seconds):
        tasks.noted["without an end, whose pods run until the end of the trace"] += 1


def _find_run_time(row: _Row) -> float | None:
    """Return seconds; infinity if the task never ended, None if that is unknown."""
    field, seconds = "duration", row.number("duration")
    if seconds is None:
        field, end, start = "end", row.number("end"), row.number("start")
        if end is None or start is None:
            return None
        seconds = end - start
    if seconds < 0:
        raise _InvalidRow(field, "the task ends before it starts; are the units right?")
    # Public traces write the largest integer as the end of a task that goes on.
    return math.inf if seconds > MAX_SECONDS else seconds


def _read_shape(tasks: ImportedTasks, row: _Row) -> _Shape:
    amounts = {field: row.number(field) for field in _REQUESTS}
    for field, amount in amounts.items():
        if amount is not None and not 0 <= amount <= _REQUESTS[field]:
            wrong = "negative" if amount < 0 else "more than any node has; is the unit right?"
            raise _InvalidRow(field, f"{row.text(field)!r} is {wrong}")
    cpu, memory, gpu = (amounts[field] or 0.0 for field in _REQUESTS)
    if amounts["cpu"] is None:
        tasks.noted["without cpu, whose pods request none"] += 1
    return _Shape(
        millicores=_round_up(cpu * 1000, _MILLICORES),
        mebibytes=_round_up(memory / 2**20, _MEBIBYTES),
        gpus=math.ceil(gpu - 1e-9),
        workload=row.text("workload")[:50],
    )


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


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:,.1f} days"


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
