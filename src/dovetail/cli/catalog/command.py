"""``dovetail catalog``: show or record the EC2 instance types."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from dovetail.cli.catalog.table import detail_lines, overview_lines, types_json
from dovetail.cli.lazy_group import CommandGroup
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.output.console import terminal_width, write, write_lines, write_note
from dovetail.codec.catalog.instance_types import encode_catalog
from dovetail.codec.text.suggestions import pluralize
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.errors import CatalogError, InvalidInputError, ValidationError
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass

_FAMILIES = [family.value for family in AmiFamily]


@click.group(cls=CommandGroup)
def catalog() -> None:
    """Show or record the catalogue of EC2 instance types."""


@catalog.command()
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@click.option("--region", default="us-east-1", show_default=True, help="AWS region.")
@click.option(
    "--ami-family",
    type=click.Choice(_FAMILIES),
    metavar="FAMILY",
    default=DEFAULT_AMI_FAMILY.value,
    show_default=True,
    help=f"{', '.join(_FAMILIES[:-1])} or {_FAMILIES[-1]}.",
)
@click.option("--prices", "price_file", metavar="FILE", help="A price book in CSV.")
@click.option("--catalog", "catalog_file", metavar="FILE", help="A recorded catalogue.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show(
    types: Sequence[str],
    region: str,
    ami_family: str,
    price_file: str | None,
    catalog_file: str | None,
    output: str,
) -> None:
    """Show instance types: labels, capacity, allocatable and prices per zone.

    With the name of a TYPE, all of its details. Otherwise, or with the name of
    a family such as m7g, one line per type of the region.
    """
    ec2_catalog = catalog_in(catalog_file)
    region_facts = _region(ec2_catalog, region)
    prices = prices_in(price_file, ec2_catalog)
    selected = sorted(
        (
            facts
            for facts in ec2_catalog.instance_types_in(region)
            if not types or facts.name in types or facts.name.partition(".")[0] in types
        ),
        key=lambda facts: (facts.name.partition(".")[0], facts.vcpus, facts.memory_mib, facts.name),
    )
    _refuse_unknown(types, ec2_catalog, region)
    node_class = EC2NodeClass(ami_family=AmiFamily(ami_family))
    instance_types = build_instance_types(selected, region=region_facts, node_class=node_class, prices=prices)
    sources = f"Catalogue: {ec2_catalog.source}, {ec2_catalog.recorded}. Prices: {prices.describe(region)}."
    in_detail = bool(types) and all("." in name for name in types)
    if output == "json":
        write(types_json(instance_types, ec2_catalog, prices, region))
        return
    if in_detail:
        lines = detail_lines(instance_types, prices, region)
    else:
        lines = overview_lines(instance_types, prices, region, terminal_width())
    write_lines([Text(line) for line in [*lines, "", sources]])


@catalog.command()
@click.option("--region", "regions", multiple=True, required=True, help="A region to record; repeatable.")
@click.option("-o", "--output", "file", required=True, metavar="FILE", help="Output file.")
@click.option("--endpoint-url", metavar="URL", help="Endpoint to use instead of AWS.")
@click.option("--source", metavar="TEXT", help="Name of the source in later output.")
def record(regions: Sequence[str], file: str, endpoint_url: str | None, source: str | None) -> None:
    """Record a catalogue from EC2 into FILE.

    Needs permission for ec2:DescribeInstanceTypes and DescribeInstanceTypeOfferings. Zone ids need
    DescribeAvailabilityZones, or DescribeSubnets and a subnet in each zone.
    """
    _check_writable(file)
    # Imported late: the SDK is slow to load.
    from dovetail.aws.instancetype.record import ec2_clients, record_catalog

    recorded = record_catalog(
        tuple(dict.fromkeys(regions)),
        clients=ec2_clients(endpoint_url),
        source=source or f"EC2 at {endpoint_url or 'AWS'}",
        progress=write_note,
    )
    data = encode_catalog(recorded)
    _write_atomically(file, data)
    write_note(
        f"{file}: {pluralize(len(recorded.instance_types), 'instance type')} in "
        f"{pluralize(len(recorded.regions), 'region')}, {len(data) // 1024} KiB"
    )


def _check_writable(file: str) -> None:
    """Fail before the recording, not after it."""
    folder = Path(file).parent
    if not folder.is_dir():
        raise CatalogError(f"{file}: cannot be written: there is no directory {folder}")
    if Path(file).is_dir() or not os.access(folder, os.W_OK):
        raise CatalogError(f"{file}: cannot be written there")


def _write_atomically(file: str, data: bytes) -> None:
    """Write a file atomically: on a full disk the old one stays."""
    part = Path(f"{file}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CatalogError(f"{file}: cannot be written: {error.strerror or error}") from error


def _region(ec2_catalog: Catalog, name: str) -> Region:
    region = ec2_catalog.regions.get(name)
    if region is None:
        # Imported late: only an error needs it, and it loads the solver.
        from dovetail.simulate import unknown_value

        raise InvalidInputError(
            [unknown_value("--region", name, "is not in the catalogue", ec2_catalog.regions)]
        )
    return region


def _refuse_unknown(types: Sequence[str], ec2_catalog: Catalog, region: str) -> None:
    # Imported late: only an error needs it.
    from difflib import get_close_matches

    offered = {instance_type.name for instance_type in ec2_catalog.instance_types_in(region)}
    names = offered | {name.partition(".")[0] for name in offered}
    anywhere = {instance_type.name for instance_type in ec2_catalog.instance_types}
    errors = []
    for name in types:
        if name in names:
            continue
        close = get_close_matches(name, sorted(names), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        known = name in anywhere
        reason = f"is not offered in {region}" if known else f"is not an instance type or family{hint}"
        errors.append(ValidationError(name, 0, "", reason))
    if errors:
        raise InvalidInputError(errors)
