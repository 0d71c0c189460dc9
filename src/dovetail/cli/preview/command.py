"""``dovetail preview``: what a change would do to a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import click
import msgspec
from rich.console import Console

from dovetail.cli.files import attempt, read_sources
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.cluster_objects import access_options, dump_option, read_cluster_objects
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, with_discount_source
from dovetail.cli.options.durations import Span
from dovetail.cli.options.manifests import manifest_options
from dovetail.cli.options.run_settings import GATES, NAMES, change_settings, describe_settings
from dovetail.cli.output.console import may_animate, progress, write, write_lines
from dovetail.cli.output.sections import format_table
from dovetail.cli.preview.formats import format_html, format_markdown
from dovetail.cli.preview.sections import build_sections
from dovetail.codec.text.suggestions import pluralize, suggest
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import ControllerSettings
from dovetail.operator.cluster_objects import ClusterObjects
from dovetail.preview.change import Change, ChangeError, Event, find_removals, parse_deletion
from dovetail.preview.durations import format_duration
from dovetail.preview.limits import InvalidLimitError, Limit, check_limits, parse_limit
from dovetail.preview.manifests import ChangedManifests
from dovetail.preview.observer import Observer
from dovetail.preview.play import Progress
from dovetail.preview.preview import PreviewOptions, preview_change
from dovetail.preview.report import BrokenLimit, Preview
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Interrupt, NewImages, Upgrade, ZoneOutage

EXIT_BROKEN_LIMIT: Final = 3
_ALL: Final = "*"


class _Share(click.ParamType[float]):
    """``30%`` or ``0.3``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 < share <= 1:
            self.fail(f"{value!r} is not a share of the spot instances; examples: 30%, 0.3.", param, ctx)
        return share


def _parse_limits(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[Limit, ...]:
    try:
        return tuple(map(parse_limit, given))
    except InvalidLimitError as error:
        raise click.BadParameter(_end_sentence(error)) from None


def _parse_deletions(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Any:
    try:
        return tuple(map(parse_deletion, given))
    except ChangeError as error:
        raise click.BadParameter(_end_sentence(error)) from None


def _end_sentence(error: DovetailError) -> str:
    """Return the message with a full stop, unless it ends with a question."""
    text = str(error)
    return text if text.endswith("?") else f"{text}."


def _parse_version(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    parts = (given or "1.30").removeprefix("v").split(".")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts) or parts[0] != "1":
        raise click.BadParameter(f"{given!r} is not a Kubernetes version such as 1.36.")
    return given


@click.command(
    epilog="Exit codes: 0 previewed, no limit is broken; 1 bad input; 3 a limit of --fail-on is broken; "
    "130 interrupted."
)
@manifest_options
@dump_option
@access_options
@click.option(
    "--delete",
    "deletions",
    multiple=True,
    metavar="KIND/[NS/]NAME",
    callback=_parse_deletions,
    help="Delete an object: nodepool/spot, deployment/shop/web. May be repeated.",
)
@click.option(
    "--delete-file",
    "old_files",
    multiple=True,
    metavar="PATH",
    type=click.Path(),
    help="Delete the objects of a file that no -f file has. May be repeated.",
)
@click.option(
    "--new-image",
    is_flag=False,
    flag_value=_ALL,
    metavar="[NODECLASS]",
    help="New AMIs appear for EC2NodeClasses that select the latest one; or for one of them.",
)
@click.option(
    "--upgrade", metavar="VERSION", callback=_parse_version, help="Next version of the control plane: 1.36."
)
@click.option("--interrupt", type=_Share(), metavar="SHARE", help="Interrupt spot instances: 30%.")
@click.option("--zone-outage", multiple=True, metavar="ZONE", help="A zone fails. May be repeated.")
@click.option(
    "--gates", default="", metavar="GATE=BOOL,...", help="Feature gates of the controller that change."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"Setting of `dovetail run` that changes: {', '.join(NAMES)}. May be repeated.",
)
@click.option(
    "--current",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting that the cluster runs with now, if it is not the default. May be repeated.",
)
@click.option(
    "--for",
    "limit",
    type=Span(),
    default="24h",
    show_default=True,
    help="Maximum time to play; it ends earlier once nothing moves any more.",
)
@click.option(
    "--fail-on",
    "limits",
    multiple=True,
    metavar="LIMIT",
    callback=_parse_limits,
    help="Exit with 3 beyond a limit: 'cost>+5%', 'evictions>200', unschedulable, 'duration>2h', "
    "'available(shop/web)<80%', 'peak-nodes>120', 'nodes>+10', kept-nodes. May be repeated.",
)
@click.option("--catalog", metavar="FILE", type=click.Path(), help="A recorded catalogue.")
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option("--region", default="", metavar="R", help="Default: that of the nodes.")
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal previews.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "markdown", "html"]),
    default="table",
    show_default=True,
)
@click.pass_context
def preview(click_context: click.Context, /, output: str, limits: tuple[Limit, ...], **given: Any) -> None:
    """Preview what a change does to a cluster: nodes, cost, evictions, time.

    Copies a live cluster or a dump into a simulation, makes the change there, and plays it
    until nothing moves any more, beside the same cluster without the change. Nothing
    is changed in the cluster itself.
    """
    options = _Given(**{field: given[field] for field in _Given.__struct_fields__ if field in given})
    settings = (*given["settings"], *([f"{GATES}={given['gates']}"] if given["gates"] else []))
    inputs = _read_inputs(options, (*given["files"], *given["more_files"]), given["old_files"])
    current = change_settings(ControllerSettings(), given["current"])
    change = _build_change(given, inputs, current, settings)
    result = _run(change, options, inputs, current, change_settings(current, settings))
    broken = check_limits(result, limits)
    _write(result, broken, output)
    if broken:
        click_context.exit(EXIT_BROKEN_LIMIT)


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """Options that name the cluster, its prices, and how it is played."""

    cluster: tuple[str, ...]
    kubeconfig: str | None
    context: str = ""
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str
    seed: int
    limit: timedelta


