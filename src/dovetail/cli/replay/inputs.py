"""Options and inputs that ``replay`` and ``sweep`` share."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from dovetail.cli.files import attempt, read_sources
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, with_discount_source
from dovetail.cli.options.durations import Span
from dovetail.cli.options.run_settings import NAMES, change_settings
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.model.settings import ControllerSettings
from dovetail.preview.manifests import ChangedManifests
from dovetail.replay.play import ReplayOptions
from dovetail.trace.reader import Trace, load_trace

_Command = Callable[..., Any]


def replay_options(command: _Command) -> _Command:
    """Add the trace, and everything that decides how it is replayed."""
    options = (
        click.argument("trace", metavar="TRACE", type=click.Path()),
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="PATH",
            type=click.Path(),
            help="Manifests instead of the trace's; NodePools replace all of its NodePools. May be repeated.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help=f"Setting of `dovetail run`: {', '.join(NAMES)}. May be repeated.",
        ),
        click.option("--for", "limit", type=Span(), help="Time to replay.  [default: the whole trace]"),
        click.option(
            "--empty", is_flag=True, help="Begin without the recorded nodes; Dovetail launches them first."
        ),
        click.option("--catalog", metavar="FILE", type=click.Path(), help="A recorded catalogue."),
        click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV."),
        click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP),
        click.option("--region", default="", metavar="R", help="Default: that of the trace."),
        click.option(
            "--seed", type=int, default=1, show_default=True, help="Equal seeds give equal results."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class GivenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Values of these options."""

    trace: str
    files: tuple[str, ...]
    settings: tuple[str, ...]
    limit: timedelta | None
    empty: bool
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str
    seed: int

    @classmethod
    def take(cls, given: dict[str, Any]) -> "GivenOptions":
        """Return the shared options of a command, and remove them from ``given``."""
        return cls(**{field: given.pop(field) for field in cls.__struct_fields__})


def read_inputs(given: GivenOptions) -> tuple[Trace, ReplayOptions]:
    """Read the trace and all files; raise with the errors of all of them."""
    settings = change_settings(ControllerSettings(), given.settings)
    errors: list[ValidationError] = []
    trace = attempt(errors, lambda: load_trace(Path(given.trace)))
    catalog = attempt(errors, lambda: catalog_in(given.catalog))
    discounts = attempt(errors, lambda: discounts_in(given.discounts))
    prices = attempt(errors, lambda: prices_in(given.prices, catalog or bundled_catalog()))
    objects = attempt(errors, lambda: _read_manifests(given.files))
    if errors or trace is None or catalog is None or discounts is None or prices is None or objects is None:
        raise InvalidInputError(errors)
    region = given.region or trace.header.region or "us-east-1"
    if region not in catalog.regions:
        raise DovetailError(f"the catalogue has no region {region!r}; it has {', '.join(catalog.regions)}")
    return trace, ReplayOptions(
        catalog=catalog,
        prices=prices,
        discounts=discounts,
        settings=settings,
        described=(*given.settings, *(f"-f {file}" for file in given.files)),
        manifests=objects,
        empty=given.empty,
        limit=given.limit,
        region=given.region,
        seed=given.seed,
        name=given.trace,
        source_of_prices=with_discount_source(prices, discounts).describe(region),
    )


def _read_manifests(files: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    if not files:
        return ()
    manifests = ChangedManifests(read_sources(files))
    manifests.raise_refusals()
    return tuple(changed.value for changed in manifests.objects)
