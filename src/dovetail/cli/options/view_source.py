"""Source of the live view, by the options of ``ClusterSource``: a live cluster or a dump."""

from datetime import datetime

from dovetail.cli.files import read_sources
from dovetail.cli.options.cluster_source import (
    ClusterSource,
    PriceFiles,
    create_type_lookup,
    get_scheduling,
    load_access,
    read_objects,
    read_price_files,
)
from dovetail.cli.options.discounts import with_discount_source
from dovetail.cli.output.console import progress
from dovetail.codec.savings_ledger import find_ledger
from dovetail.core.cost.node_prices import NodePrices
from dovetail.dashboard.sources.live import LiveSource
from dovetail.dashboard.sources.producer import Pricing
from dovetail.dashboard.sources.source import ViewSource
from dovetail.dashboard.sources.static import StaticSource, build_dump_view
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.model.cloud.prices import currency_of
from dovetail.ports.telemetry import Log
from dovetail.simulate import find_region, get_region_of_nodes
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.prices import find_by_labels


def open_source(source: ClusterSource, log: Log) -> ViewSource:
    """Return the source that the options name; call ``start`` on it.

    Reads a dump at once and raises with the errors of all files. Call it on the
    asyncio loop that uses the source.
    """
    errors: list[ValidationError] = []
    files = read_price_files(source, errors)
    if files is None:
        raise InvalidInputError(errors)
    if not source.cluster:
        access = load_access(source)

        def create_live_pricing(cache: ClusterCache) -> Pricing:
            return _create_pricing(source, files, cache, SystemClock().now())

        return LiveSource(access, create_live_pricing, log=log, name=source.context or access.server)
    if source.kubeconfig or source.context:
        load_access(source)  # Raises: both a dump and a live cluster are named.
    with progress("Reading the dump"):
        recorded = read_objects(source)
        cache, now = recorded.cache, recorded.now
        pricing = _create_pricing(source, files, cache, now)
        ledger = find_ledger(read_sources(source.cluster))
        name = ", ".join(source.cluster)
        return StaticSource(build_dump_view(cache, pricing, now, name=name, ledger=ledger))


def _create_pricing(source: ClusterSource, files: PriceFiles, cache: ClusterCache, now: datetime) -> Pricing:
    name = source.region or get_region_of_nodes(cache.nodes())
    if not source.region and name and name not in files.catalog.regions:
        # Another cloud: show the cluster without prices.
        description = f"no prices: region {name} of the nodes is not in the catalogue"
        return Pricing(get_instance_types=lambda _: (), description=description, region=name)
    region = find_region(files.catalog, name)
    discounted = with_discount_source(files.prices, files.discounts)
    return Pricing(
        get_instance_types=create_type_lookup(source, files, region, cache, now),
        find_price=find_by_labels(NodePrices(files.catalog, files.prices, region.name)),
        description=discounted.describe(region.name),
        region=region.name,
        currency=currency_of(region.name),
        scheduling=get_scheduling(source),
    )
