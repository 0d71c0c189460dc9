"""Instance types stay the same objects until scarcity or the class changes them."""

import msgspec
import pytest

from dovetail.core.instancetypes.discounts import PAID_ALREADY
from dovetail.model.cloud.discounts import DiscountBook, Percentage, ReservedInstances
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import Kubelet, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found, Subnet
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import TTL, Scarce, Scarcity
from tests.simulator.ec2.place import CATALOG, PRICES, REGION, A, B
from tests.support.cluster import START

CLASS = NodeClass()


def a_shelf(scarcity: Scarcity) -> Shelf:
    return Shelf(CATALOG.machines, region=REGION, prices=PRICES, scarcity=scarcity)


def had(types: tuple[InstanceType, ...]) -> set[tuple[str, str, str]]:
    return {
        (one.name, offering.zone, offering.capacity_type)
        for one in types
        for offering in one.offerings
        if offering.available
    }


def test_the_tuple_is_the_same_object_while_nothing_changes() -> None:
    shelf = a_shelf(Scarcity())

    first = shelf.instance_types(CLASS, now=START)

    assert shelf.instance_types(NodeClass(), now=START + TTL) is first


def test_scarcity_replaces_only_the_types_it_concerns_and_they_come_back_as_they_were() -> None:
    scarcity = Scarcity()
    shelf = a_shelf(scarcity)
    before = shelf.instance_types(CLASS, now=START)
    gone = Scarce(capacity_type="spot", instance_type="m5.large", zone=A)

    scarcity.mark([gone], now=START)
    during = shelf.instance_types(CLASS, now=START)
    after = shelf.instance_types(CLASS, now=START + TTL)

    assert had(before) - had(during) == {("m5.large", A, "spot")}
    changed = [new.name for new, old in zip(during, before, strict=True) if new is not old]
    assert changed == ["m5.large"]
    assert all(new is old for new, old in zip(after, before, strict=True))


def test_a_zone_without_spot_is_closed_for_every_type() -> None:
    scarcity = Scarcity()
    shelf = a_shelf(scarcity)
    scarcity.mark([Scarce(capacity_type="spot", zone=A)], now=START)

    left = had(shelf.instance_types(CLASS, now=START))

    assert {(zone, kind) for _, zone, kind in left} == {
        (A, "on-demand"),
        (B, "on-demand"),
        (B, "spot"),
    }


def test_a_mark_on_a_type_that_is_not_sold_here_changes_nothing() -> None:
    scarcity = Scarcity()
    shelf = a_shelf(scarcity)
    before = shelf.instance_types(CLASS, now=START)

    scarcity.mark([Scarce(instance_type="p5.48xlarge")], now=START)

    assert shelf.instance_types(CLASS, now=START) is before


def test_a_class_that_changes_gets_types_of_its_own_and_scarcity_holds_for_them_too() -> None:
    scarcity = Scarcity()
    shelf = a_shelf(scarcity)
    before = shelf.instance_types(CLASS, now=START)
    scarcity.mark([Scarce(capacity_type="spot")], now=START)
    edited = msgspec.structs.replace(
        CLASS, kubelet=Kubelet(max_pods=8), zones=FrozenDict({A: "euw1-az1"})
    )

    types = shelf.instance_types(edited, now=START)

    assert {one.capacity["pods"] for one in types} == {8}
    assert {(zone, kind) for _, zone, kind in had(types)} == {(A, "on-demand")}
    assert {one.capacity["pods"] for one in before} != {8}


def test_a_status_that_is_written_again_changes_nothing() -> None:
    shelf = a_shelf(Scarcity())
    first = shelf.instance_types(CLASS, now=START)
    written = msgspec.structs.replace(
        CLASS,
        resource_version="7",
        generation=3,
        annotations=FrozenDict({"note": "a"}),
        found=Found(subnets=(Subnet(id="subnet-1"),)),
    )

    assert shelf.instance_types(written, now=START) is first


def test_a_catalogue_and_prices_that_are_equal_to_the_old_ones_change_nothing() -> None:
    shelf = a_shelf(Scarcity())
    first = shelf.instance_types(CLASS, now=START)

    same = msgspec.structs.replace(PRICES)
    shelf.supply(tuple(CATALOG.machines), region=msgspec.structs.replace(REGION), prices=same)

    assert shelf.instance_types(CLASS, now=START) is first


def test_new_prices_and_new_machines_are_taken() -> None:
    shelf = a_shelf(Scarcity())
    shelf.instance_types(CLASS, now=START)
    dearer = msgspec.structs.replace(
        PRICES, on_demand_at=FrozenDict({("m5.large", REGION.name): 7.0})
    )

    shelf.supply(CATALOG.machines[:2], region=REGION, prices=PRICES)
    fewer = shelf.instance_types(CLASS, now=START)
    shelf.supply(CATALOG.machines, region=REGION, prices=dearer)

    assert [one.name for one in fewer] == [one.name for one in CATALOG.machines[:2]]
    assert price_of(shelf, "m5.large") == 7.0


def price_of(shelf: Shelf, name: str, zone: str = A) -> float:
    (price,) = {
        offering.price
        for one in shelf.instance_types(CLASS, now=START)
        for offering in one.offerings
        if one.name == name and offering.zone == zone and offering.capacity_type == "on-demand"
    }
    return price


def test_percentages_lower_the_prices_for_good() -> None:
    book = DiscountBook(percentages=(Percentage(percent=10),))
    plain = a_shelf(Scarcity())

    shelf = Shelf(
        CATALOG.machines, region=REGION, prices=PRICES, scarcity=Scarcity(), discounts=book
    )

    assert price_of(shelf, "m5.large") == pytest.approx(0.9 * price_of(plain, "m5.large"))


def test_what_a_reservation_covers_costs_next_to_nothing_until_enough_is_running() -> None:
    slots = ReservedInstances(name="r", instance_type="m5.large", count=2, price=0.05)
    running: dict[tuple[str, str, str], int] = {}
    scarcity = Scarcity()
    shelf = Shelf(
        CATALOG.machines,
        region=REGION,
        prices=PRICES,
        scarcity=scarcity,
        discounts=DiscountBook(reservations=(slots,)),
        running=lambda: running,
    )
    listed = price_of(a_shelf(Scarcity()), "m5.large")
    covered = shelf.instance_types(CLASS, now=START)
    first = price_of(shelf, "m5.large")

    running = {("m5.large", B, "on-demand"): 1}
    still = shelf.instance_types(CLASS, now=START)
    running = {("m5.large", A, "on-demand"): 1, ("m5.large", B, "on-demand"): 1}
    scarcity.mark([Scarce(capacity_type="spot", zone=A)], now=START)
    used_up = shelf.instance_types(CLASS, now=START)

    assert first == pytest.approx(listed * PAID_ALREADY)
    assert still is covered
    assert price_of(shelf, "m5.large") == listed
    assert ("m5.large", A, "spot") not in had(used_up)
