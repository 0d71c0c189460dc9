"""Offerings of instance types."""

from math import inf

import msgspec

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.model import labels as label_keys
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from tests.core.instancetypes.builders import (
    BOOK,
    ZONES,
    available,
    build_type,
    ec2_type,
    offering,
    region_offering,
)

A, B = ZONES
ON_DEMAND, SPOT, RESERVED = label_keys.CAPACITY_TYPES
BLOCK = CapacityReservation(
    id="cr-1", instance_type="m5.large", zone=A, available_count=3, reservation_type="capacity-block"
)


def holding(reservation: CapacityReservation) -> EC2NodeClass:
    return EC2NodeClass(capacity_reservations=(reservation,))


def test_there_is_exactly_one_offering_per_zone_and_capacity_type() -> None:
    m5 = build_type("m5.large", zones=[A])

    assert sorted((offering.zone, offering.capacity_type) for offering in m5.offerings) == sorted(
        (zone, kind) for zone in ZONES for kind in (ON_DEMAND, SPOT)
    )


def test_a_zone_that_does_not_sell_the_type_has_an_offering_that_is_not_available() -> None:
    m5 = build_type("m5.large", zones=[A])

    assert available(m5) == {(A, ON_DEMAND), (A, SPOT)}
    assert m5.requirements[label_keys.ZONE].values == {A}
    assert m5.requirements[label_keys.ZONE_ID].values == {ZONES[A]}


def test_a_zone_without_a_subnet_of_the_class_is_not_available() -> None:
    m5 = build_type("m5.large", EC2NodeClass(zones=FrozenDict({B: ZONES[B]})))

    assert available(m5) == {(B, ON_DEMAND), (B, SPOT)}
    assert len(m5.offerings) == 4


def test_zone_ids_that_the_region_lacks_are_those_of_the_subnets() -> None:
    region = msgspec.structs.replace(
        region_offering(["m5.large"]), zones=FrozenDict(dict.fromkeys(ZONES, ""))
    )

    m5 = build_type("m5.large", EC2NodeClass(zones=FrozenDict({B: ZONES[B]})), region=region)

    assert {(offering.zone, offering.zone_id) for offering in m5.offerings} == {(A, ""), (B, ZONES[B])}
    assert m5.requirements[label_keys.ZONE_ID].values == {ZONES[B]}


def test_a_type_that_is_not_sold_as_spot_has_no_spot_offering() -> None:
    only_on_demand = msgspec.structs.replace(ec2_type("m5.large"), usage_classes=("on-demand",))

    (built,) = build_instance_types(
        [only_on_demand], region=region_offering(["m5.large"]), node_class=EC2NodeClass(), prices=BOOK
    )

    assert {offering.capacity_type for offering in built.offerings} == {ON_DEMAND}
    assert built.requirements[label_keys.CAPACITY_TYPE].values == {ON_DEMAND}


def test_first_generation_arm_types_do_not_boot_al2023_but_do_boot_bottlerocket() -> None:
    al2023 = build_type("a1.large", EC2NodeClass(ami_family="AL2023"))
    bottlerocket = build_type("a1.large", EC2NodeClass(ami_family="Bottlerocket"))

    assert available(al2023) == set()
    assert len(al2023.offerings) == 4
    assert len(available(bottlerocket)) == 4


def test_a_type_without_a_price_is_listed_as_unavailable() -> None:
    unpriced = build_type("m6i.large")

    assert len(unpriced.offerings) == 4
    assert {offering.price for offering in unpriced.offerings} == {inf}
    assert available(unpriced) == set()


def test_spot_without_a_price_in_a_zone_is_unavailable_there() -> None:
    book = PriceBook(
        source="mine",
        on_demand_prices=FrozenDict({("m5.large", "eu-west-1"): 0.1}),
        spot_prices=FrozenDict({("m5.large", ZONES[A]): 0.04}),
    )

    m5 = build_type("m5.large", prices=book)

    assert available(m5) == {(A, ON_DEMAND), (B, ON_DEMAND), (A, SPOT)}
    assert offering(m5, A, SPOT).price == 0.04


def test_an_offering_that_ran_out_leaves_the_others_alone() -> None:
    m5 = build_type("m5.large", unavailable=frozenset({(SPOT, "m5.large", A)}))

    assert available(m5) == {(A, ON_DEMAND), (B, ON_DEMAND), (B, SPOT)}


def test_a_reservation_is_one_more_offering_at_next_to_nothing() -> None:
    m5 = build_type("m5.large", holding(BLOCK))

    reserved = offering(m5, A, RESERVED)
    assert reserved.available
    assert (reserved.reservation_id, reserved.reservation_capacity) == ("cr-1", 3)
    assert reserved.price == 0.096 / 10_000_000
    assert len(m5.offerings) == 5


def test_a_reservation_shows_in_the_labels_of_its_type_only() -> None:
    m5, t3 = build_type("m5.large", holding(BLOCK)), build_type("t3.large", holding(BLOCK))

    assert RESERVED in m5.requirements[label_keys.CAPACITY_TYPE].values
    assert m5.requirements[label_keys.CAPACITY_RESERVATION_ID].values == {"cr-1"}
    assert m5.requirements[label_keys.CAPACITY_RESERVATION_TYPE].values == {"capacity-block"}
    assert m5.requirements[label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE].values == {"false"}
    assert RESERVED not in t3.requirements[label_keys.CAPACITY_TYPE].values
    assert not t3.requirements[label_keys.CAPACITY_RESERVATION_ID].values


def test_a_capacity_block_that_is_about_to_end_is_not_available() -> None:
    expiring = msgspec.structs.replace(BLOCK, expiring=True)

    assert not offering(build_type("m5.large", holding(expiring)), A, RESERVED).available


def test_a_reservation_that_is_used_up_is_not_available() -> None:
    used_up = msgspec.structs.replace(BLOCK, available_count=0)

    assert not offering(build_type("m5.large", holding(used_up)), A, RESERVED).available


def test_reservations_can_be_switched_off() -> None:
    m5 = build_type("m5.large", holding(BLOCK), settings=InstanceTypeSettings(reserved_capacity=False))

    assert {offering.capacity_type for offering in m5.offerings} == {ON_DEMAND, SPOT}


def test_a_reservation_without_a_list_price_costs_nothing() -> None:
    unknown = msgspec.structs.replace(BLOCK, instance_type="m6i.large")

    reserved = offering(build_type("m6i.large", holding(unknown)), A, RESERVED)
    assert (reserved.price, reserved.available) == (0.0, True)
