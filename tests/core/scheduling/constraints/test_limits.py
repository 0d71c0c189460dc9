"""Limits of a NodePool."""

from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.plan import Constraint
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_node, a_pod, a_pool, affinity, cluster, pods, zone_spread
from tests.support.scheduling.instance_types import DEFAULT_TYPES, GPU_A, a_type, offerings
from tests.support.scheduling.plans import placed, reasons, settled, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
APART: dict[str, Any] = {"labels": {"app": "a"}, "anti_affinity": [affinity({"app": "a"})]}
"""A pod that stays away from others like it."""


def test_p52_usage_beyond_the_limit_allows_no_launch() -> None:
    used = a_node("big", cpu=100, pool="default", taints=(), room=0)

    plan = solve(cluster([a_pod("p")], [a_pool(limits={"cpu": "20"})], nodes=[used]))

    assert reasons(plan) == {"p": [Constraint.LIMITS]}


def test_p52_deleting_nodes_are_not_counted() -> None:
    going = a_node("big", cpu=100, pool="default", deleting=True)

    plan = solve(cluster([a_pod("p")], [a_pool(limits={"cpu": "20"})], nodes=[going]))

    assert type_names(plan) == ["small"]


def test_p52_nodes_of_other_pools_are_not_counted() -> None:
    others = a_node("big", cpu=100, pool="other", room=0)

    plan = solve(cluster([a_pod("p")], [a_pool(limits={"cpu": "20"})], nodes=[others]))

    assert type_names(plan) == ["small"]


@BOTH
@pytest.mark.parametrize(("cpu", "expected"), [("1.75", ["small"]), ("2.1", [])])
def test_p53_a_pod_fits_a_limit_if_a_type_that_holds_it_does(
    cpu: str, expected: list[str], packing: Packing
) -> None:
    snapshot = cluster([a_pod("p", cpu=cpu)], [a_pool(limits={"cpu": "2"})])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert type_names(plan) == expected


def test_p53_only_types_within_the_limit_are_listed() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(limits={"cpu": "2"})]))

    assert [kind.name for kind in plan.nodes[0].instance_types] == ["small"]


@BOTH
@pytest.mark.parametrize("count", [1, 4])
def test_p28_a_distant_limit_does_not_restrict_the_types(count: int, packing: Packing) -> None:
    some = [a_pod(f"p{i}", **APART) for i in range(count)]
    snapshot = cluster(some, [a_pool(limits={"cpu": "2000"})])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert [len(node.instance_types) for node in plan.nodes] == [len(DEFAULT_TYPES)] * count


def test_p54_no_combination_of_types_can_break_the_limit() -> None:
    some = [a_pod(f"p{i}", **APART) for i in range(4)]

    plan = solve(cluster(some, [a_pool(limits={"cpu": "12"})]))

    largest = [max(kind.capacity["cpu"] for kind in node.instance_types) for node in plan.nodes]
    assert len(largest) == 4
    assert sum(largest) <= 12_000


@BOTH
def test_p54_the_first_node_uses_up_what_the_second_would_need(packing: Packing) -> None:
    some = [a_pod(f"p{i}", cpu="1.5", **APART) for i in range(2)]
    snapshot = cluster(some, [a_pool(limits={"cpu": "3"})])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert len(placed(plan)) == 1
    assert list(reasons(plan).values()) == [[Constraint.LIMITS]]


def test_p55_the_pod_count_may_be_limited_too() -> None:
    plan = solve(cluster([a_pod("p", more={GPU_A: 1})], [a_pool(limits={"pods": "1"})]))

    assert reasons(plan) == {"p": [Constraint.LIMITS]}


@BOTH
def test_p56_what_one_pass_launches_counts_in_the_next(packing: Packing) -> None:
    settings = SchedulingSettings(packing=packing)
    snapshot = cluster([a_pod("first", cpu="1.75")], [a_pool(limits={"cpu": "2"})])

    first = solve(snapshot, settings)
    second = solve(settled(snapshot, first, [a_pod("second", cpu="1.75")]), settings)

    assert placed(first) == ["first"]
    assert reasons(second) == {"second": [Constraint.LIMITS]}


@BOTH
def test_p57_the_number_of_nodes_may_be_limited(packing: Packing) -> None:
    settings = SchedulingSettings(packing=packing)
    snapshot = cluster([], [a_pool(limits={"nodes": "2"})])

    outcomes = []
    for name in ("first", "second", "third"):
        snapshot = settled(snapshot, solve(snapshot, settings), [a_pod(name, **APART)])
        outcomes.append(unplaced(solve(snapshot, settings)))

    assert outcomes == [[], [], ["third"]]


