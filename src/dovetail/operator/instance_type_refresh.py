"""What can be bought and for how much, kept current while a process lives."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from dovetail.aws.instancetype.catalog import PERIOD, LiveCatalog
from dovetail.aws.instancetype.pricing import LivePrices
from dovetail.aws.session import Aws
from dovetail.core.instancetypes.discounts import Place, place_of
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, MachineSettings
from dovetail.data.bundled import bundled_prices
from dovetail.errors import DovetailError
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.prices import PriceBook
from dovetail.operator.cloud import Surroundings
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.event_loop import Loop
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.observed_memory import MemorySeen
from dovetail.state.instancetypes.provider import Shelf

_NEXT_TRY: Final = timedelta(minutes=5)
"""After AWS could not tell everything."""


class StockSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What users may say about machines and what they cost."""

    machines: MachineSettings = DEFAULT_SETTINGS
    prices: PriceBook | None = None
    """For what AWS does not tell; None: the bundled list prices."""
    discounts: DiscountBook = NO_DISCOUNTS
    isolated: bool = False
    """There is no way to the Pricing API."""


async def stocked_shelf(aws: Aws, settings: StockSettings, around: Surroundings) -> Shelf:
    """Return a shelf that is filled and will be kept current; raises when it cannot be filled."""
    catalog = LiveCatalog(aws=aws, loop=around.loop, log=around.log)
    prices = LivePrices(
        aws=aws,
        loop=around.loop,
        log=around.log,
        fallback=settings.prices or bundled_prices(),
        isolated=settings.isolated,
    )
    shelf = Shelf(
        catalog.machines,
        region=catalog.region,
        prices=prices.book,
        scarcity=around.scarcity,
        settings=settings.machines,
        discounts=settings.discounts,
        running=lambda: _running(around.mirror),
        memory=MemorySeen(around.mirror),
    )
    try:
        await catalog.start()
    except CloudError as error:
        raise DovetailError(f"what EC2 sells cannot be found out: {error}") from error
    shelf.supply(catalog.machines, region=catalog.region, prices=prices.book)
    around.loop.spawn(_keep_current(shelf, catalog, prices, around.loop))
    return shelf


async def _keep_current(shelf: Shelf, catalog: LiveCatalog, prices: LivePrices, loop: Loop) -> None:
    """Ask AWS for prices now and for everything from time to time, for ever.

    Until AWS has told its own prices, those of the price book are good enough to
    begin with: asking for all of them takes a while.
    """
    is_complete = await prices.refresh()
    while True:
        shelf.supply(catalog.machines, region=catalog.region, prices=prices.book)
        await loop.sleep(PERIOD if is_complete else _NEXT_TRY)
        is_complete = await catalog.refresh()
        is_complete = await prices.refresh() and is_complete


def _running(mirror: Mirror) -> Mapping[Place, int]:
    """Count the instances of the cluster, whoever bought them: they use up commitments."""
    # Also those whose node is still to come: they are paid from the first moment.
    return Counter(place_of(node.labels) for node in mirror.joined_nodes())
