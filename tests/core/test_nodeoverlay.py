"""Users' own prices and capacity: NO1–NO8, X1–X3 of the checklists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodeoverlay import CONFLICT, INVALID, Layer, Shop, adjusted, overlaid, settle
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import Resources

FUSE = "example.com/fuse"


def wants(key: str, *values: str) -> RequirementSpec:
    return RequirementSpec(key, Operator.IN, values)


def an_overlay(name: str = "a", *wanted: RequirementSpec, **fields: Any) -> NodeOverlay:
    if "capacity" in fields:
        fields["capacity"] = Resources.parse(fields["capacity"])
    return NodeOverlay(name=name, requirements=wanted, **fields)


def a_type(name: str, *, arch: str = "amd64", price: float = 10.0, **offering: Any) -> InstanceType:
    """A type that two zones sell, on demand and spot, at one price."""
    known = [
        Requirement.one_of(label_keys.INSTANCE_TYPE, name),
        Requirement.one_of(label_keys.ARCH, arch),
        Requirement.one_of(label_keys.ZONE, "a", "b"),
        Requirement.one_of(label_keys.CAPACITY_TYPE, "spot", "on-demand"),
    ]
    return InstanceType(
        name=name,
        requirements=Requirements.of(known),
        capacity=Resources.parse({"cpu": 4}),
        offerings=tuple(
            Offering(zone=zone, capacity_type=kind, price=price, **offering)
            for zone in ("a", "b")
            for kind in ("spot", "on-demand")
        ),
    )


def a_shop(name: str = "default", labels: dict[str, str] | None = None) -> Shop:
    pool = NodePool(name=name, template=NodeTemplate(labels=FrozenDict(labels or {})))
    return pool, (a_type("m5.large"), a_type("m6g.large", arch="arm64"))


def prices(shop: Shop, *overlays: NodeOverlay) -> dict[str, list[float]]:
    """Type → its prices in zone a and b, each spot and on-demand."""
    pool, types = shop
    layers = [Layer(one) for one in settle(overlays, [shop]).valid]
    return {
        one.name: [offering.price for offering in overlaid(one, pool, layers).offerings]
        for one in types
    }


@pytest.mark.parametrize(
    ("change", "price"),
    [("-10%", 9), ("+100%", 20), ("-200%", 0), ("+5", 15), ("-15", 0), ("+0.5", 10.5), ("", 10)],
)
def test_a_price_is_changed_by_an_amount_or_a_share_and_never_below_nothing(
    change: str, price: float
) -> None:
    assert adjusted(10, an_overlay(price_adjustment=change)) == pytest.approx(price)


def test_an_absolute_price_replaces_what_the_cloud_says() -> None:
    assert adjusted(10, an_overlay(price="0.25")) == 0.25


def test_a_price_counts_only_for_the_offerings_that_are_meant() -> None:
    spot_in_a = an_overlay(
        "a", wants(label_keys.CAPACITY_TYPE, "spot"), wants(label_keys.ZONE, "a"), price="1"
    )

    found = prices(a_shop(), spot_in_a)

    assert found == {"m5.large": [1, 10, 10, 10], "m6g.large": [1, 10, 10, 10]}


def test_the_heavier_of_two_decides_and_both_are_valid() -> None:
    arm = wants(label_keys.ARCH, "arm64")
    light, heavy = an_overlay("z", price="1", weight=1), an_overlay("a", arm, price="2", weight=5)

    found = prices(a_shop(), light, heavy)

    assert found == {"m5.large": [1] * 4, "m6g.large": [2] * 4}
    assert settle([light, heavy], [a_shop()]).rejected == {}


@pytest.mark.parametrize(
    "wanted",
    [
        (),
        (wants(label_keys.ZONE, "b"),),
        (wants(label_keys.CAPACITY_TYPE, "spot"),),
        (wants(label_keys.INSTANCE_TYPE, "m5.large"),),
        (wants(label_keys.ARCH, "amd64"),),
    ],
)
def test_of_two_that_weigh_the_same_and_overlap_the_later_name_stays(
    wanted: tuple[RequirementSpec, ...],
) -> None:
    first, second = an_overlay("a", price="1"), an_overlay("b", *wanted, price="1")

    settled = settle([first, second], [a_shop()])

    assert settled.valid == (second,)
    assert settled.rejected["a"].reason == CONFLICT
    assert "'b'" in settled.rejected["a"].message


def test_what_is_rejected_is_applied_nowhere_not_even_where_nobody_contradicts() -> None:
    everywhere = an_overlay("a", price="1")
    arm = an_overlay("b", wants(label_keys.ARCH, "arm64"), price="2")

    found = prices(a_shop(), everywhere, arm)

    assert found == {"m5.large": [10] * 4, "m6g.large": [2] * 4}


def test_those_that_speak_of_different_things_hold_together() -> None:
    arm = an_overlay("a", wants(label_keys.ARCH, "arm64"), price="1")
    amd = an_overlay("b", wants(label_keys.ARCH, "amd64"), price="2")
    fuse = an_overlay("c", capacity={FUSE: 8})
    gpus = an_overlay("d", capacity={"example.com/gpu": 1})

    settled = settle([arm, amd, fuse, gpus], [a_shop()])

    assert settled.rejected == {}
    pool, (kind, _) = a_shop()
    made = overlaid(kind, pool, [Layer(one) for one in settled.valid])
    assert made.capacity == Resources.parse({"cpu": 4, FUSE: 8, "example.com/gpu": 1})
    assert made.allocatable[FUSE] == 8
    assert (made.price_overlaid, made.capacity_overlaid) == (True, True)


def test_two_that_give_the_same_resource_contradict_each_other() -> None:
    settled = settle(
        [an_overlay("a", capacity={FUSE: 8}), an_overlay("b", capacity={FUSE: 8})], [a_shop()]
    )

    assert list(settled.rejected) == ["a"]


def test_an_overlay_is_for_the_pools_that_it_names() -> None:
    by_name = an_overlay("a", wants(label_keys.NODEPOOL, "other"), price="1")
    by_label = an_overlay("b", wants("team", "blue"), price="2")

    here = prices(a_shop(), by_name, by_label)
    there = prices(a_shop("other"), by_name, by_label)
    blue = prices(a_shop("third", {"team": "blue"}), by_name, by_label)

    assert (here["m5.large"][0], there["m5.large"][0], blue["m5.large"][0]) == (10, 1, 2)


def test_an_overlay_that_asks_for_nonsense_is_not_applied() -> None:
    wrong = an_overlay("a", wants(label_keys.CAPACITY_TYPE, "cheap"), price="1")

    settled = settle([wrong], [a_shop()])

    assert settled.valid == ()
    assert settled.rejected["a"].reason == INVALID
    assert "cheap" in settled.rejected["a"].message


def test_a_type_that_nobody_has_a_price_for_can_be_bought_at_an_absolute_one() -> None:
    pool, _ = a_shop()
    new = a_type("x9.large", price=float("inf"), available=False, lacks_price=True)

    told = overlaid(new, pool, [Layer(an_overlay(price="3"))])
    more = overlaid(new, pool, [Layer(an_overlay(price_adjustment="+3"))])

    assert all(one.available and one.price == 3 for one in told.offerings)
    assert not any(one.available for one in more.offerings)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", ""]), st.sampled_from("123")),
        max_size=6,
    )
)
def test_whatever_overlays_there_are_no_offering_has_two_that_weigh_the_same(
    drawn: list[tuple[int, str, str]],
) -> None:
    shop = a_shop()
    overlays = [
        an_overlay(
            f"o{number}",
            *([wants(label_keys.ZONE, zone)] if zone else []),
            weight=weight,
            price=price,
        )
        for number, (weight, zone, price) in enumerate(drawn)
    ]

    settled = settle(overlays, [shop])

    for zone in ("a", "b"):
        weights = [
            one.weight
            for one in settled.valid
            if not one.requirements or zone in one.requirements[0].values
        ]
        assert len(weights) == len(set(weights))
    assert {one.name for one in settled.valid} | set(settled.rejected) == {
        one.name for one in overlays
    }