@BOTH
def test_p57_the_number_of_nodes_holds_inside_one_pass_as_well(packing: Packing) -> None:
    # Karpenter does not count nodes within a pass, and so may launch too many.
    some = [a_pod(f"p{i}", **APART) for i in range(5)]

    plan = solve(cluster(some, [a_pool(limits={"nodes": "2"})]), SchedulingSettings(packing=packing))

    assert len(plan.nodes) == 2
    assert len(unplaced(plan)) == 3


@BOTH
def test_a_limit_on_memory_holds_over_a_large_batch(packing: Packing) -> None:
    some = [a_pod(f"p{i}", memory="1Gi") for i in range(40)]
    snapshot = cluster(some, [a_pool(limits={"memory": "16Gi"})])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    launched = sum(node.instance_type.capacity["memory"] for node in plan.nodes)
    assert 0 < launched <= 16 * 2**30


def test_a_pool_at_its_limit_leaves_the_pod_to_a_lighter_one() -> None:
    pools = [a_pool("full", weight=10, limits={"cpu": "0"}), a_pool("other")]

    plan = solve(cluster([a_pod("p")], pools))

    assert [node.nodepool for node in plan.nodes] == ["other"]


def test_a_limit_on_a_resource_that_types_lack_does_not_hold_them_back() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool(limits={GPU_A: 0, "cpu": "1000"})]))

    assert type_names(plan) == ["small"]
    assert "gpu-a" not in [kind.name for kind in plan.nodes[0].instance_types]


def test_existing_room_is_used_even_when_the_pool_is_at_its_limit() -> None:
    node = a_node("n", pool="default", labels={label_keys.INSTANCE_TYPE: "default"})

    plan = solve(cluster([a_pod("p")], [a_pool(limits={"cpu": "1"})], nodes=[node]))

    assert [taken.node for taken in plan.existing] == ["n"]


@pytest.mark.parametrize("limit", [12, 16, 20, 24, 28])
def test_a_limit_that_is_hit_half_way_leaves_every_spread_level(limit: int) -> None:
    types = [a_type("t", cpu=4, memory="16Gi", offered=offerings(1.0))]
    first = pods(3, "s", cpu=3, labels={"app": "s"}, spreads=[zone_spread({"app": "s"})])
    second = pods(6, "u", cpu="2500m", labels={"app": "u"}, spreads=[zone_spread({"app": "u"})])
    snapshot = cluster([*first, *second], [a_pool(limits={"cpu": str(limit)})], types)

    plan = solve(snapshot)  # Judged by the checker, zone by zone.

    assert len(plan.nodes) == min(9, limit // 4)
    assert len(unplaced(plan)) == 9 - len(plan.nodes)


ARM = {"node_selector": {label_keys.ARCH: "arm64"}}
TWO_ARCHS = (
    a_type("arm", cpu=4, memory="16Gi", arch="arm64", price=0.1),
    a_type("amd", cpu=4, memory="16Gi", arch="amd64", price=0.2),
)


@BOTH
def test_pods_that_fit_one_limited_pool_come_before_those_that_fit_another_one_too(packing: Packing) -> None:
    flexible = pods(9, "any", cpu="1")
    arm_only = pods(9, "arm", cpu="1", **ARM)
    limited = [
        a_pool("arm", [(label_keys.ARCH, "In", ["arm64"])], limits={"cpu": "12"}),
        a_pool("amd", [(label_keys.ARCH, "In", ["amd64"])], limits={"cpu": "12"}),
    ]

    plan = solve(cluster([*flexible, *arm_only], limited, TWO_ARCHS), SchedulingSettings(packing=packing))

    assert unplaced(plan) == []


@BOTH
def test_pods_that_were_displaced_take_the_limit_from_pods_that_fit_elsewhere(packing: Packing) -> None:
    # Each class fits two of three pools. Taken in turn, the first two fill what the third needs.
    archs, limits = ("amd64", "arm64"), {"cpu": "4"}
    limited = [
        a_pool("a", [(label_keys.ARCH, "In", ["arm64"])], labels={"team": "x"}, limits=limits),
        a_pool("b", [(label_keys.ARCH, "In", ["amd64"])], labels={"team": "x"}, limits=limits),
        a_pool("c", [(label_keys.ARCH, "In", list(archs))], labels={"team": "y"}, limits=limits),
    ]
    some = [
        *pods(3, "1-x", cpu="1", node_selector={"team": "x"}),
        *pods(3, "2-arm", cpu="1", **ARM),
        *pods(3, "3-amd", cpu="1", node_selector={label_keys.ARCH: "amd64"}),
    ]

    plan = solve(cluster(some, limited, TWO_ARCHS), SchedulingSettings(packing=packing))

    assert unplaced(plan) == []
