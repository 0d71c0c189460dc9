"""``dovetail trace import``: one command for each source."""

import gzip
import io
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import click
import msgspec

from dovetail.cli.options.durations import Duration
from dovetail.cli.output.console import format_size, progress, write_note
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.record.importers.audit import AuditImport
from dovetail.record.importers.audit_events import AuditReader
from dovetail.record.importers.csv_tasks import read_tasks
from dovetail.record.importers.prometheus import PrometheusImport, to_utc
from dovetail.record.importers.task_columns import PRESETS, TaskColumns, parse_column
from dovetail.trace.model import FIRST_YEAR, LAST_YEAR, MAX_SECONDS, Event, Header
from dovetail.trace.writer import TraceWriter

EXIT_CODES = "Exit codes: 0 written; 1 bad input, or the file cannot be written."
_START = datetime.fromisoformat("2026-01-05T00:00:00+00:00")
"""A Monday; public traces have no date."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_LAYERS = 3
"""CloudWatch compresses records, Firehose its files, and a browser or a script what it stores."""
_LONGEST = timedelta(seconds=MAX_SECONDS)

output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The trace to write.",
)


class Time(click.ParamType[datetime]):
    """``2026-03-02T08:00:00Z``."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            self.fail(f"{value!r} is not a time with a time zone; example: 2026-03-02T08:00:00Z.", param, ctx)
        if not FIRST_YEAR <= time.year <= LAST_YEAR:
            self.fail(f"{value!r} is not between {FIRST_YEAR} and {LAST_YEAR}.", param, ctx)
        return time


@click.command("csv", epilog=EXIT_CODES)
@click.argument("file", type=click.Path())
@output_option
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="Columns of a public trace.")
@click.option(
    "--column",
    "given",
    multiple=True,
    metavar="FIELD=COLUMN[:UNIT]",
    help="Fields: start, end or duration, cpu, memory, gpu, count, workload. COLUMN is a name or, from 1, "
    "a position. Units: s, ms, us, m, h, d; cores, milli, percent; bytes, KiB, MiB, GiB, MB, GB; or a "
    "factor: cpu=share:64, memory=share:256GiB. Starts and ends can be dates. May be repeated.",
)
@click.option("--no-header", is_flag=True, help="The first line is a task.")
@click.option(
    "--from",
    "begin",
    type=Duration(longest=_LONGEST),
    metavar="TIME",
    help="Begin 36h, 115d after the first task; tasks that run then are included.",
)
@click.option(
    "--for",
    "duration",
    type=Duration(longest=_LONGEST),
    metavar="TIME",
    help="End 24h, 7d after the beginning.",
)
@click.option("--start", type=Time(), default=_START, metavar="TIME", help="Date of the beginning.")
@click.option("--skip-invalid", is_flag=True, help="Leave out invalid rows, and count them.")
def import_csv(
    file: str,
    output: Path,
    preset: str | None,
    given: tuple[str, ...],
    no_header: bool,
    begin: timedelta | None,
    duration: timedelta | None,
    start: datetime,
    skip_invalid: bool,
) -> None:
    """Import a CSV task trace: one row per task, with start, run time and requests.

    FILE may be gzip-compressed, or - for standard input. Rows need not be sorted.
    """
    columns = PRESETS[preset] if preset else TaskColumns(columns={})
    named = {**columns.columns, **dict(map(parse_column, given))}
    columns = msgspec.structs.replace(columns, columns=named)
    with progress("Reading the tasks"), _open_text(file) as text:
        if no_header and not columns.header:
            first = text.readline()
            numbers = tuple(str(number) for number in range(1, first.count(",") + 2))
            columns = msgspec.structs.replace(columns, header=numbers)
            tasks = read_tasks(_chain(first, text), file, columns, skip_invalid=skip_invalid)
        else:
            tasks = read_tasks(text, file, columns, skip_invalid=skip_invalid)
    selected = tasks.select(
        file,
        begin=begin.total_seconds() if begin else 0.0,
        length=duration.total_seconds() if duration else math.inf,
    )
    write_trace(output, selected.header(start, Path(file).name, columns), selected.events())


