"""The default packing is as cheap as the best fleet found by brute force."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import sum_resources
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_daemon_set, a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import DEFAULT_TYPES, Z1, Z3, a_type, incremental
from tests.support.scheduling.plans import new_node_of
from tests.support.scheduling.solver import checked as solve

FEWEST = SchedulingSettings(packing=Packing.FEWEST, node_cost=0.002)
NODE_COST = 0.002
CHEAPEST = SchedulingSettings(node_cost=NODE_COST, fewer_nodes_tolerance=0.0)
FLEXIBLE = tuple(
    a_type(f"{cpu}x{memory}", cpu=cpu, memory=f"{memory}Gi", pods=20, price=price)
    for cpu, memory, price in [
        (2, 4, 0.096),
        (4, 8, 0.17),
        (8, 16, 0.37),
        (2, 16, 0.133),
        (4, 32, 0.252),
        (8, 64, 0.504),
        (16, 32, 0.68),
    ]
)
sizes = st.tuples(
    st.sampled_from([100, 250, 500, 1000, 1500, 2000, 3500]),
    st.sampled_from([64, 256, 512, 1024, 2048, 3500]),
)


def least_cost(some: Sequence[Pod], types: Sequence[InstanceType]) -> float:
    """Return the cost of the cheapest fleet, by trying every way to share nodes."""
    all_pods = (1 << len(some)) - 1
    node = [float("inf")] * (all_pods + 1)
    for group in range(1, all_pods + 1):
        needed = sum_resources(pod.spec.requests for i, pod in enumerate(some) if group >> i & 1)
        fitting = [kind for kind in types if needed.fits_in(kind.allocatable)]
        prices = [offering.price for kind in fitting for offering in kind.offerings]
        node[group] = min(prices, default=float("inf")) + NODE_COST
    best = [0.0] + [float("inf")] * all_pods
    for group in range(1, all_pods + 1):
        part = group
        while part:
            if part & (group & -group):  # The lowest pod is in exactly one part.
                best[group] = min(best[group], node[part] + best[group ^ part])
            part = (part - 1) & group
    return best[all_pods]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    requests=st.lists(sizes, min_size=1, max_size=7),
    types=st.sampled_from([FLEXIBLE, DEFAULT_TYPES, incremental(8)]),
)
def test_a_few_pods_get_the_cheapest_fleet_there_is(
    requests: list[tuple[int, int]], types: tuple[InstanceType, ...]
) -> None:
    some = [a_pod(f"p{i}", cpu=f"{cpu}m", memory=f"{memory}Mi") for i, (cpu, memory) in enumerate(requests)]

    plan = solve(cluster(some, types=types), CHEAPEST)

    assert plan.cost == pytest.approx(least_cost(some, types))


def in_two_zones(cheap: float, expensive: float, **size: Any) -> list[InstanceType]:
    return [
        a_type(
            "t",
            offered=[
                Offering(zone=Z1, capacity_type="spot", price=cheap),
                Offering(zone=Z3, capacity_type="spot", price=expensive),
            ],
            **size,
        )
    ]


def test_an_unconstrained_pod_joins_a_pinned_one_although_its_own_zone_would_be_cheaper() -> None:
    some = [a_pod("free"), a_pod("pinned", node_selector={label_keys.ZONE: Z3})]

    plan = solve(cluster(some, types=in_two_zones(1.0, 1.2)))

    assert plan.price == pytest.approx(1.2)


def test_unconstrained_pods_fill_the_gaps_that_pinned_ones_leave() -> None:
    some = [
        *pods(20, "free", cpu="500m"),
        *pods(20, "pinned", cpu="500m", node_selector={label_keys.ZONE: Z3}),
    ]
    types = in_two_zones(1.0, 1.2, cpu=8, memory="64Gi", pods=100)

    plan = solve(cluster(some, types=types))

    assert plan.price == pytest.approx(1.0 + 2 * 1.2)


def test_an_unconstrained_pod_joins_one_that_requires_on_demand() -> None:
    kind = a_type(
        "t",
        offered=[
            Offering(zone=Z1, capacity_type="spot", price=0.4),
            Offering(zone=Z1, capacity_type="on-demand", price=1.0),
        ],
    )
    some = [a_pod("free"), a_pod("steady", node_selector={label_keys.CAPACITY_TYPE: "on-demand"})]

    plan = solve(cluster(some, types=[kind]))

    assert plan.price == pytest.approx(1.0)


def test_an_unconstrained_pod_joins_one_that_chose_another_pool_of_the_same_weight() -> None:
    some = [a_pod("free"), a_pod("pinned", node_selector={label_keys.NODEPOOL: "a"})]

    plan = solve(cluster(some, [a_pool("a"), a_pool("b")]))

    assert [node.nodepool for node in plan.nodes] == ["a"]


pins = st.sampled_from([{}, {}, {label_keys.ZONE: Z1}, {label_keys.ZONE: Z3}])


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    requests=st.lists(st.tuples(sizes, pins), min_size=1, max_size=8), expensive=st.sampled_from([1.0, 1.3])
)
def test_the_cheapest_fleet_never_costs_more_than_the_one_with_the_fewest_nodes(
    requests: list[tuple[tuple[int, int], dict[str, str]]], expensive: float
) -> None:
    types = [
        *in_two_zones(1.0, expensive, cpu=4, memory="8Gi", pods=20),
        a_type("large", cpu=16, memory="32Gi", pods=50, price=4.1),
    ]
    some = [
        a_pod(f"p{i}", cpu=f"{cpu}m", memory=f"{memory}Mi", node_selector=pin)
        for i, ((cpu, memory), pin) in enumerate(requests)
    ]
    snapshot = cluster(some, types=types)

    cheapest, fewest = solve(snapshot, CHEAPEST), solve(snapshot, FEWEST)

    assert cheapest.cost <= fewest.cost + 1e-9


def test_daemon_sets_are_paid_for_on_every_node() -> None:
    # Two small nodes would be cheaper, did the daemon not run on both.
    types = [
        a_type("little", cpu="1.1", memory="2Gi", price=1.0),
        a_type("large", cpu="2.6", memory="4Gi", price=2.1),
    ]
    some = pods(2, cpu="700m")

    without = solve(cluster(some, types=types))
    beside = solve(cluster(some, types=types, daemon_sets=[a_daemon_set("agent", cpu="400m")]))

    assert [node.instance_type.name for node in without.nodes] == ["little", "little"]
    assert [node.instance_type.name for node in beside.nodes] == ["large"]


def test_a_heavier_pool_is_used_although_it_is_more_expensive() -> None:
    plan = solve(
        cluster(
            [a_pod("p")],
            [a_pool("heavy", weight=5), a_pool("light")],
            {"heavy": [a_type("expensive", price=50.0)], "light": [a_type("cheap", price=0.1)]},
        )
    )

    assert new_node_of(plan, "p").nodepool == "heavy"


def test_pools_of_equal_weight_compete_on_price() -> None:
    # Upstream takes the last by name, whatever it costs.
    snapshot = cluster(
        pods(3, cpu="1.5"),
        [a_pool("a"), a_pool("b")],
        {"a": [a_type("cheap", price=0.1)], "b": [a_type("expensive", price=50.0)]},
    )

    assert {node.nodepool for node in solve(snapshot).nodes} == {"a"}
    assert {node.nodepool for node in solve(snapshot, FEWEST).nodes} == {"b"}
