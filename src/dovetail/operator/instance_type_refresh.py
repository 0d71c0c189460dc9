"""Instance type refresh: keeps catalogue and prices current while a process runs."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from dovetail.aws.instancetype.catalog import REFRESH_INTERVAL, LiveCatalog
from dovetail.aws.instancetype.pricing import LivePrices
from dovetail.aws.session import AwsSession
from dovetail.core.instancetypes.discounts import OfferingKey, offering_key
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, InstanceTypeSettings
from dovetail.data.bundled import bundled_prices
from dovetail.errors import DovetailError
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.prices import PriceBook
from dovetail.operator.cloud import CloudContext
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.event_loop import EventLoop
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.observed_memory import ObservedMemory
from dovetail.state.instancetypes.provider import InstanceTypeProvider

_RETRY_INTERVAL: Final = timedelta(minutes=5)
"""After an incomplete response from AWS."""


class CatalogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of instance types and their prices."""

    instance_types: InstanceTypeSettings = DEFAULT_SETTINGS
    prices: PriceBook | None = None
    """Prices that AWS does not return; None for the bundled list prices."""
    discounts: DiscountBook = NO_DISCOUNTS
    isolated: bool = False
    """The Pricing API cannot be reached."""


async def start_instance_type_provider(
    aws: AwsSession, settings: CatalogSettings, context: CloudContext
) -> InstanceTypeProvider:
    """Load the catalogue and start its refresh; raise if it cannot be loaded."""
    catalog = LiveCatalog(aws=aws, log=context.log)
    prices = LivePrices(
        aws=aws,
        loop=context.loop,
        log=context.log,
        fallback=settings.prices or bundled_prices(),
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
    try:
        await catalog.start()
    except CloudError as error:
        raise DovetailError(f"the EC2 instance types cannot be read: {error}") from error
    provider.update_catalog(catalog.instance_types, region=catalog.region, prices=prices.prices)
    context.loop.spawn(_refresh_forever(provider, catalog, prices, context.loop))
    return provider


async def _refresh_forever(
    provider: InstanceTypeProvider, catalog: LiveCatalog, prices: LivePrices, loop: EventLoop
) -> None:
    """Read prices now, then catalogue and prices periodically.

    The fallback prices are good enough for the start: reading all prices from AWS
    takes a while.
    """
    is_complete = await prices.refresh()
    while True:
        provider.update_catalog(catalog.instance_types, region=catalog.region, prices=prices.prices)
        await loop.sleep(REFRESH_INTERVAL if is_complete else _RETRY_INTERVAL)
        is_complete = await catalog.refresh()
        is_complete = await prices.refresh() and is_complete


def _count_running(cache: ClusterCache) -> Mapping[OfferingKey, int]:
    """Count the cluster's instances by offering: all of them consume commitments."""
    # Instances without a node are included: they are charged from the launch.
    return Counter(offering_key(node.labels) for node in cache.joined_nodes())
