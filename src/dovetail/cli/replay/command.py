"""``dovetail replay``: a recorded day in the simulator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from dovetail.cli.options.policy import POLICY_HELP, POLICY_METAVAR, note_clashes
from dovetail.cli.output.console import may_animate, write, write_lines
from dovetail.cli.output.console import progress as spinner
from dovetail.cli.output.html_page import Points, draw_steps, format_page, format_section
from dovetail.cli.output.sections import Section, format_table
from dovetail.cli.replay.inputs import GivenOptions, read_inputs, replay_options
from dovetail.cli.replay.sections import build_sections
from dovetail.codec.text.suggestions import pluralize
from dovetail.core.disruption.policy import DEFAULT_POLICY
from dovetail.policies.process import open_policy
from dovetail.preview.observer import Observer
from dovetail.replay.play import Progress, replay_trace
from dovetail.replay.report import Replay


@click.command(epilog="Exit codes: 0 replayed; 1 bad input; 130 interrupted.")
@replay_options
@click.option(
    "--policy", default=DEFAULT_POLICY.name, show_default=True, metavar=POLICY_METAVAR, help=POLICY_HELP
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "html"]), default="table", show_default=True
)
def replay(output: str, policy: str, **given: Any) -> None:
    """Replay a trace in the simulator: cost, evictions, waiting times.

    TRACE is a file that `dovetail record` or an importer wrote. The simulated cluster gets the
    same workloads, tasks, interruptions and capacity errors at the same times, with the trace's
    NodePools or those of -f. Needs no cluster and changes none.
    """
    with spinner("Reading the trace"):
        trace, options = read_inputs(GivenOptions.take(given))
    if policy != DEFAULT_POLICY.name:
        options = replace(options, described=(*options.described, f"policy={policy}"))
    note_clashes()
    with open_policy(policy) as opened, _show_progress() as show:
        result = replay_trace(trace, replace(options, policy=opened), progress=show)
    _write(result, output)


@contextmanager
def _show_progress() -> Iterator[Progress | None]:
    """Show simulated time and time left, on a terminal."""
    if not may_animate():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Launching the first nodes", total=1.0)

        def show(share: float, observer: Observer | None) -> None:
            described = "Launching the first nodes" if observer is None else _describe(observer)
            bar.update(task, completed=share, description=described)

        yield show


def _describe(observer: Observer) -> str:
    last = observer.samples[-1]
    nodes = pluralize(last.nodes, "node")
    return f"{observer.now:%d %b %H:%M}, {nodes}, ${last.price:,.2f}/h, {last.pending:,} pending"


def _write(result: Replay, output: str) -> None:
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
        return
    sections = build_sections(result)
    if output == "html":
        write(_format_html(result, sections))
    else:
        write_lines(list(format_table(sections)))


def _format_html(replay: Replay, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    summary, *others = map(format_section, sections)
    return format_page("Replay of a trace", summary, *_draw_charts(replay), *others)


def _draw_charts(replay: Replay) -> Iterator[str]:
    samples, intervals = replay.samples, replay.intervals
    charts: tuple[tuple[str, Points, str], ...] = (
        ("Nodes", [(sample.at, sample.nodes) for sample in samples], "{:,.0f}"),
        ("USD per hour", [(sample.at, sample.price) for sample in samples], "{:,.2f}"),
        ("Pods without a node", [(sample.at, sample.pending) for sample in samples], "{:,.0f}"),
        ("Evictions", [(interval.at, interval.evictions) for interval in intervals], "{:,.0f}"),
        ("Nodes launched", [(interval.at, interval.launched) for interval in intervals], "{:,.0f}"),
    )
    for title, points, form in charts:
        yield draw_steps(title, [("with", points)], end=replay.seconds, form=form)
