"""Instance types are the same objects until offerings or the node class change."""

import msgspec
import pytest

from dovetail.core.instancetypes.discounts import COMMITTED_PRICE_FACTOR
from dovetail.model.cloud.discounts import DiscountBook, PercentageDiscount, ReservedInstances
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from dovetail.model.karpenter.ec2nodeclass_launch import (
    LaunchSpec,
    NetworkInterface,
    ResolvedResources,
    Subnet,
)
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import TTL, UnavailableOffering, UnavailableOfferings
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION, A, B
from tests.support.simulator.api_server import START

CLASS = EC2NodeClass()


def a_provider(unavailable: UnavailableOfferings) -> InstanceTypeProvider:
    return InstanceTypeProvider(CATALOG.instance_types, region=REGION, prices=PRICES, unavailable=unavailable)


def had(types: tuple[InstanceType, ...]) -> set[tuple[str, str, str]]:
    return {
        (instance_type.name, offering.zone, offering.capacity_type)
        for instance_type in types
        for offering in instance_type.offerings
        if offering.available
    }


def names_of(types: tuple[InstanceType, ...]) -> list[str]:
    return [instance_type.name for instance_type in types]


def test_the_tuple_is_the_same_object_while_nothing_changes() -> None:
    provider = a_provider(UnavailableOfferings())

    first = provider.instance_types(CLASS, now=START)

    assert provider.instance_types(EC2NodeClass(), now=START + TTL) is first


def test_unavailable_offering_replaces_only_its_type_until_it_expires() -> None:
    unavailable = UnavailableOfferings()
    provider = a_provider(unavailable)
    before = provider.instance_types(CLASS, now=START)
    gone = UnavailableOffering(capacity_type="spot", instance_type="m5.large", zone=A)

    unavailable.mark_unavailable([gone], now=START)
    during = provider.instance_types(CLASS, now=START)
    after = provider.instance_types(CLASS, now=START + TTL)

    assert had(before) - had(during) == {("m5.large", A, "spot")}
    changed = [new.name for new, old in zip(during, before, strict=True) if new is not old]
    assert changed == ["m5.large"]
    assert all(new is old for new, old in zip(after, before, strict=True))


def test_unavailable_spot_zone_applies_to_every_type() -> None:
    unavailable = UnavailableOfferings()
    provider = a_provider(unavailable)
    unavailable.mark_unavailable([UnavailableOffering(capacity_type="spot", zone=A)], now=START)

    left = had(provider.instance_types(CLASS, now=START))

    assert {(zone, kind) for _, zone, kind in left} == {(A, "on-demand"), (B, "on-demand"), (B, "spot")}


def test_types_stay_launchable_while_their_offerings_are_unavailable() -> None:
    unavailable = UnavailableOfferings()
    provider = a_provider(unavailable)
    before = provider.launchable_types(CLASS)

    unavailable.mark_unavailable([UnavailableOffering(instance_type="m5.large")], now=START)
    provider.instance_types(CLASS, now=START)

    assert "m5.large" in names_of(before)
    assert provider.launchable_types(CLASS) == before


def test_types_stay_launchable_without_a_price() -> None:
    priced = a_provider(UnavailableOfferings())
    unpriced = InstanceTypeProvider(
        CATALOG.instance_types,
        region=REGION,
        prices=PriceBook(source="empty"),
        unavailable=UnavailableOfferings(),
    )

    assert names_of(unpriced.launchable_types(CLASS)) == names_of(priced.launchable_types(CLASS))


def test_incompatible_types_and_types_of_other_zones_are_not_launchable() -> None:
    provider = a_provider(UnavailableOfferings())
    interfaces = tuple(NetworkInterface(device=number) for number in range(4))
    wide = msgspec.structs.replace(CLASS, launch=LaunchSpec(network_interfaces=interfaces))
    elsewhere = msgspec.structs.replace(CLASS, zones=FrozenDict({"eu-west-1z": ""}))

    assert "m5.large" not in names_of(provider.launchable_types(wide))
    assert provider.launchable_types(elsewhere) == ()


def test_unavailable_offering_of_an_unknown_type_changes_nothing() -> None:
    unavailable = UnavailableOfferings()
    provider = a_provider(unavailable)
    before = provider.instance_types(CLASS, now=START)

    unavailable.mark_unavailable([UnavailableOffering(instance_type="p5.48xlarge")], now=START)

    assert provider.instance_types(CLASS, now=START) is before


def test_changed_node_class_gets_new_types_with_the_same_unavailable_offerings() -> None:
    unavailable = UnavailableOfferings()
    provider = a_provider(unavailable)
    before = provider.instance_types(CLASS, now=START)
    unavailable.mark_unavailable([UnavailableOffering(capacity_type="spot")], now=START)
    edited = msgspec.structs.replace(
        CLASS, kubelet=KubeletConfiguration(max_pods=8), zones=FrozenDict({A: "euw1-az1"})
    )

    types = provider.instance_types(edited, now=START)

    assert {instance_type.capacity["pods"] for instance_type in types} == {8}
    assert {(zone, kind) for _, zone, kind in had(types)} == {(A, "on-demand")}
    assert {instance_type.capacity["pods"] for instance_type in before} != {8}


