"""The catalogue and the prices that come with the program."""

import pytest

from dovetail.core.instancetypes.build import instance_types
from dovetail.data.bundled import SPOT_SHARE, bundled_catalog, bundled_prices
from dovetail.model.karpenter.ec2nodeclass import NodeClass

PROMISED = ("us-east-1", "us-west-2", "eu-west-1", "sa-east-1")


def test_the_catalogue_knows_all_machine_types_and_when_it_was_recorded() -> None:
    catalog = bundled_catalog()

    assert len(catalog.machines) > 1350
    assert catalog.recorded >= "2026-01-01"
    assert catalog.source


@pytest.mark.parametrize("region", PROMISED)
def test_promised_regions_have_zones_with_ids_and_hundreds_of_types(region: str) -> None:
    known = bundled_catalog().regions[region]

    assert len(known.zones) >= 3
    assert all(known.zones.values())
    assert len(bundled_catalog().machines_in(region)) > 700


def test_every_recorded_region_has_prices() -> None:
    assert all(bundled_prices().covers(region) for region in bundled_catalog().regions)


def test_every_type_has_a_price_and_the_estimated_ones_are_marked() -> None:
    prices = bundled_prices()

    unpriced = [
        one.name for one in bundled_catalog().machines if one.name not in prices.list_prices
    ]
    assert unpriced == []
    assert "m9g.large" in prices.estimated
    assert "m5.large" not in prices.estimated


@pytest.mark.parametrize(
    ("name", "price"),
    [("m5.large", 0.096), ("t3.micro", 0.0104), ("p4d.24xlarge", 21.957642), ("m5.metal", 4.608)],
)
def test_list_prices_are_those_of_aws_in_us_east_1(name: str, price: float) -> None:
    assert bundled_prices().on_demand(name, "us-east-1") == pytest.approx(price, rel=1e-4)


def test_regions_and_spot_are_stated_shares_of_the_list_price() -> None:
    prices = bundled_prices()

    assert prices.on_demand("m5.large", "eu-west-1") == pytest.approx(0.107, abs=0.0005)
    assert prices.on_demand("m5.large", "sa-east-1") == pytest.approx(0.153, abs=0.0005)
    assert prices.spot("m5.large", region="us-east-1") == pytest.approx(0.096 * SPOT_SHARE)


def test_the_book_says_where_it_comes_from_of_what_day_it_is_and_what_is_assumed() -> None:
    assert bundled_prices().describe() == (
        "AWS list prices (cloud-cost-mcp 1.3.8), 2026-01-20;"
        " spot assumed at 38% of on-demand where not given"
    )


@pytest.mark.parametrize("region", PROMISED)
def test_everything_sold_in_a_region_can_be_bought_except_what_does_not_boot(region: str) -> None:
    catalog = bundled_catalog()

    built = instance_types(
        catalog.machines_in(region),
        region=catalog.regions[region],
        node_class=NodeClass(),
        prices=bundled_prices(),
    )

    closed = {one.name for one in built if not any(offer.available for offer in one.offerings)}
    assert all(name.startswith("a1.") for name in closed)


def test_no_machine_is_so_small_that_nothing_is_left_for_pods() -> None:
    catalog = bundled_catalog()

    built = instance_types(
        catalog.machines,
        region=catalog.regions["us-east-1"],
        node_class=NodeClass(),
        prices=bundled_prices(),
    )

    assert [one.name for one in built if min(one.allocatable.values()) < 0] == []
