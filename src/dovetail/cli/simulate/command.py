"""``dovetail simulate``: plan nodes for the pods of manifests, with prices."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import click
import msgspec

from dovetail import simulate as library
from dovetail.cli.files import STDIN, attempt, read_sources
from dovetail.cli.options.burstable import (
    DEFAULT_MIN_MEMORY,
    MIN_MEMORY_HELP,
    MemoryAmount,
    burstable_option,
    parse_requests,
)
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.discounts import (
    DISCOUNTS_HELP,
    about_commitments,
    after_discounts,
    discounts_in,
    discounts_report,
)
from dovetail.cli.options.durations import Duration
from dovetail.cli.options.feature_gates import strict_gates
from dovetail.cli.options.manifests import manifest_options
from dovetail.cli.options.node_cost import node_cost_options
from dovetail.cli.output.console import progress, terminal_width, write, write_lines, write_note
from dovetail.cli.output.plan_report import JobHours, as_json, as_yaml, report_on
from dovetail.cli.simulate.notes import note_inputs, note_jobs, note_operating_systems, note_prices
from dovetail.cli.simulate.suggested_nodepools import SuggestedNodePool, suggest_nodepools
from dovetail.cli.simulate.table import format_plan
from dovetail.codec.inputs.autoscaled_workloads import ReplicaSource
from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.kube.resources import Resources
from dovetail.model.settings import (
    FeatureGates,
    MinValuesPolicy,
    Packing,
    PreferencePolicy,
    SchedulingSettings,
)
from dovetail.simulate import SimulationResult

EXIT_UNSCHEDULABLE = 2

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class PlanFormat(StrEnum):
    """Output formats of a plan."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command."""

    files: tuple[str, ...]
    more_files: tuple[str, ...]
    cluster: tuple[str, ...]
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str | None
    zones: tuple[str, ...]
    output: PlanFormat
    packing: Packing
    preferences: PreferencePolicy
    min_values: MinValuesPolicy
    burstable: BurstablePolicy
    min_node_memory: int
    assume_requests: Resources
    node_cost: float | None
    fewer_nodes_tolerance: float
    cron_runs: bool
    replicas: ReplicaSource
    job_duration: timedelta
    feature_gates: FeatureGates

    def settings(self) -> SchedulingSettings:
        return SchedulingSettings(
            packing=self.packing,
            preference_policy=self.preferences,
            min_values_policy=self.min_values,
            min_node_memory=self.min_node_memory,
            node_cost=self.node_cost,
            fewer_nodes_tolerance=self.fewer_nodes_tolerance,
        )


def _choice(name: str, kind: type[StrEnum], default: StrEnum, **more: Any) -> _Decorator:
    """Return an option of an enumeration; case-insensitive, shown in Karpenter's spelling."""
    values = [member.value for member in kind]
    return click.option(
        *name.split(),
        type=click.Choice(values, case_sensitive=False),
        metavar=f"[{'|'.join(values)}]",
        default=default.value,
        show_default=True,
        **more,
    )


