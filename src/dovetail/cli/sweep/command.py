"""``dovetail sweep``: a recorded day with many settings."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from dovetail.cli.options.run_settings import NAMES
from dovetail.cli.output.console import may_animate, write, write_lines, write_note
from dovetail.cli.output.console import progress as spinner
from dovetail.cli.output.sections import format_table, format_usd
from dovetail.cli.replay.inputs import GivenOptions, read_inputs, replay_options
from dovetail.cli.sweep.html import format_html
from dovetail.cli.sweep.points import build_points, find_pools, parse_vary
from dovetail.cli.sweep.sections import build_sections, format_csv
from dovetail.codec.text.suggestions import pluralize
from dovetail.replay.play import ReplayOptions
from dovetail.replay.start import prepare_start
from dovetail.replay.sweep.choice import Limits, SweptPoint, choose, mark_front
from dovetail.replay.sweep.nodepool_keys import NODEPOOL_KEYS, SPOT_SHARE, describe_keys
from dovetail.replay.sweep.processes import run_in_processes
from dovetail.replay.sweep.ray_cluster import run_on_ray
from dovetail.replay.sweep.report import Sweep
from dovetail.replay.sweep.results import ResultFile, hash_points, hash_sweep
from dovetail.replay.sweep.spot_share import describe_shares
from dovetail.replay.sweep.worker import Outcome, Point, SweepInput
from dovetail.trace.reader import Trace

EXIT_NO_CHOICE: Final = 3
_Report = Callable[[Point, Outcome | str], None]


@click.command(
    epilog="Exit codes: 0 swept; 1 bad input; 3 no setting keeps --max-evictions and --max-cost; "
    "130 interrupted, and resumed by the same command."
)
@replay_options
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="KEY=A,B,C",
    help=f"Values to try, of NodePools: {describe_keys(NODEPOOL_KEYS)}; POOL.KEY for one of them. "
    f"Of `dovetail run`: {', '.join(NAMES)}; policy. May be repeated: every combination is tried.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    metavar="N",
    help="Try N combinations, by Latin hypercube sampling, instead of all.",
)
@click.option(
    "--eviction-price", type=click.FloatRange(0), metavar="USD", help="Choose by cost + evictions × USD."
)
@click.option(
    "--max-evictions", type=click.IntRange(0), metavar="N", help="Choose the cheapest with at most N."
)
@click.option(
    "--max-cost", type=click.FloatRange(0), metavar="USD", help="Choose the fewest evictions within it."
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Processes.  [default: one for each core]"
)
@click.option("--ray", metavar="ADDRESS", help="Replay on a Ray cluster (needs the extra sweep).")
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File that results are appended to and resumed from.  [default: NAME.sweep.jsonl here]",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "csv", "html"]), default="table", show_default=True
)
@click.pass_context
def sweep(click_context: click.Context, /, output: str, **given: Any) -> None:
    """Replay a trace with many settings, and choose by cost and evictions.

    Every combination of the --vary values is replayed, and the current settings. An interrupted
    sweep goes on where it was when it is started again. Needs no cluster and changes none.
    """
    shared = GivenOptions.take(given)
    with spinner("Reading the trace"):
        trace, options = read_inputs(shared)
    varied = parse_vary(given["vary"], find_pools(trace, options.manifests), options.catalog)
    points = build_points(varied, options.settings, samples=given["samples"], seed=shared.seed)
    if any(point.pools.is_in_template for point in points):
        # Otherwise the replays of other settings would begin with the drift of all nodes.
        options = msgspec.structs.replace(options, empty=True)
    prepare_start(trace, manifests=options.manifests, empty=options.empty)  # Raises what every point would.
    limits = Limits(
        eviction_price=given["eviction_price"],
        max_evictions=given["max_evictions"],
        max_cost=given["max_cost"],
    )
    files = (shared.catalog, shared.prices, shared.discounts)
    base = hash_sweep(Path(shared.trace), options, files)
    outcomes = _run(points, SweepInput(trace=shared.trace, options=options), base, given)
    result = _build_report(trace, options, varied, limits, outcomes)
    _write(result, output)
    if limits.is_set and result.chosen is None:
        click_context.exit(EXIT_NO_CHOICE)


def _run(
    points: list[Point], shared: SweepInput, base: str, given: dict[str, Any]
) -> list[tuple[Point, Outcome | str]]:
    """Return the outcome of each point, from the results file where it has them."""
    path = given["results"] or Path(f"{Path(shared.trace).name}.sweep.jsonl")
    keys = hash_points(base, points)
    failed: dict[str, str] = {}
    with ResultFile(path) as results:
        missing = {key: point for key, point in zip(keys, points, strict=True) if key not in results.outcomes}
        if len(missing) < len(set(keys)):
            write_note(f"{len(set(keys)) - len(missing):,} of {len(set(keys)):,} results are in {path}")
        todo = list(missing.items())
        try:
            with _show_progress(len(todo)) as report, closing(_execute(shared, todo, given)) as finished:
                for number, outcome in finished:
                    key, point = todo[number]
                    if isinstance(outcome, str):
                        failed[key] = outcome
                    else:
                        results.add(key, point, outcome)
                    report(point, outcome)
        except KeyboardInterrupt:
            done = sum(key in results.outcomes for key in set(keys))
            count = f"{done:,} of {len(set(keys)):,} results"
            write_note(f"Interrupted: {count} are in {path}; the same command continues")
            raise
        return [
            (point, failed[key] if key in failed else results.outcomes[key])
            for key, point in zip(keys, points, strict=True)
        ]


def _execute(
    shared: SweepInput, todo: list[tuple[str, Point]], given: dict[str, Any]
) -> Generator[tuple[int, Outcome | str], None, None]:
    points = [point for _, point in todo]
    if points and given["ray"]:
        yield from run_on_ray(shared, points, address=given["ray"])
    elif points:
        yield from run_in_processes(shared, points, workers=given["workers"] or os.cpu_count() or 1)


@contextmanager
def _show_progress(total: int) -> Iterator[_Report]:
    """Show a bar with the time left on a terminal, a line for each point elsewhere."""
    if not may_animate():
        done = 0

        def note(point: Point, outcome: Outcome | str) -> None:
            nonlocal done
            done += 1
            write_note(f"{done}/{total} {_describe(point, outcome)}")

        yield note
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    last = TextColumn("{task.description}", style="dim")
    with Progress(*columns, last, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda point, outcome: bar.update(task, advance=1, description=_describe(point, outcome))


def _describe(point: Point, outcome: Outcome | str) -> str:
    name = ", ".join(f"{key}={value}" for key, value in point.values) or "current settings"
    if isinstance(outcome, str):
        return f"{name}: {outcome}"
    return f"{name}: {format_usd(outcome.cost)}, {pluralize(outcome.evictions, 'eviction')}"


def _build_report(
    trace: Trace,
    options: ReplayOptions,
    varied: dict[str, list[str]],
    limits: Limits,
    outcomes: list[tuple[Point, Outcome | str]],
) -> Sweep:
    points = mark_front(
        SweptPoint(values=dict(point.values), outcome=outcome)
        for point, outcome in outcomes
        if not isinstance(outcome, str)
    )
    failed = {_name(point): outcome for point, outcome in outcomes if isinstance(outcome, str)}
    current = next((point for point in points if not point.values), None)
    if current is None:
        raise click.ClickException(
            f"the current settings cannot be replayed: {failed[_name(outcomes[0][0])]}"
        )
    seconds = trace.seconds if options.limit is None else min(trace.seconds, options.limit.total_seconds())
    return Sweep(
        trace=options.name,
        seconds=seconds,
        varied=varied,
        points=tuple(points),
        current=current,
        limits=limits,
        chosen=choose(points, limits),
        failed=failed,
        assumptions=(
            *trace.header.assumptions,
            *trace.notes,
            *describe_shares(trace, options.manifests, varied.get(SPOT_SHARE, ())),
        ),
        seed=options.seed,
        prices=options.source_of_prices,
    )


def _name(point: Point) -> str:
    return ", ".join(f"{key}={value}" for key, value in point.values)


def _write(result: Sweep, output: str) -> None:
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    elif output == "csv":
        write(format_csv(result))
    elif output == "html":
        write(format_html(result, build_sections(result)))
    else:
        write_lines(list(format_table(build_sections(result))))
