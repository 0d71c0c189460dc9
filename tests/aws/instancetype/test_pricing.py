"""Live prices, and the fallback without them."""

from collections.abc import Callable, Iterator

import pytest

from dovetail.aws.instancetype.price_parsing import decode_on_demand_prices, pricing_region
from dovetail.aws.instancetype.pricing import LivePrices
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from tests.support.aws.pricelists import METAL, SHARED, PriceLists, Process, price_lists, product

FALLBACK = PriceBook(
    source="bundled",
    list_prices=FrozenDict({"m5.large": 0.1, "c5.large": 0.085}),
    region_factors=FrozenDict({"us-east-1": 1.0, "cn-north-1": 1.0, "us-gov-west-1": 1.2}),
    spot_ratio=0.4,
)
A, B = "us-east-1a", "us-east-1b"


@pytest.fixture
def lists(aws_credentials: None) -> Iterator[PriceLists]:
    with price_lists() as served:
        yield served


@pytest.fixture
def start(lists: PriceLists) -> Iterator[Callable[..., Process]]:
    running: list[Process] = []

    def begin(**settings: str) -> Process:
        running.append(Process(lists.url, **settings))
        return running[-1]

    yield begin
    for entry in running:
        entry.end()


def spot(prices: LivePrices, name: str, zone: str) -> float | None:
    return prices.prices.spot(name, region="us-east-1", zone=zone)


def test_prices_of_aws_replace_the_fallback(start: Callable[..., Process]) -> None:
    process = start()
    prices = process.prices(FALLBACK)

    assert process.do(prices.refresh())

    assert prices.prices.on_demand("m5.large", "us-east-1") == 0.096
    assert prices.prices.on_demand("m5.metal", "us-east-1") == 4.608
    assert prices.prices.on_demand("c5.large", "us-east-1") == 0.085
    assert spot(prices, "m5.large", A) == 0.035
    assert prices.prices.source == "AWS Pricing API and spot price history"


def test_before_spot_prices_are_known_they_are_assumed_afterwards_a_zone_without_has_none(
    start: Callable[..., Process],
) -> None:
    process = start()
    prices = process.prices(FALLBACK)
    assumed = spot(prices, "m5.large", B)

    process.do(prices.refresh())

    assert assumed == pytest.approx(0.04)
    assert spot(prices, "m5.large", B) is None


def test_pages_are_merged_and_the_newest_spot_price_counts(
    lists: PriceLists, start: Callable[..., Process]
) -> None:
    lists.products[SHARED] = [[product("m5.large", "0.096")], [product("m5.xlarge", "0.192")]]
    lists.spot = [
        [("m5.large", A, "0.035", "2026-11-02T00:00:00.000Z")],
        [
            ("m5.large", A, "0.9", "2026-11-01T00:00:00.000Z"),
            ("m5.large", B, "0.03", "2026-11-01T00:00:00.000Z"),
        ],
    ]
    process = start()
    prices = process.prices(FALLBACK)

    process.do(prices.refresh())

    assert prices.prices.on_demand("m5.xlarge", "us-east-1") == 0.192
    assert (spot(prices, "m5.large", A), spot(prices, "m5.large", B)) == (0.035, 0.03)


def test_a_partial_response_keeps_earlier_prices(lists: PriceLists, start: Callable[..., Process]) -> None:
    process = start()
    prices = process.prices(FALLBACK)
    process.do(prices.refresh())

    lists.products[SHARED] = [[product("c5.large", "0.08")]]
    lists.spot = [[("c5.large", B, "0.02", "2026-11-03T00:00:00.000Z")]]
    process.do(prices.refresh())

    assert prices.prices.on_demand("m5.large", "us-east-1") == 0.096
    assert prices.prices.on_demand("c5.large", "us-east-1") == 0.08
    assert (spot(prices, "m5.large", A), spot(prices, "c5.large", B)) == (0.035, 0.02)


def test_without_aws_the_fallback_stays_and_is_logged_once(
    lists: PriceLists, start: Callable[..., Process]
) -> None:
    lists.broken = {"GetProducts", "DescribeSpotPriceHistory"}
    process = start()
    prices = process.prices(FALLBACK)

    answers = [process.do(prices.refresh()) for _ in range(3)]

    assert answers == [False] * 3
    assert prices.prices is FALLBACK
    (said,) = process.log.entries("updating on-demand prices failed")
    assert "GetProducts" in said["error"]
    assert said["using"] == "bundled; spot assumed at 40% of on-demand where not given"
    assert len(process.log.entries("updating spot prices failed")) == 1


def test_a_failure_keeps_the_last_prices_and_is_logged_again_after_recovery(
    lists: PriceLists, start: Callable[..., Process]
) -> None:
    process = start()
    prices = process.prices(FALLBACK)
    lists.broken = {"GetProducts"}
    process.do(prices.refresh())
    lists.broken = set()
    process.do(prices.refresh())
    good = prices.prices

    lists.broken = {"GetProducts"}
    process.do(prices.refresh())

    assert prices.prices is good
    assert len(process.log.entries("updating on-demand prices failed")) == 2


