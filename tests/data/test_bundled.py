"""The bundled catalogue and prices."""

import json
from pathlib import Path

import pytest

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.data.bundled import SPOT_SHARE, bundled_catalog, bundled_prices, list_prices
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Gpu
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass

ROOT = Path(__file__).parents[2]
REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "sa-east-1")


def test_the_catalogue_has_all_instance_types_and_its_date() -> None:
    catalog = bundled_catalog()

    assert len(catalog.instance_types) > 1350
    assert catalog.recorded >= "2026-01-01"
    assert catalog.source


@pytest.mark.parametrize("name", REGIONS)
def test_regions_have_zones_with_ids_and_hundreds_of_types(name: str) -> None:
    region = bundled_catalog().regions[name]

    assert len(region.zones) >= 3
    assert all(region.zones.values())
    assert len(bundled_catalog().instance_types_in(name)) > 700


def test_every_recorded_region_has_prices() -> None:
    assert set(bundled_catalog().regions) <= set(bundled_prices().region_factors)


def test_every_type_has_a_price_and_estimates_are_marked() -> None:
    prices = bundled_prices()

    unpriced = [fact.name for fact in bundled_catalog().instance_types if fact.name not in prices.list_prices]
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


def test_the_price_book_names_its_source_date_and_assumptions() -> None:
    assert bundled_prices().describe("us-east-1") == (
        "AWS list prices (cloud-cost-mcp 1.3.8), 2026-01-20; spot assumed at 38% of on-demand where not given"
    )


@pytest.mark.parametrize(
    ("region", "price", "stated"),
    [
        ("us-gov-west-1", 0.1152, "on-demand estimated at 1.2 × us-east-1"),
        ("cn-north-1", 0.96, "all amounts are in CNY"),
        ("mx-central-1", 0.096, "on-demand assumed at 1 × us-east-1 (no factor is known)"),
    ],
)
def test_a_region_without_list_prices_has_estimated_ones_and_says_so(
    region: str, price: float, stated: str
) -> None:
    prices = bundled_prices()

    assert prices.on_demand("m5.large", region) == pytest.approx(price)
    assert prices.is_estimated("m5.large", region)
    assert stated in prices.describe(region)


def test_a_family_without_prices_costs_a_tenth_more_than_the_generation_before() -> None:
    newest = Ec2InstanceType(name="m10g.large", vcpus=2, memory_mib=8192)
    accelerated = Ec2InstanceType(
        name="g99.large", vcpus=2, memory_mib=8192, gpus=(Gpu("t", "nvidia", 1, 16384),)
    )

    prices = list_prices([*bundled_catalog().instance_types, newest, accelerated])

    assert prices.is_estimated("m10g.large", "us-east-1")
    predecessor = prices.on_demand("m9g.large", "us-east-1")
    assert predecessor is not None
    assert prices.on_demand("m10g.large", "us-east-1") == pytest.approx(predecessor * 1.1, rel=1e-4)
    assert prices.on_demand("g99.large", "us-east-1") is None


@pytest.mark.parametrize("region", REGIONS)
def test_all_types_of_a_region_are_available_except_those_that_do_not_boot(region: str) -> None:
    catalog = bundled_catalog()

    built = build_instance_types(
        catalog.instance_types_in(region),
        region=catalog.regions[region],
        node_class=EC2NodeClass(),
        prices=bundled_prices(),
    )

    unavailable = {
        instance_type.name
        for instance_type in built
        if not any(offering.available for offering in instance_type.offerings)
    }
    assert all(name.startswith("a1.") for name in unavailable)


def test_every_instance_type_leaves_resources_for_pods() -> None:
    catalog = bundled_catalog()

    built = build_instance_types(
        catalog.instance_types,
        region=catalog.regions["us-east-1"],
        node_class=EC2NodeClass(),
        prices=bundled_prices(),
    )

    assert [
        instance_type.name for instance_type in built if min(instance_type.allocatable.values()) < 0
    ] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t2.nano", {"cpu": 1000, "pods": 4}),
        ("c1.medium", {"cpu": 2000, "pods": 12}),
        ("g4ad.xlarge", {"cpu": 4000, "pods": 8, "amd.com/gpu": 1, "vpc.amazonaws.com/pod-eni": 12}),
        ("g4ad.16xlarge", {"cpu": 64000, "pods": 234, "amd.com/gpu": 4, "vpc.amazonaws.com/pod-eni": 6}),
        ("i7ie.48xlarge", {"pods": 737, "vpc.amazonaws.com/pod-eni": 107}),
        ("i7ie.metal-48xl", {"pods": 737}),
        ("i8ge.48xlarge", {"pods": 1178, "vpc.amazonaws.com/pod-eni": 98}),
        ("i8ge.metal-48xl", {"pods": 1178}),
        ("c8gn.metal-48xl", {"vpc.amazonaws.com/pod-eni": 98}),
        ("m8azn.metal-12xl", {"vpc.amazonaws.com/pod-eni": 106}),
        ("hpc7g.4xlarge", {"vpc.amazonaws.com/pod-eni": 118}),
        ("m5.metal", {"vpc.amazonaws.com/pod-eni": 120}),
        ("m5.24xlarge", {"vpc.amazonaws.com/pod-eni": 107}),
        ("i4i.large", {"vpc.amazonaws.com/pod-eni": 9}),
    ],
)
def test_capacity_is_that_of_published_tables(name: str, expected: dict[str, int]) -> None:
    catalog = bundled_catalog()
    facts = [facts for facts in catalog.instance_types if facts.name == name]

    (built,) = build_instance_types(
        facts, region=catalog.regions["us-east-1"], node_class=EC2NodeClass(), prices=bundled_prices()
    )

    assert {resource: built.capacity.get(resource) for resource in expected} == expected


def test_every_type_has_the_interfaces_of_each_network_card() -> None:
    assert [
        facts.name
        for facts in bundled_catalog().instance_types
        if len(facts.card_enis) != facts.network_cards
        or facts.card_enis[0] != facts.enis
        or sum(facts.card_enis) != facts.total_enis
    ] == []


def test_additions_to_the_catalogue_are_bundled_and_have_a_source() -> None:
    additions = json.loads((ROOT / "scripts" / "catalog_additions.json").read_text("utf-8"))
    by_name = {facts.name: facts for facts in bundled_catalog().instance_types}

    assert all(entry["source"] for entry in (*additions["families"], *additions["corrections"]))
    for family in additions["families"]:
        for size, facts in family["sizes"].items():
            assert by_name[f"{family['name']}.{size}"].memory_mib == facts["memory_mib"]
    for correction in additions["corrections"]:
        assert {by_name[name].enis for name in correction["types"]} == {correction["facts"]["enis"]}
