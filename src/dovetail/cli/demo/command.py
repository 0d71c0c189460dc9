"""``dovetail demo``: a whole cluster in this process, and Dovetail at work in it."""

from enum import StrEnum
from pathlib import Path

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.text import Text

from dovetail.cli.files import STDIN, SUFFIXES, Source, read_bytes
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, told_with
from dovetail.cli.output.console import can_show_pictures, columns, screen, write, write_lines
from dovetail.codec.text.suggestions import did_you_mean
from dovetail.data.bundled import bundled_catalog, bundled_prices, scenario, scenarios
from dovetail.errors import BadInput, Mistake
from dovetail.host.clock import RealClock

USUAL = "scale-100"
EXIT_SHORT = 2


class Output(StrEnum):
    """How the report is written."""

    TABLE = "table"
    JSON = "json"


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(one) for one in scenarios() if one.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


@click.command(
    epilog="Exit codes: 0 every phase reached its goal; 1 bad input; 2 a phase fell short, or an "
    "invariant broke; 130 interrupted."
)
@click.argument("name", default=USUAL, metavar="[SCENARIO]", shell_complete=_complete)
@click.option("--list", "listing", is_flag=True, help="List the scenarios that come with Dovetail.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Virtual seconds per second in the picture. Default: slow while things happen, fast "
    "through waits, about ten seconds in all. Without a picture it runs as fast as it can.",
)
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option(
    "-o",
    "--output",
    type=click.Choice([one.value for one in Output]),
    default=Output.TABLE.value,
    show_default=True,
    help="json is the report alone, with every phase.",
)
@click.pass_context
def demo(
    context: click.Context,
    name: str,
    listing: bool,
    speed: float | None,
    discounts: str | None,
    output: str,
) -> None:
    """Run a scenario in a simulated cluster: nodes are bought, filled, emptied, given back.

    SCENARIO is one of those that --list shows (scale-100 unless given), or a YAML file of your
    own. Time is virtual; the controllers are the real ones. On a terminal there is a live picture;
    in a pipe, one line for each thing that happens. A report ends it.
    """
    if listing:
        _list(Output(output))
        return
    # Imported here: a whole cluster takes longer to load than the rest of this to run.
    from dovetail.cli.demo.playback import Steady, Warping
    from dovetail.cli.demo.report import Outcome, outcome_json, outcome_lines, wall_line
    from dovetail.cli.demo.runner import Stage
    from dovetail.simulator.cluster import Box
    from dovetail.simulator.scenario.load import read_scenario

    clock = RealClock()
    began = clock.seconds()
    catalog, prices = bundled_catalog(), bundled_prices()
    file, data = _source(name)
    story = read_scenario(file, data, catalog=catalog)
    book = discounts_in(discounts)
    if not story.phases:
        raise BadInput([Mistake(file, 0, "phases", "is missing; a demo has at least one phase")])
    box = Box(story, catalog=catalog, prices=prices, discounts=book)
    stage = Stage(box, story)
    drawn = output == Output.TABLE and can_show_pictures()
    try:
        if drawn:
            with screen() as show:
                report = stage.show(show, Steady(speed) if speed else Warping(), clock)
        else:
            report = stage.run() if output == Output.JSON else stage.tell(write)
    finally:
        # Else Python closes at its end what still waits, in any order, and complains.
        box.operator.kill()
    outcome = Outcome(
        scenario=story,
        report=report,
        violations=tuple(box.invariants.violations),
        wall_seconds=clock.seconds() - began,
    )
    if output == Output.JSON:
        write(outcome_json(outcome, told_with(prices, book)))
    else:
        lines = outcome_lines(outcome, told_with(prices, book))
        write_lines([Text(), *lines, *(() if drawn else (wall_line(outcome),))])
    context.exit(0 if outcome.is_good else EXIT_SHORT)


def _list(output: Output) -> None:
    from dovetail.simulator.scenario.load import read_scenario

    stories = [read_scenario(one, scenario(one)) for one in scenarios()]
    if output is Output.JSON:
        listed = [{"name": one.name, "about": one.about} for one in stories]
        write(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return
    write("\n".join(line.rstrip() for line in columns([[one.name, one.about] for one in stories])))


def _source(name: str) -> Source:
    """Return the scenario of that name, or the file; raises ``BadInput`` if there is neither."""
    if name in scenarios():
        return f"{name}.yaml", scenario(name)
    if name == STDIN or Path(name).exists() or name.endswith(SUFFIXES) or "/" in name:
        return "<stdin>" if name == STDIN else name, read_bytes(name)
    raise BadInput([Mistake(name, 0, "", f"is no scenario{did_you_mean(name, scenarios())}")])
