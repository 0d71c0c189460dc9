"""The cluster to explain: listed now or read from a dump, with instance types and prices."""

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from typing import Final

import click
import msgspec

from dovetail.cli.files import attempt, read_sources
from dovetail.cli.options.burstable import burstable_option
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.cluster_objects import (
    DUMP_OR_ACCESS,
    MAKE_DUMP,
    Command,
    access_options,
    dump_option,
)
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, with_discount_source
from dovetail.cli.options.node_cost import node_cost_options
from dovetail.cli.output.console import progress, write_note
from dovetail.cli.output.plan_report import PriceSource, price_source
from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs
from dovetail.codec.savings_ledger import find_ledger
from dovetail.core.cost.node_prices import NodePrices
from dovetail.core.instancetypes.build import cached_instance_types
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.savings import SavingsLedger
from dovetail.model.settings import SchedulingSettings
from dovetail.operator.cluster_objects import list_objects, read_ledger
from dovetail.ports import api_resources as kinds
from dovetail.simulate import find_region, get_region_of_nodes, load_cache
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings

_DECISIVE: Final = (
    *(kinds.PODS, kinds.NODE_POOLS, kinds.NODE_CLAIMS, kinds.EC2_NODE_CLASSES),
    *(kinds.DAEMON_SETS, kinds.POD_DISRUPTION_BUDGETS),
)
"""Kinds without which keep reasons and prices are wrong or incomplete."""


class ClusterSource(msgspec.Struct, frozen=True, kw_only=True):
    """Options that name the cluster, catalogue and prices."""

    cluster: tuple[str, ...]
    kubeconfig: str | None
    context: str
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str | None
    burstable: BurstablePolicy
    node_cost: float | None
    fewer_nodes_tolerance: float


def source_options(command: Command) -> Command:
    """Add the options of ``ClusterSource``, and ``--output``."""
    output = click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
    )
    return cluster_options(output(command))


def cluster_options(command: Command) -> Command:
    """Add the options of ``ClusterSource``."""
    options = (
        dump_option,
        access_options,
        click.option("--catalog", metavar="FILE", type=click.Path(), help="A recorded catalogue."),
        click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV."),
        click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP),
        click.option("--region", metavar="R", help="Default: that of the nodes."),
        burstable_option,
        node_cost_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


class ExplainedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one instant, with the instance types of its NodePools."""

    cache: ClusterCache
    now: datetime
    get_instance_types: Callable[[NodePool], tuple[InstanceType, ...]]
    prices: str
    """Source of the prices, as a sentence."""
    price_source: PriceSource
    scheduling: SchedulingSettings
    node_prices: NodePrices
    """Prices of nodes that no NodePool manages, from their labels."""


class RecordedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a cluster, live or from dumps."""

    cache: ClusterCache
    now: datetime
    """Now, by the clock of the API server, or the time of the dumps."""
    missing: tuple[str, ...] = ()
    """Kinds that decide about nodes and of which no object was read, as sentences."""


class PriceFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Catalogue, prices and discounts that the options name."""

    catalog: Catalog
    prices: PriceBook
    discounts: DiscountBook


def read_price_files(source: ClusterSource, errors: list[ValidationError]) -> PriceFiles | None:
    """Read the files; return None, with the errors of all files, if one cannot be read."""
    catalog = attempt(errors, lambda: catalog_in(source.catalog))
    book = attempt(errors, lambda: discounts_in(source.discounts))
    prices = attempt(errors, lambda: prices_in(source.prices, catalog or bundled_catalog()))
    if catalog is None or prices is None or book is None:
        return None
    return PriceFiles(catalog=catalog, prices=prices, discounts=book)


def create_type_lookup(
    source: ClusterSource, files: PriceFiles, region: Region, cache: ClusterCache, now: datetime
) -> Callable[[NodePool], tuple[InstanceType, ...]]:
    """Return a lookup of the instance types of a NodePool, with prices."""
    provider = InstanceTypeProvider(
        files.catalog.instance_types_in(region.name),
        region=region,
        prices=files.prices,
        unavailable=UnavailableOfferings(),
        # Nodes were launched with them; a class whose expressions are disabled is not ready.
        settings=InstanceTypeSettings(kubelet_expressions=True, burstable=source.burstable),
        discounts=files.discounts,
        build=cached_instance_types,
    )

    def get_instance_types(pool: NodePool) -> tuple[InstanceType, ...]:
        node_class = cache.node_class(pool.template.node_class.name)
        return () if node_class is None else provider.instance_types(node_class, now=now)

    return get_instance_types


def read_cluster(source: ClusterSource) -> ExplainedCluster:
    """Read all files, or list the cluster; raise with the errors of all files."""
    errors: list[ValidationError] = []
    with progress("Reading the cluster"):
        files = read_price_files(source, errors)
        cluster = attempt(errors, lambda: read_objects(source))
    if files is None or cluster is None:
        raise InvalidInputError(errors)
    for sentence in cluster.missing:
        write_note(f"note: {sentence}")
    cache, now = cluster.cache, cluster.now
    region = find_region(files.catalog, source.region or get_region_of_nodes(cache.nodes()))
    discounted = with_discount_source(files.prices, files.discounts)
    return ExplainedCluster(
        cache=cache,
        now=now,
        get_instance_types=create_type_lookup(source, files, region, cache, now),
        prices=f"{discounted.describe(region.name)}; region {region.name}",
        price_source=price_source(discounted, region.name),
        scheduling=get_scheduling(source),
        node_prices=NodePrices(files.catalog, files.prices, region.name),
    )


def get_scheduling(source: ClusterSource) -> SchedulingSettings:
    """Return the settings that the options set."""
    return SchedulingSettings(node_cost=source.node_cost, fewer_nodes_tolerance=source.fewer_nodes_tolerance)


def load_access(source: ClusterSource) -> RestConfig:
    """Return the access to the live cluster; raise if the options also name a dump."""
    if source.cluster and (source.kubeconfig or source.context):
        raise click.UsageError(DUMP_OR_ACCESS)
    return load_rest_config(
        source.kubeconfig, environ=os.environ, clock=SystemClock(), context=source.context
    )


def read_savings(
    cluster: tuple[str, ...], kubeconfig: str | None, context: str, namespace: str
) -> tuple[SavingsLedger | None, datetime]:
    """Return the savings ledger of a live cluster or of dumps, and the time: now or that of the dumps."""
    if not cluster:
        access = load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
        return asyncio.run(read_ledger(access, namespace))
    if kubeconfig or context:
        raise click.UsageError(DUMP_OR_ACCESS)
    files = read_sources(cluster)
    return find_ledger(files), read_inputs([], files).recorded_at or SystemClock().now()


def read_objects(source: ClusterSource) -> RecordedCluster:
    """Return the objects of the live cluster, or of the dumps."""
    if not source.cluster:
        listed = asyncio.run(list_objects(load_access(source)))
        names = [kind.qualified_name for kind in _DECISIVE]
        missing = tuple(text for text in listed.missing if any(name in text for name in names))
        now = listed.recorded_at or SystemClock().now()
        return RecordedCluster(cache=ClusterCache.from_raw(listed.objects), now=now, missing=missing)
    if source.kubeconfig or source.context:
        raise click.UsageError(DUMP_OR_ACCESS)
    inputs = read_inputs([], read_sources(source.cluster))
    if not inputs.nodes:
        raise DovetailError(f"no nodes in {', '.join(source.cluster)}; make a dump with: {MAKE_DUMP}")
    return RecordedCluster(
        cache=load_cache(inputs), now=inputs.recorded_at or SystemClock().now(), missing=_find_missing(inputs)
    )


def _find_missing(inputs: Inputs) -> tuple[str, ...]:
    """Return a sentence about decisive kinds that dumps neither list nor have objects of."""
    counts = (
        *(inputs.pods or inputs.pending, inputs.nodepools, inputs.claims, inputs.node_classes),
        *(inputs.daemon_sets, inputs.pdbs),
    )
    names = [
        kind.qualified_name
        for kind, objects in zip(_DECISIVE, counts, strict=True)
        if not objects and kind.kind not in inputs.listed_kinds
    ]
    return (f"the dump has no {', '.join(names)}",) if names else ()