def _split_zones(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return a, b and c for ``--zones a,b --zones c``."""
    names = (name.strip() for value in values for name in value.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


@click.command(epilog="Exit codes: 0 every pod has a node; 2 some have none; 1 bad input.")
@manifest_options
@click.option(
    "--cluster",
    multiple=True,
    metavar="DUMP",
    type=click.Path(),
    help="Dump of a live cluster by `dovetail dump`: nodes, pods, workloads, volumes, "
    "NodePools. Pods use free room on its nodes first. May be repeated.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option("--catalog", metavar="FILE", type=click.Path(), help="A recorded catalogue.")
@click.option(
    "--region", metavar="R", help="Default: that of the nodes or zones in the files, else us-east-1."
)
@click.option(
    "--zones",
    multiple=True,
    metavar="ZONE,...",
    callback=_split_zones,
    help="Launch in these zones only. Default: the EC2NodeClass's subnets, else the whole region.",
)
@_choice("-o --output", PlanFormat, PlanFormat.TABLE, help="json and yaml list every node and pod.")
@_choice("--packing", Packing, Packing.CHEAPEST, help="What to minimise: dollars or nodes.")
@_choice(
    "--preference-policy preferences",
    PreferencePolicy,
    PreferencePolicy.RESPECT,
    help="Whether preferred affinities and ScheduleAnyway spreads count.",
)
@_choice(
    "--min-values-policy min_values",
    MinValuesPolicy,
    MinValuesPolicy.STRICT,
    help="Whether a NodePool's minValues may be relaxed if they cannot be met.",
)
@burstable_option
@click.option(
    "--min-node-memory",
    type=MemoryAmount(),
    default=DEFAULT_MIN_MEMORY,
    show_default=True,
    help=MIN_MEMORY_HELP,
)
@click.option(
    "--assume-requests",
    default="",
    callback=parse_requests,
    metavar="cpu=Q,memory=Q",
    help="Requests of pods that have none, for this plan only. Example: cpu=100m,memory=128Mi.",
)
@node_cost_options
@click.option("--cron-runs", is_flag=True, help="Plan for one run of each CronJob as well.")
@click.option(
    "--job-duration",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long Jobs without activeDeadlineSeconds run, for the price of nodes that end with them.",
)
@_choice(
    "--replicas",
    ReplicaSource,
    ReplicaSource.SPEC,
    help="Replicas of workloads that a HorizontalPodAutoscaler or a ScaledObject (KEDA) scales: those "
    "of the workload, within the range of the autoscaler; or its minimum or maximum.",
)
@click.option(
    "--feature-gates",
    default="",
    callback=strict_gates,
    metavar="GATE=BOOL,...",
    help="NodeClassCEL (false): evaluate expressions in kubelet settings.",
)
@click.pass_context
def simulate(context: click.Context, /, **options: Any) -> None:
    """Plan nodes for the pods of manifests. Changes nothing and needs no AWS account.

    Workloads (Deployments, StatefulSets, Jobs, …) count with all their replicas. NodePools and
    EC2NodeClasses among the files define which instances may be launched.
    """
    request = msgspec.convert(options, Request)
    catalog = catalog_in(request.catalog)
    prices, book, inputs = _read(request, catalog)
    plan = partial(
        library.simulate,
        catalog=catalog,
        prices=prices,
        region=request.region,
        zones=request.zones,
        settings=request.settings(),
        discounts=book,
        burstable=request.burstable,
        assumed_requests=request.assume_requests,
    )
    suggestions: list[SuggestedNodePool] = []
    with progress(f"Planning {pluralize(len(inputs.pending), 'pod')}"):
        result = plan(inputs)
        if request.output is PlanFormat.TABLE:
            suggestions = suggest_nodepools(
                result.plan, result.snapshot, inputs, lambda changed: plan(changed).plan
            )
    job_hours = JobHours(request.job_duration.total_seconds() / 3600, inputs.job_seconds)
    notes = note_inputs(inputs, (*request.files, *request.more_files), request.cluster)
    result = msgspec.structs.replace(result, notes=(*notes, *result.notes))
    _show(request.output, result, suggestions, prices, book, job_hours)
    context.exit(EXIT_UNSCHEDULABLE if result.plan.unschedulable else 0)


def _read(request: Request, catalog: Catalog) -> tuple[PriceBook, DiscountBook, Inputs]:
    """Read all files; raise with the errors of all of them."""
    manifests = (*request.files, *request.more_files)
    if not manifests and not request.cluster:
        raise click.UsageError("Name the input: -f PATH, --cluster DUMP, or both.")
    if (*manifests, *request.cluster).count(STDIN) > 1:
        raise click.UsageError("Standard input (-) can be read only once.")
    errors: list[ValidationError] = []
    with progress("Reading manifests"):
        prices = attempt(errors, lambda: prices_in(request.prices, catalog))
        book = attempt(errors, lambda: discounts_in(request.discounts))
        files = attempt(errors, lambda: read_sources(manifests))
        cluster = attempt(errors, lambda: read_sources(request.cluster))
        inputs = attempt(
            errors,
            lambda: read_inputs(
                files or [],
                cluster or [],
                cron_runs=request.cron_runs,
                kubelet_expressions=request.feature_gates.NodeClassCEL,
                replicas=request.replicas,
            ),
        )
    if prices is None or book is None or inputs is None or errors:
        raise InvalidInputError(errors)
    return prices, book, inputs


def _show(
    output: PlanFormat,
    result: SimulationResult,
    suggestions: Sequence[SuggestedNodePool],
    prices: PriceBook,
    book: DiscountBook,
    job_hours: JobHours,
) -> None:
    plan, billed = result.plan, result.billed
    notes = (
        *result.notes,
        *note_jobs(plan),
        *note_operating_systems(plan),
        *note_prices(plan, prices, result.region),
        *about_commitments(billed, book),
    )
    if output is PlanFormat.TABLE:
        undated = "" if prices.date else " (undated; add a line '# date: YYYY-MM-DD')"
        region = f"region {result.region}{after_discounts(billed, book)}"
        source = f"{prices.describe(result.region)}{undated}; {region}"
        lines = format_plan(
            plan,
            prices=source,
            suggestions=suggestions,
            notes=notes,
            job_hours=job_hours,
            width=terminal_width(),
        )
        write_lines(lines)
        return
    discounts = discounts_report(billed, book)
    report = report_on(plan, prices, result.region, discounts, job_hours=job_hours)
    write(as_json(report) if output is PlanFormat.JSON else as_yaml(report))
    for note in notes:
        write_note(f"note: {note}")