@click.command("audit", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, type=click.Path())
@output_option
def import_audit(files: tuple[str, ...], output: Path) -> None:
    """Import Kubernetes audit logs, such as those that EKS writes to CloudWatch.

    FILES are JSON lines, an export to S3, or the output of `aws logs filter-log-events`; each may be
    gzip-compressed, or - for standard input. Several files are merged by time.
    """
    reader, imported = AuditReader(), AuditImport()
    with progress("Reading the audit log"):
        for name in files:
            with open_binary(name) as file:
                imported.add(reader.read(file, name))
        reader.check()
        header, events = imported.play()
    for note in reader.notes:
        write_note(f"note: {note}")
    write_trace(output, header, events)


@click.command("prometheus", epilog=EXIT_CODES)
@click.argument("url")
@output_option
@click.option("--start", type=Time(), required=True, metavar="TIME", help="Such as 2026-03-02T08:00:00Z.")
@click.option("--end", type=Time(), required=True, metavar="TIME")
@click.option(
    "--step", type=click.IntRange(1, 3600), default=30, show_default=True, help="Resolution in seconds."
)
@click.option(
    "--selector", default="", metavar="MATCHERS", help="""Further labels, such as 'cluster="prod"'."""
)
@click.option(
    "--token-file", type=click.Path(path_type=Path, dir_okay=False), help="A file with a bearer token."
)
def import_prometheus(
    url: str, output: Path, start: datetime, end: datetime, step: int, selector: str, token_file: Path | None
) -> None:
    """Import the series of kube-state-metrics from the Prometheus at URL.

    Replicas of Deployments and StatefulSets, requests of their pods, and pods of Jobs and bare pods
    with their run times. Add NodePools with `-f` when the trace is replayed.
    """
    if end <= start:
        raise click.UsageError("--end must be after --start.")
    try:
        token = token_file.read_text(errors="replace").strip() if token_file else ""
    except OSError as error:
        raise DovetailError(f"{token_file} cannot be read: {error.strerror}") from error
    if not (token.isascii() and token.isprintable()):
        raise DovetailError(f"{token_file} is not a bearer token: it is not one line of text")
    source = PrometheusImport(
        url=url, start=to_utc(start), end=to_utc(end), step=step, selector=selector, token=token
    )
    with progress("Reading Prometheus"):
        header, events = source.read()
    write_trace(output, header, events)


def write_trace(output: Path, header: Header, events: Iterable[Event]) -> None:
    """Write a trace, and say what was assumed."""
    written = 0
    try:
        with TraceWriter(output, header) as writer:
            for event in events:
                writer.write(event)
                written += 1
    except OSError as error:
        raise DovetailError(f"{output} cannot be written: {error.strerror or error}") from error
    for sentence in header.assumptions:
        write_note(f"note: {sentence}")
    write_note(f"{pluralize(written, 'event')} in {output}, {format_size(output.stat().st_size)}")


def _chain(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


@contextmanager
def _open_text(name: str) -> Iterator[TextIO]:
    """Open a file as text, decompressing it if needed."""
    try:
        with open_binary(name) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        raise InvalidInputError([ValidationError(name, 0, "", f"is not text: {error}")]) from None


@contextmanager
def open_binary(name: str) -> Iterator[BinaryIO]:
    """Open a file or standard input, decompressing gzip, also on top of gzip."""
    try:
        stdin = nullcontext(cast(io.BufferedReader, sys.stdin.buffer))
        with stdin if name == "-" else open(name, "rb") as file, ExitStack() as opened:
            stream: io.BufferedReader | gzip.GzipFile = file
            for _ in range(_GZIP_LAYERS):
                if stream.peek(2)[:2] != _GZIP_MAGIC:
                    break
                stream = opened.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise InvalidInputError([ValidationError(name, 0, "", "does not exist")]) from None
    except (OSError, EOFError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InvalidInputError([ValidationError(name, 0, "", message)]) from None
