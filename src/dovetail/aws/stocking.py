"""The shelf, filled from EC2 and the Pricing API and kept current."""

from datetime import timedelta
from typing import Final

from dovetail.aws.catalog import LiveCatalog
from dovetail.aws.pricing import LivePrices
from dovetail.ports.loop import Loop
from dovetail.state.shelf import Shelf

PERIOD: Final = timedelta(hours=12)
_SOONEST: Final = timedelta(minutes=1)


class Stock:
    """Asks for machines and prices every twelve hours, sooner after a failure."""

    def __init__(
        self, *, catalog: LiveCatalog, prices: LivePrices, shelf: Shelf, loop: Loop
    ) -> None:
        self._catalog = catalog
        self._prices = prices
        self._shelf = shelf
        self._loop = loop

    async def start(self) -> None:
        """Fill the shelf for the first time; raises ``CloudError`` when EC2 cannot be asked."""
        await self._catalog.start()
        await self._prices.refresh()
        self._supply()

    async def keep(self) -> None:
        """Go on for ever."""
        pause, failures = PERIOD, 0
        while True:
            await self._loop.sleep(pause)
            failures = 0 if await self.refresh() else failures + 1
            # A minute after the first failure, then twice as long each time.
            pause = min(PERIOD, _SOONEST * 2 ** (failures - 1)) if failures else PERIOD

    async def refresh(self) -> bool:
        """Ask once for everything; tell whether all could be had."""
        known = await self._catalog.refresh()
        priced = await self._prices.refresh()
        self._supply()
        return known and priced

    def _supply(self) -> None:
        self._shelf.supply(
            self._catalog.machines, region=self._catalog.region, prices=self._prices.book
        )