def test_changed_status_of_the_node_class_keeps_the_types() -> None:
    provider = a_provider(UnavailableOfferings())
    first = provider.instance_types(CLASS, now=START)
    written = msgspec.structs.replace(
        CLASS,
        resource_version="7",
        generation=3,
        annotations=FrozenDict({"note": "a"}),
        resolved=ResolvedResources(subnets=(Subnet(id="subnet-1"),)),
    )

    assert provider.instance_types(written, now=START) is first


def test_equal_catalog_and_prices_keep_the_types() -> None:
    provider = a_provider(UnavailableOfferings())
    first = provider.instance_types(CLASS, now=START)

    same = msgspec.structs.replace(PRICES)
    provider.update_catalog(
        tuple(CATALOG.instance_types), region=msgspec.structs.replace(REGION), prices=same
    )

    assert provider.instance_types(CLASS, now=START) is first


def test_new_prices_and_catalog_entries_are_used() -> None:
    provider = a_provider(UnavailableOfferings())
    provider.instance_types(CLASS, now=START)
    raised = msgspec.structs.replace(PRICES, on_demand_prices=FrozenDict({("m5.large", REGION.name): 7.0}))

    provider.update_catalog(CATALOG.instance_types[:2], region=REGION, prices=PRICES)
    fewer = provider.instance_types(CLASS, now=START)
    provider.update_catalog(CATALOG.instance_types, region=REGION, prices=raised)

    assert [instance_type.name for instance_type in fewer] == [
        instance_type.name for instance_type in CATALOG.instance_types[:2]
    ]
    assert price_of(provider, "m5.large") == 7.0


def price_of(provider: InstanceTypeProvider, name: str, zone: str = A) -> float:
    (price,) = {
        offering.price
        for instance_type in provider.instance_types(CLASS, now=START)
        for offering in instance_type.offerings
        if instance_type.name == name and offering.zone == zone and offering.capacity_type == "on-demand"
    }
    return price


def test_percentage_discounts_lower_prices_permanently() -> None:
    book = DiscountBook(percentages=(PercentageDiscount(percent=10),))
    plain = a_provider(UnavailableOfferings())

    provider = InstanceTypeProvider(
        CATALOG.instance_types,
        region=REGION,
        prices=PRICES,
        unavailable=UnavailableOfferings(),
        discounts=book,
    )

    assert price_of(provider, "m5.large") == pytest.approx(0.9 * price_of(plain, "m5.large"))


def test_covered_offerings_are_almost_free_until_the_commitment_is_used() -> None:
    slots = ReservedInstances(name="r", instance_type="m5.large", count=2, price=0.05)
    running: dict[tuple[str, str, str], int] = {}
    unavailable = UnavailableOfferings()
    provider = InstanceTypeProvider(
        CATALOG.instance_types,
        region=REGION,
        prices=PRICES,
        unavailable=unavailable,
        discounts=DiscountBook(reservations=(slots,)),
        running=lambda: running,
    )
    listed = price_of(a_provider(UnavailableOfferings()), "m5.large")
    covered = provider.instance_types(CLASS, now=START)
    first = price_of(provider, "m5.large")

    running = {("m5.large", B, "on-demand"): 1}
    still = provider.instance_types(CLASS, now=START)
    running = {("m5.large", A, "on-demand"): 1, ("m5.large", B, "on-demand"): 1}
    unavailable.mark_unavailable([UnavailableOffering(capacity_type="spot", zone=A)], now=START)
    used_up = provider.instance_types(CLASS, now=START)

    assert first == pytest.approx(listed * COMMITTED_PRICE_FACTOR)
    assert still is covered
    assert price_of(provider, "m5.large") == listed
    assert ("m5.large", A, "spot") not in had(used_up)


def test_node_classes_that_differ_in_name_role_and_user_data_share_their_types() -> None:
    provider = a_provider(UnavailableOfferings())
    other = EC2NodeClass(name="other", uid="2", launch=LaunchSpec(role="nodes", user_data="echo hello"))

    assert provider.instance_types(other, now=START) is provider.instance_types(CLASS, now=START)


def test_node_classes_with_other_capacity_share_requirements_and_offerings() -> None:
    provider = a_provider(UnavailableOfferings())
    small = EC2NodeClass(name="small", kubelet=KubeletConfiguration(max_pods=8))
    types = provider.instance_types(CLASS, now=START)

    others = provider.instance_types(small, now=START)

    assert [other.capacity["pods"] for other in others] == [8] * len(types)
    for instance_type, other in zip(types, others, strict=True):
        assert other.requirements is instance_type.requirements
        assert other.offerings is instance_type.offerings


def test_types_of_deleted_node_classes_are_forgotten() -> None:
    provider = a_provider(UnavailableOfferings())
    small = EC2NodeClass(name="small", kubelet=KubeletConfiguration(max_pods=8))
    kept = provider.instance_types(CLASS, now=START)
    before = provider.instance_types(small, now=START)

    provider.retain([CLASS.name])

    assert provider.instance_types(small, now=START) is not before
    assert provider.instance_types(CLASS, now=START) is kept
