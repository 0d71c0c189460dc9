"""Live prices from AWS, with the last known ones as fallback."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.instancetype.price_parsing import (
    PRODUCT_QUERIES,
    decode_on_demand_prices,
    decode_spot_prices,
    pricing_region,
    product_filters,
)
from dovetail.aws.session import AwsSession
from dovetail.model.cloud.prices import PriceBook, PriceKey, currency_of
from dovetail.model.frozen import FrozenDict
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_pricing.client import PricingClient

SOURCE: Final = "AWS Pricing API and spot price history"
_PRODUCTS_PAGE: Final = 100
_HISTORY_PAGE: Final = 2000
_LINUX: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class LivePrices:
    """Prices of one region; ``prices`` is the same object until a price changes.

    It starts with ``fallback``, which AWS's prices replace one by one, so a
    partial response is useful. Once spot prices were read, a zone without one
    has no spot offering.
    """

    def __init__(
        self, *, aws: AwsSession, loop: EventLoop, log: Log, fallback: PriceBook, isolated: bool = False
    ) -> None:
        """``isolated``: the VPC has no route to the Pricing API, so it is not called."""
        self.prices = fallback
        self._fallback_source = fallback.describe_source()
        self._aws = aws
        self._loop = loop
        self._log = log
        self._region = aws.region
        endpoints = () if isolated else aws.regions_with("pricing")
        self._pricing_region = pricing_region(self._region, endpoints)
        """Empty if the Pricing API cannot be used."""
        self._failures_logged: set[str] = set()
        """Kinds of prices whose failure was logged."""

    def update_list(self, listed: PriceBook) -> None:
        """Replace the list prices; spot prices that were read stay."""
        updated = self.prices.with_list(listed)
        self.prices = msgspec.structs.replace(updated, spot_ratio=self.prices.spot_ratio)

    async def refresh(self) -> bool:
        """Update all prices; return False if any failed."""
        updates = [self._update_safely("spot", self._update_spot)]
        if self._pricing_region:
            updates.append(self._update_safely("on-demand", self._update_on_demand))
        results = await self._loop.gather(updates)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return all(results)

    async def _update_safely(self, kind: str, update: Callable[[], Any]) -> bool:
        """Run an update; log a failure once until it succeeds again."""
        try:
            await update()
        except CloudError as error:
            if kind not in self._failures_logged:
                self._failures_logged.add(kind)
                self._log.error(
                    f"updating {kind} prices failed",
                    region=self._region,
                    error=str(error),
                    using=self.prices.describe(self._region),
                )
            return False
        self._failures_logged.discard(kind)
        return True

    async def _update_on_demand(self) -> None:
        client: PricingClient = self._aws.client("pricing", region=self._pricing_region)
        by_type: dict[str, float] = {}
        for tenancy, family in PRODUCT_QUERIES:
            prices = decode_on_demand_prices(
                await self._products(client, tenancy, family), currency_of(self._region)
            )
            by_type |= prices
        if not by_type:
            # An empty response is an error: it must not look like a complete list.
            raise AwsError("GetProducts", "NoPrices", f"there are none for {self._region}")
        regional = {(name, self._region): price for name, price in by_type.items()}
        self._replace("on-demand", on_demand_prices=self.prices.on_demand_prices.with_items(regional))

    async def _products(self, client: "PricingClient", tenancy: str, family: str) -> list[str]:
        filters: Any = product_filters(self._region, tenancy, family)

        def page(token: dict[str, str]) -> Any:
            return client.get_products(
                ServiceCode="AmazonEC2", Filters=filters, MaxResults=_PRODUCTS_PAGE, **token
            )

        return await self._pages("GetProducts", page, "PriceList")

    async def _update_spot(self) -> None:
        client = self._aws.ec2()
        now = self._loop.now()

        def page(token: dict[str, str]) -> Any:
            return client.describe_spot_price_history(
                StartTime=now,
                ProductDescriptions=list(_LINUX),
                MaxResults=_HISTORY_PAGE,
                **token,  # type: ignore[arg-type]
            )

        history = await self._pages("DescribeSpotPriceHistory", page, "SpotPriceHistory")
        zonal: dict[PriceKey, float] = decode_spot_prices(history)
        if not zonal:
            raise AwsError("DescribeSpotPriceHistory", "NoPrices", "there are none")
        self._replace("spot", spot_prices=self.prices.spot_prices.with_items(zonal), spot_ratio=None)

    async def _pages(self, operation: str, page: Callable[[dict[str, str]], Any], content: str) -> list[Any]:
        """Return the entries of all pages; each page is retried by itself."""
        entries: list[Any] = []
        token: dict[str, str] = {}
        while True:
            current = token
            response = await self._aws.call(operation, lambda: page(current))  # noqa: B023 - awaited here
            entries += response[content]
            if not response.get("NextToken"):
                return entries
            token = {"NextToken": response["NextToken"]}

    def _replace(self, kind: str, **prices: FrozenDict[PriceKey, float] | None) -> None:
        now = self._loop.now()
        # A new date alone must not change the object: instance types would be rebuilt.
        before = {field: getattr(self.prices, field) for field in prices}
        if before == prices:
            return
        self.prices = msgspec.structs.replace(
            self.prices,
            source=SOURCE,
            date=now.date().isoformat(),
            list_source=self.prices.list_source or self._fallback_source,
            **prices,
        )
        self._log.info(f"updated {kind} pricing", region=self._region)
