"""``dovetail trace show``: summary of a trace."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from dovetail.cli.output.console import columns, progress, write, write_note
from dovetail.trace.model import Initial, Tasks
from dovetail.trace.reader import load_trace


@click.command(epilog="Exit codes: 0 shown; 1 bad input.")
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
        ["hours", f"{summary['seconds'] / 3600:,.1f}"],
        ["region", summary["region"] or "unknown"],
        *([f"initial {kind}", f"{count:,}"] for kind, count in summary["initial"].items()),
        *([f"{kind} events", f"{count:,}"] for kind, count in summary["events"].items()),
        ["tasks", f"{summary['tasks']:,}"],
    ]
    write("\n".join(line.rstrip() for line in columns(rows)))
    for sentence in summary["assumptions"]:
        write_note(f"note: {sentence}")


def _summarise(file: Path) -> dict[str, Any]:
    trace = load_trace(file)
    initial = Counter(event.object["kind"] for event in trace.events if isinstance(event, Initial))
    others = Counter(type(event).__name__.lower() for event in trace.events if not isinstance(event, Initial))
    return {
        "writtenBy": trace.header.written_by,
        "start": trace.header.start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": trace.seconds,
        "region": trace.header.region,
        "initial": dict(sorted(initial.items())),
        "events": dict(sorted(others.items())),
        "tasks": sum(event.count for event in trace.events if isinstance(event, Tasks)),
        "assumptions": [*trace.header.assumptions, *trace.notes],
    }
