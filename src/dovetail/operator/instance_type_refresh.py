"""Instance type refresh: keeps catalogue and prices current while a process runs."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from dovetail.aws.instancetype.catalog import REFRESH_INTERVAL, LiveCatalog
from dovetail.aws.instancetype.pricing import LivePrices
from dovetail.aws.session import AwsSession
from dovetail.codec.text.suggestions import join_first
from dovetail.core.instancetypes.discounts import OfferingKey, offering_key
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, InstanceTypeSettings
from dovetail.data.bundled import list_prices
from dovetail.errors import DovetailError
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.prices import PriceBook
from dovetail.operator.cloud import CloudContext
from dovetail.ports.cloudprovider import CloudError
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.observed_memory import ObservedMemory
from dovetail.state.instancetypes.provider import InstanceTypeProvider

_RETRY_INTERVAL: Final = timedelta(minutes=5)
"""After an incomplete response from AWS."""


class CatalogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of instance types and their prices."""

    instance_types: InstanceTypeSettings = DEFAULT_SETTINGS
    prices: PriceBook | None = None
    """Prices of a file for what AWS does not return; then, and with None, the bundled list prices."""
    discounts: DiscountBook = NO_DISCOUNTS
    isolated: bool = False
    """The Pricing API cannot be reached."""


async def start_instance_type_provider(
    aws: AwsSession, settings: CatalogSettings, context: CloudContext
) -> InstanceTypeProvider:
    """Load the catalogue and start its refresh; raise if it cannot be loaded."""
    catalog = LiveCatalog(aws=aws, log=context.log)
    try:
        await catalog.start()
    except CloudError as error:
        raise DovetailError(f"the EC2 instance types cannot be read: {error}") from error
    listed = list_prices(catalog.instance_types)
    prices = LivePrices(
        aws=aws,
        loop=context.loop,
        log=context.log,
        fallback=settings.prices.with_list(listed) if settings.prices else listed,
        isolated=settings.isolated,
    )
    provider = InstanceTypeProvider(
        catalog.instance_types,
        region=catalog.region,
        prices=prices.prices,
        unavailable=context.unavailable_offerings,
        settings=settings.instance_types,
        discounts=settings.discounts,
        running=lambda: _count_running(context.cache),
        memory=ObservedMemory(context.cache),
    )
    context.loop.spawn(_InstanceTypeRefresh(provider, catalog, prices, context).run_forever())
    return provider


class _InstanceTypeRefresh:
    """Reads prices at the start, then catalogue and prices periodically.

    The fallback prices are good enough for the start: reading all prices from AWS
    takes a while.
    """

    def __init__(
        self, provider: InstanceTypeProvider, catalog: LiveCatalog, prices: LivePrices, context: CloudContext
    ) -> None:
        self._provider = provider
        self._catalog = catalog
        self._prices = prices
        self._loop = context.loop
        self._log = context.log
        self._logged: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        """Instance types with estimated prices, and those without, when they were last logged."""

    async def run_forever(self) -> None:
        catalog, prices = self._catalog, self._prices
        is_complete = await prices.refresh()
        while True:
            self._provider.update_catalog(catalog.instance_types, region=catalog.region, prices=prices.prices)
            self._log_missing_prices()
            await self._loop.sleep(REFRESH_INTERVAL if is_complete else _RETRY_INTERVAL)
            before = catalog.instance_types
            is_complete = await catalog.refresh()
            if catalog.instance_types is not before:
                prices.update_list(list_prices(catalog.instance_types))
            is_complete = await prices.refresh() and is_complete

    def _log_missing_prices(self) -> None:
        """Log which on-demand prices are estimated or unknown, once per change."""
        prices, region = self._prices.prices, self._catalog.region.name
        names = [ec2_type.name for ec2_type in self._catalog.instance_types]
        unknown = frozenset(name for name in names if prices.on_demand(name, region) is None)
        estimated = frozenset(name for name in names if prices.is_estimated(name, region)) - unknown
        if (estimated, unknown) == self._logged:
            return
        self._logged = (estimated, unknown)
        if estimated:
            self._log.info(
                "on-demand prices are estimated",
                region=region,
                count=len(estimated),
                of=len(names),
                types=join_first(sorted(estimated)),
                source=prices.describe(region),
            )
        if unknown:
            self._log.info(
                "instance types without a price are not launched on demand",
                region=region,
                types=join_first(sorted(unknown)),
            )


def _count_running(cache: ClusterCache) -> Mapping[OfferingKey, int]:
    """Count the cluster's instances by offering: all of them consume commitments."""
    # Instances without a node are included: they are charged from the launch.
    return Counter(offering_key(node.labels) for node in cache.joined_nodes())
