"""Node costs in plans, and the preference for fewer nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.scheduling.plan_cost import is_better
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import NO_RESOURCES
from dovetail.model.plan import Plan
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import a_type
from tests.support.scheduling.solver import solved

SMALL = a_type("small", cpu=2, memory="4Gi", pods=10, price=0.1)
LARGE = a_type("large", cpu=4, memory="8Gi", pods=20, price=0.204)
TWICE = a_type("twice", cpu=4, memory="8Gi", pods=20, price=0.22)


def with_node_cost(pool: NodePool, usd: str) -> NodePool:
    return replace(pool, annotations=FrozenDict({label_keys.NODE_COST_ANNOTATION: usd}))


def costing(instance_type: InstanceType, node_cost: float) -> InstanceType:
    return replace(instance_type, node_cost=node_cost)


def names(plan: Plan) -> list[str]:
    return sorted(node.instance_type.name for node in plan.nodes)


# --- Node costs -----------------------------------------------------------------------------


def test_nodes_cost_what_their_node_class_says() -> None:
    plan = solved(cluster([a_pod("a")], types=[costing(SMALL, 0.004)]))

    assert (plan.price, plan.node_cost, plan.cost) == pytest.approx((0.1, 0.004, 0.104))


def test_setting_replaces_the_node_cost_of_the_node_class() -> None:
    plan = solved(cluster([a_pod("a")], types=[costing(SMALL, 0.004)]), node_cost=0.02)

    assert plan.node_cost == pytest.approx(0.02)


def test_annotation_of_the_nodepool_replaces_the_setting() -> None:
    pool = with_node_cost(a_pool(), "0.03")

    plan = solved(cluster([a_pod("a")], [pool], [costing(SMALL, 0.004)]), node_cost=0.02)

    assert plan.node_cost == pytest.approx(0.03)


@pytest.mark.parametrize("text", ["", "many", "-1", "nan", "inf", "25"])
def test_invalid_annotation_counts_as_none(text: str) -> None:
    assert with_node_cost(a_pool(), text).node_cost is None


def test_high_node_cost_leads_to_fewer_and_larger_nodes() -> None:
    snapshot = cluster(pods(20, "a", cpu="900m", memory="100Mi"), types=[SMALL, TWICE])

    cheap = solved(snapshot, node_cost=0.0, fewer_nodes_tolerance=0.0)
    expensive = solved(snapshot, node_cost=0.05, fewer_nodes_tolerance=0.0)

    assert set(names(cheap)) == {"small"}
    assert set(names(expensive)) == {"twice"}


def test_pods_go_to_the_nodepool_whose_instance_and_node_cost_least_together() -> None:
    pools = [with_node_cost(a_pool("a"), "0.2"), with_node_cost(a_pool("b"), "0.01")]

    plan = solved(cluster(pods(3, "a"), pools, [SMALL]))

    assert {node.nodepool for node in plan.nodes} == {"b"}


# --- Fewer nodes ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, 1000])
def test_half_the_nodes_are_worth_two_percent(count: int) -> None:
    snapshot = cluster(pods(count, "a", cpu="900m", memory="100Mi"), types=[SMALL, LARGE])

    assert set(names(solved(snapshot))) == {"large"}
    assert set(names(solved(snapshot, fewer_nodes_tolerance=0.0))) == {"small"}


def test_half_the_nodes_are_not_worth_more_than_the_tolerance() -> None:
    snapshot = cluster(pods(4, "a", cpu="900m", memory="100Mi"), types=[SMALL, TWICE])

    assert names(solved(snapshot)) == ["small", "small"]
    assert names(solved(snapshot, fewer_nodes_tolerance=0.12)) == ["twice"]


def test_many_different_pods_get_fewer_nodes_within_the_tolerance() -> None:
    some = [
        pod
        for i in range(6)
        for pod in pods(60, f"c{i}", cpu=f"{300 + 97 * i}m", memory=f"{300 + 211 * (5 - i)}Mi")
    ]
    types = [
        a_type(
            f"x{cpu}",
            cpu=cpu,
            memory=f"{2 * cpu}Gi",
            pods=100,
            price=0.05 * cpu * more,
            overhead=NO_RESOURCES,
        )
        for cpu, more in [(8, 1.0), (16, 1.01), (32, 1.015)]
    ]
    snapshot = cluster(some, types=types)

    fewer, cheapest = solved(snapshot), solved(snapshot, fewer_nodes_tolerance=0.0)

    assert len(fewer.nodes) <= len(cheapest.nodes) / 2
    assert fewer.cost <= cheapest.cost * 1.02


plans = st.tuples(st.floats(0.01, 100.0), st.integers(1, 50))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(plans, plans, st.floats(0.0, 0.5))
def test_of_two_plans_at_most_one_is_better(
    first: tuple[float, int], second: tuple[float, int], tolerance: float
) -> None:
    assert not (is_better(*first, *second, tolerance) and is_better(*second, *first, tolerance))


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([200, 450, 900, 1700]), st.sampled_from([100, 700, 1500])),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.02, 0.1]),
)
def test_preferred_plan_costs_at_most_the_tolerance_more_and_has_no_more_nodes(
    requests: list[tuple[int, int]], tolerance: float
) -> None:
    some = [a_pod(f"p{i}", cpu=f"{cpu}m", memory=f"{memory}Mi") for i, (cpu, memory) in enumerate(requests)]
    snapshot = cluster(some, types=[SMALL, LARGE, TWICE])

    preferred = solved(snapshot, fewer_nodes_tolerance=tolerance)
    cheapest = solved(snapshot, fewer_nodes_tolerance=0.0)

    assert preferred.cost <= cheapest.cost * (1 + tolerance) + 1e-9
    assert len(preferred.nodes) <= len(cheapest.nodes)
