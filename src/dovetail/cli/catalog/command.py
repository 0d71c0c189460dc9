"""``dovetail catalog``: what EC2 sells, as the planner sees it."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from dovetail.cli.catalog.table import detail_lines, overview_lines, types_json
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.output.console import say, write
from dovetail.codec.catalog.instance_types import encode_catalog
from dovetail.core.instancetypes.build import instance_types
from dovetail.errors import BadInput, CatalogError, Mistake
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.simulate import unknown_place

_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025")


@click.group()
def catalog() -> None:
    """Show or record the EC2 instance types that plans are made of."""


@catalog.command()
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@click.option("--region", default="us-east-1", show_default=True, help="Where to look.")
@click.option("--ami-family", type=click.Choice(_FAMILIES), default="AL2023", show_default=True)
@click.option("--prices", "price_file", metavar="FILE", help="A price book in CSV.")
@click.option("--catalog", "catalog_file", metavar="FILE", help="A catalogue that you recorded.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def show(
    types: Sequence[str],
    region: str,
    ami_family: str,
    price_file: str | None,
    catalog_file: str | None,
    output: str,
) -> None:
    """Show instance types: labels, capacity, allocatable and prices per zone.

    With the name of a TYPE, everything about it. Without, or with the name of
    a family such as m7g, one line for each type that the region sells.
    """
    known = catalog_in(catalog_file)
    place = _region(known, region)
    prices = prices_in(price_file, known)
    machines = sorted(
        (
            one
            for one in known.machines_in(region)
            if not types or one.name in types or one.name.partition(".")[0] in types
        ),
        key=lambda one: (one.name.partition(".")[0], one.vcpus, one.memory_mib, one.name),
    )
    _refuse_unknown(types, known, region)
    node_class = NodeClass(ami_family=ami_family)
    chosen = instance_types(machines, region=place, node_class=node_class, prices=prices)
    told = f"Catalogue: {known.source}, {known.recorded}. Prices: {prices.describe()}."
    in_detail = bool(types) and all("." in wanted for wanted in types)
    write(_rendered(chosen, in_detail, output, known, prices, told))


@catalog.command()
@click.option(
    "--region", "regions", multiple=True, required=True, help="A region to record; repeatable."
)
@click.option("-o", "--output", "file", required=True, metavar="FILE", help="Where to write it.")
@click.option("--endpoint-url", metavar="URL", help="Ask this instead of AWS.")
@click.option("--source", metavar="TEXT", help="What to call the source in later output.")
def record(regions: Sequence[str], file: str, endpoint_url: str | None, source: str | None) -> None:
    """Record a catalogue from EC2 into FILE.

    Needs credentials that may call ec2:DescribeInstanceTypes,
    DescribeInstanceTypeOfferings and DescribeAvailabilityZones.
    """
    _check_writable(file)
    # Imported here: the SDK takes longer to load than most commands to run.
    from dovetail.aws.instancetype.record import ec2_clients, record_catalog

    recorded = record_catalog(
        tuple(dict.fromkeys(regions)),
        clients=ec2_clients(endpoint_url),
        source=source or f"EC2 at {endpoint_url or 'AWS'}",
        progress=say,
    )
    data = encode_catalog(recorded)
    _put(file, data)
    say(
        f"{file}: {len(recorded.machines)} instance types in {len(recorded.regions)} region(s),"
        f" {len(data) // 1024} KiB"
    )


def _check_writable(file: str) -> None:
    """Say it before the work of minutes, not after it."""
    folder = Path(file).parent
    if not folder.is_dir():
        raise CatalogError(f"{file}: cannot be written: there is no directory {folder}")
    if Path(file).is_dir() or not os.access(folder, os.W_OK):
        raise CatalogError(f"{file}: cannot be written there")


def _put(file: str, data: bytes) -> None:
    """Write a file whole or not at all: a full disk leaves the older one as it is."""
    part = Path(f"{file}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CatalogError(f"{file}: cannot be written: {error.strerror or error}") from error


def _region(known: Catalog, name: str) -> Region:
    region = known.regions.get(name)
    if region is None:
        raise BadInput([unknown_place("--region", name, "is not in the catalogue", known.regions)])
    return region


def _refuse_unknown(types: Sequence[str], known: Catalog, region: str) -> None:
    # Imported here: only a mistake needs it.
    from difflib import get_close_matches

    sold = {one.name for one in known.machines_in(region)}
    names = sold | {name.partition(".")[0] for name in sold}
    anywhere = {one.name for one in known.machines}
    mistakes = []
    for wanted in types:
        if wanted in names:
            continue
        close = get_close_matches(wanted, sorted(names), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        where = f"{region} does not sell it" if wanted in anywhere else f"no such type{hint}"
        mistakes.append(Mistake(wanted, 0, "", where))
    if mistakes:
        raise BadInput(mistakes)


def _rendered(
    chosen: Sequence[InstanceType],
    in_detail: bool,
    output: str,
    known: Catalog,
    prices: PriceBook,
    told: str,
) -> str:
    if output == "json":
        return types_json(chosen, known, prices)
    lines = detail_lines(chosen, prices) if in_detail else overview_lines(chosen, prices)
    return "\n".join([*lines, "", told])
