"""``dovetail demo``: run a scenario in a simulated cluster."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.text import Text

from dovetail.cli.files import STDIN, SUFFIXES, Source, read_bytes
from dovetail.cli.options.burstable import burstable_option
from dovetail.cli.options.dashboard_port import PORT
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, with_discount_source
from dovetail.cli.options.node_cost import node_cost_options
from dovetail.cli.output.console import (
    columns,
    screen,
    supports_live_view,
    terminal_width,
    write,
    write_lines,
)
from dovetail.codec.text.suggestions import suggest
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario, bundled_scenario_names
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.settings import SchedulingSettings

DEFAULT_SCENARIO = "scale-100"
EXIT_NOT_REACHED = 2


class Output(StrEnum):
    """Output format of the report."""

    TABLE = "table"
    JSON = "json"


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [
        CompletionItem(scenario) for scenario in bundled_scenario_names() if scenario.startswith(incomplete)
    ]
    return names or [CompletionItem(incomplete, type="file")]


@click.command(
    epilog="Exit codes: 0 every phase reached its goal; 1 bad input; 2 a phase did not, or an "
    "invariant was violated; 130 interrupted."
)
@click.argument("name", default=DEFAULT_SCENARIO, metavar="[SCENARIO]", shell_complete=_complete)
@click.option("--list", "listing", is_flag=True, help="List the bundled scenarios.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Virtual seconds per real second of the live view. Default: slow during events, fast "
    "otherwise, about ten seconds in all. In a pipe it runs as fast as possible.",
)
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@burstable_option
@node_cost_options
@click.option(
    "-o",
    "--output",
    type=click.Choice([member.value for member in Output]),
    default=Output.TABLE.value,
    show_default=True,
    help="json prints only the report, with every phase.",
)
@click.option(
    "--dashboard", is_flag=True, help="Serve the live view to the browser; about 90 seconds, unless --speed."
)
@click.option("--dashboard-port", type=PORT, default=0, help="Port of --dashboard. Default: a free one.")
@click.pass_context
def demo(
    context: click.Context,
    /,
    name: str,
    listing: bool,
    speed: float | None,
    discounts: str | None,
    burstable: str,
    output: str,
    dashboard: bool,
    dashboard_port: int,
    **scheduling: Any,
) -> None:
    """Run a scenario in a simulated cluster and report what happens.

    SCENARIO is a name from --list (default scale-100), or your own YAML file. Time is virtual;
    the controllers are the real ones. A terminal shows a live view, a pipe one line per event. A
    report follows.
    """
    if listing:
        _list(Output(output))
        return
    # Imported late: the simulator is slow to load.
    from dovetail.cli.demo.playback import AdaptiveSpeed, FixedSpeed
    from dovetail.cli.demo.report import Outcome, outcome_json, outcome_lines, wall_line
    from dovetail.cli.demo.runner import DemoRunner
    from dovetail.simulator.cluster import SimulatedCluster
    from dovetail.simulator.scenario.load import read_scenario
    from dovetail.simulator.scenario_runner import Report

    clock = SystemClock()
    began = clock.seconds()
    catalog, prices = bundled_catalog(), bundled_prices()
    file, data = _source(name)
    scenario = read_scenario(file, data, catalog=catalog)
    book = discounts_in(discounts)
    if not scenario.phases:
        raise InvalidInputError(
            [ValidationError(file, 0, "phases", "is missing; a demo has at least one phase")]
        )
    cluster = SimulatedCluster(
        scenario,
        catalog=catalog,
        prices=prices,
        discounts=book,
        settings=SchedulingSettings(**scheduling),
        burstable=BurstablePolicy(burstable),
        keep_events=dashboard,
    )
    runner = DemoRunner(cluster, scenario)
    drawn = output == Output.TABLE and supports_live_view() and not dashboard
    report: Report | None
    try:
        if dashboard:
            from dovetail.cli.demo.dashboard import run_with_dashboard

            described = with_discount_source(prices, book).describe(scenario.region)
            report = asyncio.run(
                run_with_dashboard(cluster, scenario, speed=speed, port=dashboard_port, prices=described)
            )
        elif drawn:
            with screen() as show:
                report = runner.run_with_view(show, FixedSpeed(speed) if speed else AdaptiveSpeed(), clock)
        else:
            report = runner.run() if output == Output.JSON else runner.run_with_log(write)
    finally:
        # Close pending coroutines now; otherwise Python warns about them at exit.
        cluster.operator.kill()
    if report is None:
        raise click.Abort
    outcome = Outcome(
        scenario=scenario,
        report=report,
        violations=tuple(cluster.invariants.violations),
        wall_seconds=clock.seconds() - began,
    )
    if output == Output.JSON:
        write(outcome_json(outcome, with_discount_source(prices, book)))
    else:
        lines = outcome_lines(outcome, with_discount_source(prices, book), terminal_width())
        write_lines([Text(), *lines, *(() if drawn else (wall_line(outcome),))])
    context.exit(0 if outcome.is_good else EXIT_NOT_REACHED)


def _list(output: Output) -> None:
    from dovetail.simulator.scenario.load import read_scenario

    scenarios = [read_scenario(name, bundled_scenario(name)) for name in bundled_scenario_names()]
    if output is Output.JSON:
        listed = [{"name": scenario.name, "about": scenario.about} for scenario in scenarios]
        write(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return
    rows = columns([[scenario.name, scenario.about] for scenario in scenarios])
    write_lines([Text(row) for row in rows])


def _source(name: str) -> Source:
    """Return the scenario with that name, or the file."""
    if name in bundled_scenario_names():
        return f"{name}.yaml", bundled_scenario(name)
    if name == STDIN or Path(name).exists() or name.endswith(SUFFIXES) or "/" in name:
        return "<stdin>" if name == STDIN else name, read_bytes(name)
    raise InvalidInputError(
        [ValidationError(name, 0, "", f"is not a scenario{suggest(name, bundled_scenario_names())}")]
    )
