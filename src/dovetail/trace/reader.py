"""Reader of traces: streaming, with file and line in every error."""

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import msgspec

from dovetail.codec.text.json_reader import JSON_ERRORS
from dovetail.codec.text.suggestions import suggest
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.trace.frames import DamagedFrameError, FrameReader, is_compressed
from dovetail.trace.model import (
    EVENT_NAMES,
    FIRST_YEAR,
    FORMAT,
    LAST_YEAR,
    MAX_SECONDS,
    VERSION,
    End,
    Event,
    Finish,
    Gap,
    Header,
    Initial,
    Interruption,
    Set,
    Tasks,
    Template,
)

_MAX_ERRORS: Final = 20
_MAX_LINE: Final = 8 << 20
"""Bytes; no object of Kubernetes is larger than 1.5 MiB."""
_CHUNK: Final = 1 << 16
_SECOND_HEADER: Final = ("", "there is a second header: two traces are mixed; replay them one by one")


class UnreadableBeginError(InvalidInputError):
    """A compressed file ends before its first line does: nothing was written that can be read."""


class TraceReader:
    """Header and events of a trace file.

    Iterate once over the events. Wrong lines are collected; at most 20 are raised at the end, as
    one ``InvalidInputError``. Afterwards ``notes`` says what was accepted although it is not complete.
    """

    def __init__(self, path: Path) -> None:
        """Open a trace and read its header; raise ``InvalidInputError``."""
        self._name = str(path)
        self.notes: list[str] = []
        self._file = _open(path)
        self._errors: list[ValidationError] = []
        self._line = 0
        self._is_compressed = False
        self._lines = self._read_lines()
        try:
            self.header = self._read_header()
        except InvalidInputError:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[Event]:
        decoder = msgspec.json.Decoder(Event)
        order = _Order()
        with self._file:
            for line in self._lines:
                try:
                    event = decoder.decode(line)
                except JSON_ERRORS as error:
                    problem = _describe(line, error)
                    self._add_error(*problem)
                    if problem == _SECOND_HEADER:
                        # Everything behind it belongs to the other trace.
                        raise InvalidInputError(self._errors) from None
                    continue
                wrong = order.check(event)
                if wrong:
                    self._add_error(*wrong)
                else:
                    yield event
        if self._errors:
            raise InvalidInputError(self._errors)
        if self._line == 1:
            raise self._fail(0, "the trace has a header and no events")
        if not order.ended and not self.notes:
            self.notes.append(
                f"{self._name} has no end: its recorder still runs or was killed; "
                "the trace ends with its last event"
            )

    def close(self) -> None:
        """Close the file before its end."""
        self._file.close()

    def _read_header(self) -> Header:
        line = next(self._lines, b"")
        if not line:
            if not self._file.tell():
                raise self._fail(0, "the trace is empty")
            error = self._fail(0, "the trace is truncated: no line is complete")
            raise UnreadableBeginError(error.errors) if self._is_compressed else error
        try:
            begin = msgspec.json.decode(line)
        except JSON_ERRORS:
            raise self._fail(1, "this is not a trace: the first line is not JSON") from None
        if not isinstance(begin, dict) or begin.get("format") != FORMAT:
            raise self._fail(1, f"this is not a trace: the first line has no 'format': '{FORMAT}'")
        version = begin.get("version")
        if not isinstance(version, int) or not 1 <= version <= VERSION:
            raise self._fail(
                1,
                f"format version {version!r} is unknown; this release reads versions up to {VERSION}; "
                "upgrade dovetail",
            )
        try:
            header = msgspec.convert(begin, Header)
        except msgspec.ValidationError as error:
            raise self._fail(1, *reversed(_split(error))) from None
        if header.start.tzinfo is None:
            raise self._fail(1, "the time has no time zone; write 2026-01-31T09:00:00Z", "start")
        if not FIRST_YEAR <= header.start.year <= LAST_YEAR:
            raise self._fail(1, f"the year is not between {FIRST_YEAR} and {LAST_YEAR}", "start")
        return header

    def _read_lines(self) -> Iterator[bytes]:
        """Yield lines without the line break, counting them; empty ones are skipped."""
        rest = b""
        for chunk in self._read_chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._line += 1
                if line.strip():
                    yield line
            if len(rest) > _MAX_LINE:
                raise self._fail(self._line + 1, f"the line is longer than {_MAX_LINE >> 20} MiB")
        if rest:
            self.notes.append(
                f"{self._name}:{self._line + 1} the last line is incomplete and was left out: "
                "the file is truncated or still being written"
            )

    def _read_chunks(self) -> Iterator[bytes]:
        self._is_compressed = is_compressed(self._file.peek(4)[:4])
        if not self._is_compressed:
            yield from iter(lambda: self._file.read(_CHUNK), b"")
            return
        frames = FrameReader(self._file)
        try:
            yield from frames
        except DamagedFrameError as error:
            raise self._fail(self._line + 1, f"the file is damaged after this line: {error}") from None

    def _fail(self, line: int, message: str, field: str = "") -> InvalidInputError:
        return InvalidInputError([*self._errors, ValidationError(self._name, line, field, message)])

    def _add_error(self, field: str, message: str) -> None:
        self._errors.append(ValidationError(self._name, self._line, field, message))
        if len(self._errors) >= _MAX_ERRORS:
            raise InvalidInputError(self._errors)