def test_a_refresh_without_changes_keeps_the_same_prices(start: Callable[..., Process]) -> None:
    process = start()
    prices = process.prices(FALLBACK)
    process.do(prices.refresh())
    first = prices.prices

    process.do(prices.refresh())

    assert prices.prices is first


def test_a_region_without_prices_is_an_error(lists: PriceLists, start: Callable[..., Process]) -> None:
    lists.products = {SHARED: [], METAL: []}
    process = start()
    prices = process.prices(FALLBACK)

    assert not process.do(prices.refresh())

    assert prices.prices.on_demand("m5.large", "us-east-1") == 0.1


def test_a_region_without_bare_metal_has_prices(lists: PriceLists, start: Callable[..., Process]) -> None:
    lists.products[METAL] = []
    process = start()
    prices = process.prices(FALLBACK)

    assert process.do(prices.refresh())

    assert prices.prices.on_demand("m5.large", "us-east-1") == 0.096


def test_in_china_prices_are_in_yuan(lists: PriceLists, start: Callable[..., Process]) -> None:
    lists.products = {
        SHARED: [[product("m5.large", "0.7", "CNY"), product("c5.large", "0.1", "USD")]],
        METAL: [[product("m5.metal", "30", "CNY")]],
    }
    process = start(region="cn-north-1")
    prices = process.prices(FALLBACK)

    process.do(prices.refresh())

    assert prices.prices.on_demand("m5.large", "cn-north-1") == 0.7
    assert prices.prices.on_demand("c5.large", "cn-north-1") == 0.085


@pytest.mark.parametrize(("region", "isolated"), [("us-gov-west-1", False), ("us-east-1", True)])
def test_isolated_clusters_do_not_call_the_pricing_api(
    lists: PriceLists, start: Callable[..., Process], region: str, isolated: bool
) -> None:
    process = start(region=region)
    prices = process.prices(FALLBACK, isolated=isolated)

    assert process.do(prices.refresh())

    assert "GetProducts" not in lists.calls
    assert prices.prices.on_demand("c5.large", region) == FALLBACK.on_demand("c5.large", region)


def test_only_linux_on_demand_prices_are_read(lists: PriceLists, start: Callable[..., Process]) -> None:
    process = start()

    process.do(process.prices(FALLBACK).refresh())

    history = next(request for name, request in lists.requests if name == "DescribeSpotPriceHistory")
    assert history["ProductDescription.1"] == "Linux/UNIX"
    assert history["ProductDescription.2"] == "Linux/UNIX (Amazon VPC)"
    filters = [
        {entry["Field"]: entry["Value"] for entry in request["Filters"]}
        for name, request in lists.requests
        if name == "GetProducts"
    ]
    assert [(query_filter["tenancy"], query_filter["productFamily"]) for query_filter in filters] == [
        ("Shared", SHARED),
        ("Dedicated", METAL),
    ]
    assert all(
        (
            query_filter["regionCode"],
            query_filter["operatingSystem"],
            query_filter["marketoption"],
            query_filter["capacitystatus"],
        )
        == ("us-east-1", "Linux", "OnDemand", "Used")
        for query_filter in filters
    )


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("ap-northeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-3", "eu-central-1"),
        ("sa-east-1", "us-east-1"),
        ("mx-central-1", "us-east-1"),
        ("us-gov-west-1", ""),
        ("us-isob-west-1", "us-isob-east-1"),
        ("eusc-de-east-1", "eusc-de-east-1"),
        ("xx-newest-1", "us-east-1"),
    ],
)
def test_the_pricing_endpoint_is_the_nearest_of_the_partition(
    start: Callable[..., Process], region: str, home: str
) -> None:
    endpoints = start(region=region).aws.regions_with("pricing")

    assert pricing_region(region, endpoints) == home


def test_list_prices_replace_each_other_without_losing_those_of_aws(start: Callable[..., Process]) -> None:
    process = start()
    prices = process.prices(FALLBACK)
    process.do(prices.refresh())

    prices.update_list(
        PriceBook(source="newer list", list_prices=FrozenDict({"m9g.large": 0.1}), default_factor=1.0)
    )

    assert prices.prices.on_demand("m9g.large", "us-east-1") == 0.1
    assert prices.prices.on_demand("m5.large", "us-east-1") == 0.096
    assert spot(prices, "m9g.large", A) is None


@pytest.mark.parametrize("entry", ["", "{}", "[]", "no json", product("m5.large", "free")])
def test_a_malformed_entry_is_skipped(entry: str) -> None:
    assert decode_on_demand_prices([entry, product("c5.large", "0.085")], "USD") == {"c5.large": 0.085}


def test_a_zero_price_is_ignored() -> None:
    assert decode_on_demand_prices([product("m5.large", "0.0000000000")], "USD") == {}
