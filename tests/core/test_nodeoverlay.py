"""NodeOverlays, prices and capacity set by users: NO1–NO8, X1–X3 of the checklists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodeoverlay import (
    CONFLICT,
    INVALID,
    CompiledOverlay,
    PoolInstanceTypes,
    adjust_price,
    apply_overlays,
    validate_overlays,
)
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
    """A type offered in two zones, on-demand and spot, at one price."""
    requirements = [
        Requirement.one_of(label_keys.INSTANCE_TYPE, name),
        Requirement.one_of(label_keys.ARCH, arch),
        Requirement.one_of(label_keys.ZONE, "a", "b"),
        Requirement.one_of(label_keys.CAPACITY_TYPE, "spot", "on-demand"),
    ]
    return InstanceType(
        name=name,
        requirements=Requirements.from_requirements(requirements),
        capacity=Resources.parse({"cpu": 4}),
        offerings=tuple(
            Offering(zone=zone, capacity_type=kind, price=price, **offering)
            for zone in ("a", "b")
            for kind in ("spot", "on-demand")
        ),
    )


def a_pool_with_types(name: str = "default", labels: dict[str, str] | None = None) -> PoolInstanceTypes:
    pool = NodePool(name=name, template=NodeTemplate(labels=FrozenDict(labels or {})))
    return pool, (a_type("m5.large"), a_type("m6g.large", arch="arm64"))


def prices(pool_types: PoolInstanceTypes, *overlays: NodeOverlay) -> dict[str, list[float]]:
    """Type → its prices in zone a and b, each spot and on-demand."""
    pool, types = pool_types
    compiled = [CompiledOverlay(overlay) for overlay in validate_overlays(overlays, [pool_types]).valid]
    return {
        instance_type.name: [
            offering.price for offering in apply_overlays(instance_type, pool, compiled).offerings
        ]
        for instance_type in types
    }


@pytest.mark.parametrize(
    ("change", "price"),
    [("-10%", 9), ("+100%", 20), ("-200%", 0), ("+5", 15), ("-15", 0), ("+0.5", 10.5), ("", 10)],
)
def test_price_adjustment_by_amount_or_percentage_is_never_negative(change: str, price: float) -> None:
    assert adjust_price(10, an_overlay(price_adjustment=change)) == pytest.approx(price)


def test_absolute_price_replaces_the_price_of_the_cloud() -> None:
    assert adjust_price(10, an_overlay(price="0.25")) == 0.25


def test_price_applies_only_to_matching_offerings() -> None:
    spot_in_a = an_overlay(
        "a", wants(label_keys.CAPACITY_TYPE, "spot"), wants(label_keys.ZONE, "a"), price="1"
    )

    adjusted = prices(a_pool_with_types(), spot_in_a)

    assert adjusted == {"m5.large": [1, 10, 10, 10], "m6g.large": [1, 10, 10, 10]}


def test_overlay_of_higher_weight_wins_and_both_are_valid() -> None:
    arm = wants(label_keys.ARCH, "arm64")
    light, heavy = an_overlay("z", price="1", weight=1), an_overlay("a", arm, price="2", weight=5)

    adjusted = prices(a_pool_with_types(), light, heavy)

    assert adjusted == {"m5.large": [1] * 4, "m6g.large": [2] * 4}
    assert validate_overlays([light, heavy], [a_pool_with_types()]).rejected == {}


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
def test_of_two_conflicting_overlays_of_equal_weight_the_later_name_is_valid(
    wanted: tuple[RequirementSpec, ...],
) -> None:
    first, second = an_overlay("a", price="1"), an_overlay("b", *wanted, price="1")

    decision = validate_overlays([first, second], [a_pool_with_types()])

    assert decision.valid == (second,)
    assert decision.rejected["a"].reason == CONFLICT
    assert "'b'" in decision.rejected["a"].message


def test_rejected_overlay_is_applied_nowhere_even_without_a_conflict() -> None:
    everywhere = an_overlay("a", price="1")
    arm = an_overlay("b", wants(label_keys.ARCH, "arm64"), price="2")

    adjusted = prices(a_pool_with_types(), everywhere, arm)

    assert adjusted == {"m5.large": [10] * 4, "m6g.large": [2] * 4}


def test_overlays_that_adjust_different_values_are_both_valid() -> None:
    arm = an_overlay("a", wants(label_keys.ARCH, "arm64"), price="1")
    amd = an_overlay("b", wants(label_keys.ARCH, "amd64"), price="2")
    fuse = an_overlay("c", capacity={FUSE: 8})
    gpus = an_overlay("d", capacity={"example.com/gpu": 1})

    decision = validate_overlays([arm, amd, fuse, gpus], [a_pool_with_types()])

    assert decision.rejected == {}
    pool, (kind, _) = a_pool_with_types()
    adjusted = apply_overlays(kind, pool, [CompiledOverlay(overlay) for overlay in decision.valid])
    assert adjusted.capacity == Resources.parse({"cpu": 4, FUSE: 8, "example.com/gpu": 1})
    assert adjusted.allocatable[FUSE] == 8
    assert (adjusted.price_overlay_applied, adjusted.capacity_overlay_applied) == (True, True)


def test_overlays_of_the_same_resource_conflict() -> None:
    decision = validate_overlays(
        [an_overlay("a", capacity={FUSE: 8}), an_overlay("b", capacity={FUSE: 8})], [a_pool_with_types()]
    )

    assert list(decision.rejected) == ["a"]


def test_overlay_applies_to_the_nodepools_that_it_names() -> None:
    by_name = an_overlay("a", wants(label_keys.NODEPOOL, "other"), price="1")
    by_label = an_overlay("b", wants("team", "blue"), price="2")

    here = prices(a_pool_with_types(), by_name, by_label)
    there = prices(a_pool_with_types("other"), by_name, by_label)
    blue = prices(a_pool_with_types("third", {"team": "blue"}), by_name, by_label)

    assert (here["m5.large"][0], there["m5.large"][0], blue["m5.large"][0]) == (10, 1, 2)


def test_overlay_with_invalid_requirements_is_rejected() -> None:
    wrong = an_overlay("a", wants(label_keys.CAPACITY_TYPE, "cheap"), price="1")

    decision = validate_overlays([wrong], [a_pool_with_types()])

    assert decision.valid == ()
    assert decision.rejected["a"].reason == INVALID
    assert "cheap" in decision.rejected["a"].message


def test_absolute_price_makes_an_unpriced_offering_available() -> None:
    pool, _ = a_pool_with_types()
    new = a_type("x9.large", price=float("inf"), available=False, price_missing=True)

    priced = apply_overlays(new, pool, [CompiledOverlay(an_overlay(price="3"))])
    more = apply_overlays(new, pool, [CompiledOverlay(an_overlay(price_adjustment="+3"))])

    assert all(offering.available and offering.price == 3 for offering in priced.offerings)
    assert not any(offering.available for offering in more.offerings)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", ""]), st.sampled_from("123")), max_size=6
    )
)
def test_no_offering_has_two_valid_overlays_of_equal_weight(drawn: list[tuple[int, str, str]]) -> None:
    pool_types = a_pool_with_types()
    overlays = [
        an_overlay(
            f"o{number}", *([wants(label_keys.ZONE, zone)] if zone else []), weight=weight, price=price
        )
        for number, (weight, zone, price) in enumerate(drawn)
    ]

    decision = validate_overlays(overlays, [pool_types])

    for zone in ("a", "b"):
        weights = [
            overlay.weight
            for overlay in decision.valid
            if not overlay.requirements or zone in overlay.requirements[0].values
        ]
        assert len(weights) == len(set(weights))
    assert {overlay.name for overlay in decision.valid} | set(decision.rejected) == {
        overlay.name for overlay in overlays
    }


def test_overlays_beyond_the_comparisons_of_a_decision_are_rejected_lowest_weight_first() -> None:
    pools = [a_pool_with_types("first"), a_pool_with_types("second")]
    overlays = [
        an_overlay("heavy", weight=30, price_adjustment="+1"),
        an_overlay("of-one-pool", wants(label_keys.NODEPOOL, "first"), weight=20, price_adjustment="+1"),
        an_overlay("light", weight=10, price_adjustment="+1"),
    ]

    decision = validate_overlays(overlays, pools, max_comparisons=6)

    assert [overlay.name for overlay in decision.valid] == ["heavy", "of-one-pool"]
    assert decision.rejected["light"].reason == INVALID
    assert "more than 6 instance types" in decision.rejected["light"].message
    assert not validate_overlays(overlays, pools, max_comparisons=10).rejected


def test_offerings_with_a_price_have_it_after_an_overlay() -> None:
    pool, (m5, _) = a_pool_with_types()

    adjusted = apply_overlays(m5, pool, [CompiledOverlay(an_overlay(price_adjustment="+3"))])

    assert {offering.price for offering in adjusted.offerings} == {13}
    assert not any(offering.price_missing for offering in adjusted.offerings)
