"""``dovetail savings``: what a cluster costs, and what it could cost."""

from pathlib import Path
from typing import Any

import click
import msgspec

from dovetail.cli.files import attempt
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.cluster_objects import access_options, dump_option, read_cluster_objects
from dovetail.cli.output.console import progress, write, write_lines, write_note
from dovetail.cli.output.plan_report import price_source
from dovetail.cli.savings.output import format_markdown, format_table
from dovetail.codec.text.suggestions import join_first, pluralize
from dovetail.codec.text.yaml_writer import to_yaml
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.model.cloud.prices import PriceBook
from dovetail.savings.adoption import UNKNOWN_CLUSTER, AdoptedCluster
from dovetail.savings.analysis import SavingsInput, SavingsResult, analyse, find_cluster_region

_EPILOG = "Exit codes: 0 analysed; 1 bad input, or no nodes or pods."


@click.command(epilog=_EPILOG)
@dump_option
@access_options
@click.option("--catalog", metavar="FILE", type=click.Path(), help="A recorded catalogue.")
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--region", metavar="R", help="Default: that of the nodes.")
@click.option(
    "--keep-types", is_flag=True, help="Inferred NodePools have only the instance types of their groups."
)
@click.option(
    "--write-pools",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the NodePools and EC2NodeClasses that were inferred from node groups.",
)
@click.option("--cluster-name", metavar="NAME", help="For inferred EC2NodeClasses. Default: from labels.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True
)
def savings(
    cluster: tuple[str, ...],
    kubeconfig: str | None,
    context: str,
    catalog: str | None,
    prices: str | None,
    region: str | None,
    keep_types: bool,
    write_pools: Path | None,
    cluster_name: str | None,
    output: str,
) -> None:
    """Show how much a cluster could save, whatever launched its nodes.

    Reads an EKS cluster with Karpenter, Dovetail, managed node groups or Cluster Autoscaler, or a
    dump of it; installs and changes nothing. Shows today's bill, the bill after consolidation with
    all PodDisruptionBudgets in place, the bill of a fleet planned from scratch, and a lower bound.
    """
    errors: list[ValidationError] = []
    with progress("Reading the cluster"):
        known = attempt(errors, lambda: catalog_in(catalog))
        book = attempt(errors, lambda: prices_in(prices, known or bundled_catalog()))
        read = attempt(errors, lambda: read_cluster_objects(cluster, kubeconfig=kubeconfig, context=context))
    if known is None or book is None or read is None:
        raise InvalidInputError(errors)
    objects, now = read
    place = find_cluster_region(objects.objects, known, region)
    with progress("Planning other fleets"):
        source = SavingsInput(
            objects=objects.objects,
            now=now,
            catalog=known,
            prices=book,
            region=place,
            keep_types=keep_types,
            missing=objects.missing,
        )
        result = analyse(source)
    if write_pools is not None:
        _write_pools(result.adopted, write_pools, cluster_name)
    _show(result, output, book, place.name, pools_written=write_pools is not None)


def _show(result: SavingsResult, output: str, prices: PriceBook, region: str, *, pools_written: bool) -> None:
    report = result.report
    source = f"{prices.describe(region)}; region {region}"
    if output == "json":
        document: dict[str, Any] = {**msgspec.to_builtins(report), "prices": price_source(prices, region)}
        write(msgspec.json.format(msgspec.json.encode(document)).decode())
    elif output == "markdown":
        write(format_markdown(report, source))
    else:
        write_lines(list(format_table(report, source, pools_written=pools_written)))


def _write_pools(adopted: AdoptedCluster, directory: Path, cluster_name: str | None) -> None:
    """Write one file per inferred object; refuse to overwrite."""
    if not adopted.new_pools:
        write_note("No NodePools were inferred: all nodes belong to NodePools, or cannot be replaced.")
        return
    if cluster_name:
        adopted = msgspec.structs.replace(adopted, cluster_name=cluster_name)
    notes = {f"nodepool-{each.pool.name}.yaml": each for each in adopted.new_pools}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        existing = sorted(name for name in adopted.manifests() if (directory / name).exists())
        if existing:
            raise DovetailError(f"{directory} has {join_first(existing)} already; choose another directory")
        for name, manifests in adopted.manifests().items():
            inferred = notes.get(name)
            header = "# Role, subnets and security groups by Karpenter's conventions: check them.\n"
            if inferred is not None:
                size = f"{pluralize(len(inferred.nodes), 'node')}. Limits: twice their size"
                header = f"# Inferred from {inferred.group}, {size}.\n"
            (directory / name).write_text(header + to_yaml(manifests), encoding="utf-8")
    except OSError as error:
        raise DovetailError(f"{directory} cannot be written: {error.strerror}") from error
    write_note(f"{pluralize(len(adopted.manifests()), 'file')} written to {directory}")
    if adopted.cluster_name == UNKNOWN_CLUSTER:
        write_note(
            f"No label names the cluster: use --cluster-name, or replace {UNKNOWN_CLUSTER} in EC2NodeClasses."
        )