class _Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read."""

    objects: ClusterObjects
    now: datetime
    catalog: Catalog
    prices: PriceBook
    discounts: DiscountBook
    manifests: ChangedManifests | None
    old_manifests: ChangedManifests | None


def _read_inputs(options: _Given, files: tuple[str, ...], old_files: tuple[str, ...]) -> _Inputs:
    """Read all files and the cluster; raise with the errors of all of them."""
    errors: list[ValidationError] = []
    with progress("Reading the cluster"):
        catalog = attempt(errors, lambda: catalog_in(options.catalog))
        discounts = attempt(errors, lambda: discounts_in(options.discounts))
        prices = attempt(errors, lambda: prices_in(options.prices, catalog or bundled_catalog()))
        sources = attempt(errors, lambda: read_sources(files)) if files else None
        old_sources = attempt(errors, lambda: read_sources(old_files)) if old_files else None
        cluster = attempt(
            errors,
            lambda: read_cluster_objects(
                options.cluster, kubeconfig=options.kubeconfig, context=options.context
            ),
        )
    if errors or catalog is None or prices is None or discounts is None or cluster is None:
        raise InvalidInputError(errors)
    return _Inputs(
        objects=cluster[0],
        now=cluster[1],
        catalog=catalog,
        prices=prices,
        discounts=discounts,
        manifests=ChangedManifests(sources) if sources else None,
        old_manifests=ChangedManifests(old_sources) if old_sources else None,
    )


def _build_change(
    given: dict[str, Any], inputs: _Inputs, current: ControllerSettings, settings: tuple[str, ...]
) -> Change:
    change = Change(
        manifests=inputs.manifests,
        deletions=given["deletions"],
        removals=find_removals(inputs.old_manifests, inputs.manifests) if inputs.old_manifests else (),
        events=tuple(_find_events(given, inputs)),
        settings=describe_settings(current, settings),
    )
    files = (*given["files"], *given["more_files"], *given["old_files"])
    if not (files or change.deletions or change.events or settings):
        raise click.UsageError(
            "Name a change: -f FILE, --delete, --delete-file, --new-image, --upgrade, --interrupt, "
            "--zone-outage, --gates or --set."
        )
    return change


def _find_events(given: dict[str, Any], inputs: _Inputs) -> Iterator[Event]:
    if given["new_image"] == _ALL:
        yield Event("New AMIs for all EC2NodeClasses that select the latest one", NewImages())
    elif given["new_image"]:
        name = given["new_image"]
        known = [
            obj["metadata"]["name"] for obj in inputs.objects.objects if obj.get("kind") == "EC2NodeClass"
        ]
        if name not in known:
            raise click.BadParameter(
                f"there is no EC2NodeClass {name!r}{suggest(name, known)}", param_hint="--new-image"
            )
        yield Event(f"New AMIs for EC2NodeClass {name}", NewImages((name,)))
    if given["upgrade"]:
        version = given["upgrade"].removeprefix("v")
        yield Event(f"Control plane version {version}", Upgrade(version))
    if given["interrupt"]:
        yield Event(
            f"Interruption of {given['interrupt']:.0%} of the spot instances", Interrupt(given["interrupt"])
        )
    for zone in given["zone_outage"]:
        zones = sorted({name for region in inputs.catalog.regions.values() for name in region.zones})
        if zone not in zones:
            raise click.BadParameter(
                f"there is no zone {zone!r}{suggest(zone, zones)}", param_hint="--zone-outage"
            )
        yield Event(f"Outage of zone {zone}", ZoneOutage(zone))


def _run(
    change: Change, options: _Given, inputs: _Inputs, current: ControllerSettings, changed: ControllerSettings
) -> Preview:
    def build(settings: ControllerSettings) -> SimulatedCluster:
        return SimulatedCluster.from_snapshot(
            inputs.objects.objects,
            now=inputs.now,
            catalog=inputs.catalog,
            prices=inputs.prices,
            discounts=inputs.discounts,
            settings=settings.scheduling,
            gates=settings.gates,
            consolidation=settings.consolidation,
            burstable=settings.burstable,
            region=options.region,
            seed=options.seed,
            version=inputs.objects.version,
            missing=inputs.objects.missing,
        )

    prices = with_discount_source(inputs.prices, inputs.discounts)
    with _show_progress() as show:
        return preview_change(
            change,
            PreviewOptions(
                build=lambda: build(current),
                build_changed=lambda: build(changed),
                limit=options.limit,
                seed=options.seed,
                describe_prices=prices.describe,
                progress=show,
            ),
        )


@contextmanager
def _show_progress() -> Iterator[Callable[[str], Progress] | None]:
    """Show on a terminal how far the play is."""
    if not may_animate():
        yield None
        return
    with Console(stderr=True).status("Copying the cluster") as status:

        def show(name: str) -> Progress:
            def update(elapsed: timedelta, observer: Observer) -> None:
                last = observer.samples[-1]
                state = (
                    f"{pluralize(last.nodes, 'node')}, ${last.price:,.2f}/h, "
                    f"{pluralize(last.pending, 'pod')} pending"
                )
                status.update(f"Playing {name}: {format_duration(elapsed.total_seconds())}, {state}")

            return update

        yield show


def _write(result: Preview, broken: tuple[BrokenLimit, ...], output: str) -> None:
    if output == "json":
        encoded = msgspec.to_builtins(result)
        encoded["broken_limits"] = msgspec.to_builtins(broken)
        write(msgspec.json.format(msgspec.json.encode(encoded), indent=2).decode())
        return
    sections = build_sections(result, broken)
    if output == "table":
        write_lines(list(format_table(sections)))
    elif output == "markdown":
        write(format_markdown(result, sections, broken))
    else:
        write(format_html(result, sections))
