"""``dovetail simulate``: which nodes these pods would get, and what they cost."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import click
import msgspec

from dovetail.cli.files import STDIN, attempt, read_sources
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.discounts import (
    DISCOUNTS_HELP,
    about_commitments,
    after_discounts,
    discounts_in,
    discounts_report,
)
from dovetail.cli.options.manifests import manifest_options
from dovetail.cli.output.console import progress, say, write, write_lines
from dovetail.cli.output.plan_report import PriceSource, as_json, as_yaml, report_on
from dovetail.cli.simulate.table import plan_lines
from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs
from dovetail.core.instancetypes.discounts import Discounts
from dovetail.core.scheduling.discounted import Afforded, solve_discounted
from dovetail.errors import BadInput, Mistake
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.labels import OS
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.settings import MinValues, Packing, Preferences, SchedulingSettings
from dovetail.simulate import Assembled, assemble

EXIT_UNPLACED = 2

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Output(StrEnum):
    """How the plan is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, option by option."""

    files: tuple[str, ...]
    more_files: tuple[str, ...]
    cluster: tuple[str, ...]
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str | None
    zones: tuple[str, ...]
    output: Output
    packing: Packing
    preferences: Preferences
    min_values: MinValues
    cron_runs: bool

    def settings(self) -> SchedulingSettings:
        return SchedulingSettings(
            packing=self.packing, preferences=self.preferences, min_values=self.min_values
        )


def _choice(name: str, kind: type[StrEnum], default: StrEnum, **more: Any) -> _Decorator:
    """Make an option of an enumeration, in any case but shown as Karpenter spells it."""
    values = [member.value for member in kind]
    return click.option(
        *name.split(),
        type=click.Choice(values, case_sensitive=False),
        metavar=f"[{'|'.join(values)}]",
        default=default.value,
        show_default=True,
        **more,
    )


def _zone_list(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Read ``--zones a,b --zones c`` as a, b and c."""
    names = (name.strip() for one in given for name in one.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


@click.command(epilog="Exit codes: 0 every pod has a node; 2 some have none; 1 bad input.")
@manifest_options
@click.option(
    "--cluster",
    multiple=True,
    metavar="DUMP",
    type=click.Path(),
    help="A live cluster as `kubectl get … -o json` wrote it: nodes, pods, workloads, volumes, "
    "NodePools. Room on its nodes is used first. May be repeated.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option("--catalog", metavar="FILE", type=click.Path(), help="A catalogue that you recorded.")
@click.option(
    "--region",
    metavar="R",
    help="Default: that of the nodes or zones in the files, else us-east-1.",
)
@click.option(
    "--zones",
    multiple=True,
    metavar="ZONE,...",
    callback=_zone_list,
    help="Buy in these zones only. Default: the EC2NodeClass's subnets, else the whole region.",
)
@_choice("-o --output", Output, Output.TABLE, help="json and yaml tell every node and pod.")
@_choice("--packing", Packing, Packing.CHEAPEST, help="What to minimise: dollars or nodes.")
@_choice(
    "--preference-policy preferences",
    Preferences,
    Preferences.RESPECT,
    help="Whether preferred affinities and ScheduleAnyway spreads count.",
)
@_choice(
    "--min-values-policy min_values",
    MinValues,
    MinValues.STRICT,
    help="Whether a NodePool's minValues may be undercut where they cannot be met.",
)
@click.option("--cron-runs", is_flag=True, help="Plan for one run of each CronJob as well.")
@click.pass_context
def simulate(context: click.Context, /, **given: Any) -> None:
    """Plan nodes for the pods of some manifests. Changes nothing, needs no cloud.

    Workloads (Deployments, StatefulSets, Jobs, …) count with all their replicas; NodePools and
    EC2NodeClasses among the files say what may be bought.
    """
    request = msgspec.convert(given, Request)
    catalog = catalog_in(request.catalog)
    prices, book, inputs = _read(request, catalog)
    with progress("Pricing instance types"):
        assembled = assemble(
            inputs, catalog=catalog, prices=prices, region=request.region, zones=request.zones
        )
    with progress(f"Planning {len(inputs.pending):,} pods"):
        afforded = solve_discounted(
            assembled.snapshot, request.settings(), Discounts(book, region=assembled.region)
        )

    _show(request.output, afforded, assembled, prices, book)
    context.exit(EXIT_UNPLACED if afforded.plan.unplaced else 0)


def _read(request: Request, catalog: Catalog) -> tuple[PriceBook, DiscountBook, Inputs]:
    """Read every file that is named; raises with the mistakes of all of them."""
    manifests = (*request.files, *request.more_files)
    if not manifests and not request.cluster:
        raise click.UsageError("Name what to plan for: -f PATH, --cluster DUMP, or both.")
    if (*manifests, *request.cluster).count(STDIN) > 1:
        raise click.UsageError("Standard input (-) can be read only once.")
    mistakes: list[Mistake] = []
    with progress("Reading manifests"):
        prices = attempt(mistakes, lambda: prices_in(request.prices, catalog))
        book = attempt(mistakes, lambda: discounts_in(request.discounts))
        given = attempt(mistakes, lambda: read_sources(manifests))
        live = attempt(mistakes, lambda: read_sources(request.cluster))
        inputs = attempt(
            mistakes, lambda: read_inputs(given or [], live or [], cron_runs=request.cron_runs)
        )
    if prices is None or book is None or inputs is None or mistakes:
        raise BadInput(mistakes)
    return prices, book, inputs


def _show(
    output: Output,
    afforded: Afforded,
    assembled: Assembled,
    prices: PriceBook,
    book: DiscountBook,
) -> None:
    plan = afforded.plan
    notes = (
        *assembled.notes,
        *_about_prices(plan, prices),
        *about_commitments(afforded, book),
    )
    if output is Output.TABLE:
        dated = "" if prices.date else " (undated; a line '# date: YYYY-MM-DD' in it would tell)"
        told = f"{prices.describe()}{dated}; region {assembled.region}"
        told += after_discounts(afforded, book)
        write_lines(plan_lines(plan, prices=told, notes=notes))
        return
    source = PriceSource(source=prices.source, date=prices.date)
    report = report_on(plan, source, discounts_report(afforded, book))
    write(as_json(report) if output is Output.JSON else as_yaml(report))
    for note in notes:
        say(f"note: {note}")


def _about_prices(plan: Plan, prices: PriceBook) -> list[str]:
    bought = {node.instance_type.name for node in plan.nodes}
    guessed = sorted(bought & prices.estimated)
    notes = [f"prices estimated from related types: {', '.join(guessed)}"] if guessed else []
    if prices.list_prices and any(_runs_windows(node) for node in plan.nodes):
        notes.append("prices are those of Linux; licences of Windows nodes come on top")
    return notes


def _runs_windows(node: PlannedNode) -> bool:
    system = node.instance_type.requirements.get(OS)
    return system is not None and "windows" in system.values