def read_header(path: Path) -> Header:
    """Read the header of a trace only; raise ``InvalidInputError``."""
    reader = TraceReader(path)
    reader.close()
    return reader.header


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A whole trace in memory, its tasks with their run times."""

    header: Header
    events: tuple[Event, ...]
    """In order of time, without ``End``; ``Finish`` only of initial pods, by their UID."""
    seconds: float
    """Time of the last event or of the end."""
    notes: tuple[str, ...] = ()


def load_trace(path: Path) -> Trace:
    """Read a whole trace; raise ``InvalidInputError``."""
    reader = TraceReader(path)
    events: list[Event] = []
    finished: dict[str, float] = {}
    tasks: set[str] = set()
    seconds = 0.0
    notes: list[str] = []
    for event in reader:
        seconds = max(seconds, event.t)
        if isinstance(event, Tasks):
            tasks.add(event.id)
        if isinstance(event, Finish) and event.id in tasks:
            finished[event.id] = event.seconds
        elif isinstance(event, End):
            notes += event.notes
        else:
            events.append(event)
    return Trace(
        header=reader.header,
        events=tuple(_with_run_time(event, finished) for event in events),
        seconds=seconds,
        notes=(*notes, *reader.notes),
    )


def _with_run_time(event: Event, finished: dict[str, float]) -> Event:
    if isinstance(event, Tasks) and event.seconds is None and event.id in finished:
        return msgspec.structs.replace(event, seconds=finished[event.id])
    return event


class _Order:
    """Rules about the sequence of events."""

    def __init__(self) -> None:
        self._now = 0.0
        self._templates: set[str] = set()
        self._running: set[str] = set()
        self.ended = False

    def check(self, event: Event) -> tuple[str, str] | None:
        """Return the field and what is wrong about it; None: the event fits."""
        if self.ended and not isinstance(event, Gap):
            return "", "after an end only a gap can follow; these are two traces"
        self.ended = isinstance(event, End)
        if event.t < self._now:
            return "t", f"{event.t:g} is before {self._now:g} of an earlier line; sort the events by t"
        self._now = event.t
        return self._check_references(event) or _check_object(event)

    def _check_references(self, event: Event) -> tuple[str, str] | None:
        match event:
            case Template():
                self._templates.add(event.id)
            case Initial() if event.object.get("kind") == "Pod":
                self._running.add(_get_uid(event.object))
            case Tasks() if event.template not in self._templates:
                return "template", f"{event.template!r} is not defined in an earlier line"
            case Tasks() if event.id:
                if event.id in self._running:
                    return "id", f"{event.id!r} is used by earlier tasks"
                self._running.add(event.id)
            case Finish() if event.id not in self._running:
                return "id", f"there are no tasks {event.id!r} in an earlier line"
        return None


def _check_object(event: Event) -> tuple[str, str] | None:
    match event:
        case Initial() if event.t > 0:
            return "t", "initial objects have t 0"
        case Initial() | Set():
            return _check_identity(event.object)
        case Template() if event.owner not in ("Job", "Pod"):
            return "owner", f"{event.owner!r} is neither 'Job' nor 'Pod'"
        case Template() if not isinstance(event.template.get("spec"), dict):
            return "template.spec", "is missing"
        case Interruption() if (event.count is None) == (event.share is None):
            return "", "an interruption has a count or a share"
    return None


def _get_uid(obj: dict[str, Any]) -> str:
    meta = obj.get("metadata")
    return str(meta.get("uid") or "") if isinstance(meta, dict) else ""


def _check_identity(obj: dict[str, Any]) -> tuple[str, str] | None:
    meta = obj.get("metadata")
    for field, value in (
        ("apiVersion", obj.get("apiVersion")),
        ("kind", obj.get("kind")),
        ("metadata.name", meta.get("name") if isinstance(meta, dict) else None),
    ):
        if not isinstance(value, str) or not value:
            return f"object.{field}", "is missing"
    return None


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InvalidInputError([ValidationError(str(path), 0, "", "does not exist")]) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise InvalidInputError([ValidationError(str(path), 0, "", message)]) from None


def _describe(line: bytes, error: Exception) -> tuple[str, str]:
    """Return the field and message of a line that is no event."""
    try:
        value = msgspec.json.decode(line)
    except JSON_ERRORS:
        return "", f"this line is not JSON: {error}"
    if isinstance(value, dict) and value.get("format") == FORMAT:
        return _SECOND_HEADER
    name = value.get("event") if isinstance(value, dict) else None
    if name not in EVENT_NAMES:
        if not isinstance(name, str):
            return "", "this line is no event: it has no 'event'"
        return "event", f"{name!r} is not an event{suggest(name, EVENT_NAMES)}"
    return _split(error)


def _split(error: Exception) -> tuple[str, str]:
    """Return the path and the text of an error of msgspec."""
    text, _, path = str(error).partition(" - at `$")
    if text.endswith(f"<= {MAX_SECONDS}"):
        text = "is longer than ten years; the unit is seconds"
    return path.strip("`").lstrip("."), text
