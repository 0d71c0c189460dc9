"""Prices as AWS tells them, and the last good ones while it does not."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.instancetype.price_parsing import (
    KINDS,
    currency_of,
    has_pricing_api,
    on_demand_prices,
    pricing_region,
    product_filters,
    spot_prices,
)
from dovetail.aws.session import Aws
from dovetail.model.cloud.prices import Place, PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_pricing.client import PricingClient

SOURCE: Final = "AWS Pricing API and spot price history"
_PRODUCTS_PAGE: Final = 100
_HISTORY_PAGE: Final = 2000
_LINUX: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class LivePrices:
    """The prices of one region; ``book`` is the same object until a price changes.

    It starts with ``fallback``. What AWS tells replaces that price by price, so
    a part of an answer is worth something, and no answer costs nothing. Once
    spot prices were told, a zone without one is a zone without spot.
    """

    def __init__(
        self,
        *,
        aws: Aws,
        loop: Loop,
        log: Log,
        fallback: PriceBook,
        isolated: bool = False,
    ) -> None:
        """``isolated``: there is no way to the Pricing API, so nobody shall try."""
        self.book = fallback
        self._aws = aws
        self._loop = loop
        self._log = log
        self._region = aws.region
        self._asks_for_on_demand = not isolated and has_pricing_api(self._region)
        self._told: set[str] = set()
        """Of which failures it was said already."""

    async def refresh(self) -> bool:
        """Ask for all prices; tell whether all could be had."""
        asked = [self._safely("spot", self._spot)]
        if self._asks_for_on_demand:
            asked.append(self._safely("on-demand", self._on_demand))
        answers = await self._loop.together(asked)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return all(answers)

    async def _safely(self, what: str, ask: Callable[[], Any]) -> bool:
        """Do as asked; a failure is said once, until it works again."""
        try:
            await ask()
        except CloudError as error:
            if what not in self._told:
                self._told.add(what)
                self._log.error(
                    f"updating {what} prices failed",
                    region=self._region,
                    error=str(error),
                    using=self.book.describe(),
                )
            return False
        self._told.discard(what)
        return True

    async def _on_demand(self) -> None:
        client: PricingClient = self._aws.client("pricing", region=pricing_region(self._region))
        found: dict[str, float] = {}
        for tenancy, family in KINDS:
            prices = on_demand_prices(
                await self._products(client, tenancy, family), currency_of(self._region)
            )
            if not prices:
                # As good as no answer: a region without such machines there is not.
                raise AwsError("GetProducts", "NoPrices", f"there are none for {family}")
            found |= prices
        told = {(name, self._region): price for name, price in found.items()}
        self._take("on-demand", on_demand_at=self.book.on_demand_at.with_items(told))

    async def _products(self, client: "PricingClient", tenancy: str, family: str) -> list[str]:
        filters: Any = product_filters(self._region, tenancy, family)

        def page(token: dict[str, str]) -> Any:
            return client.get_products(
                ServiceCode="AmazonEC2",
                Filters=filters,
                MaxResults=_PRODUCTS_PAGE,
                **token,
            )

        return await self._pages("GetProducts", page, "PriceList")

    async def _spot(self) -> None:
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
        found: dict[Place, float] = spot_prices(history)
        if not found:
            raise AwsError("DescribeSpotPriceHistory", "NoPrices", "there are none")
        self._take("spot", spot_at=self.book.spot_at.with_items(found), spot_share=None)

    async def _pages(
        self, operation: str, page: Callable[[dict[str, str]], Any], content: str
    ) -> list[Any]:
        """Return what all pages have; each is asked for again by itself if need be."""
        found: list[Any] = []
        token: dict[str, str] = {}
        while True:
            asked = token
            answer = await self._aws.call(operation, lambda: page(asked))  # noqa: B023 - awaited here
            found += answer[content]
            if not answer.get("NextToken"):
                return found
            token = {"NextToken": answer["NextToken"]}

    def _take(self, what: str, **prices: FrozenDict[Place, float] | None) -> None:
        now = self._loop.now()
        # The day counts as news only with a price that is: the book shall stay the same object.
        before = {field: getattr(self.book, field) for field in prices}
        if before == prices:
            return
        self.book = msgspec.structs.replace(
            self.book, source=SOURCE, date=now.date().isoformat(), **prices
        )
        self._log.info(f"updated {what} pricing", region=self._region)
