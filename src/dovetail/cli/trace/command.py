"""``dovetail trace``: summaries of traces, and imports from other systems."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from dovetail.cli.lazy_group import CommandGroup
from dovetail.cli.output.console import columns, progress, write, write_note
from dovetail.cli.trace.imports import import_audit, import_csv, import_prometheus
from dovetail.preview.durations import format_duration
from dovetail.trace.model import Initial, Tasks
from dovetail.trace.reader import load_trace


@click.group(cls=CommandGroup)
def trace() -> None:
    """Summarise traces, and import them from other systems' data."""


@trace.group("import", cls=CommandGroup)
def import_trace() -> None:
    """Make a trace of other systems' data."""


for _command in (import_audit, import_csv, import_prometheus):
    import_trace.add_command(_command)


@trace.command(epilog="Exit codes: 0 shown; 1 bad input.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show(file: Path, output: str) -> None:
    """Summarise a trace: what is in it, over which time, and what was assumed."""
    with progress("Reading the trace"):
        summary = _summarise(file)
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(summary)).decode())
        return
    rows = [
        ["written by", summary["writtenBy"]],
        ["start", summary["start"]],
        ["length", format_duration(summary["seconds"])],
        ["region", summary["region"] or "unknown"],
        *([f"initial {kind}", f"{count:,}"] for kind, count in summary["initial"].items()),
        *([f"{kind} events", f"{count:,}"] for kind, count in summary["events"].items()),
        ["tasks", f"{summary['tasks']:,}"],
    ]
    write("\n".join(line.rstrip() for line in columns(rows)))
    for sentence in summary["assumptions"]:
        write_note(f"note: {sentence}")


def _summarise(file: Path) -> dict[str, Any]:
    read = load_trace(file)
    initial = Counter(event.object["kind"] for event in read.events if isinstance(event, Initial))
    others = Counter(type(event).__name__.lower() for event in read.events if not isinstance(event, Initial))
    return {
        "writtenBy": read.header.written_by,
        "start": read.header.start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": read.seconds,
        "region": read.header.region,
        "initial": dict(sorted(initial.items())),
        "events": dict(sorted(others.items())),
        "tasks": sum(event.count for event in read.events if isinstance(event, Tasks)),
        "assumptions": [*read.header.assumptions, *read.notes],
    }
