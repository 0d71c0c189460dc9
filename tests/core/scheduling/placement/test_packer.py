"""Packing of pods on nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import sum_resources
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import DEFAULT_TYPES, Z1, Z2, incremental
from tests.support.scheduling.plans import new_node_of, node_of, pods_per_node, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
FEWEST = SchedulingSettings(packing=Packing.FEWEST)
AMD = {label_keys.ARCH: "amd64"}


# --- S21 to S25 -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("memory", ["100M", "2000M"])
def test_s21_one_pod_gets_the_smallest_type_that_holds_it(memory: str, packing: Packing) -> None:
    plan = solve(cluster([a_pod("p", memory=memory)]), SchedulingSettings(packing=packing))

    assert type_names(plan) == ["small"]


@BOTH
def test_s21_five_small_pods_share_one_small_node(packing: Packing) -> None:
    plan = solve(cluster(pods(5, memory="10M")), SchedulingSettings(packing=packing))

    assert type_names(plan) == ["small"]
    assert pods_per_node(plan) == [5]


def test_s22_forty_pods_two_to_a_node_and_twenty_more_fill_the_gaps() -> None:
    large = pods(40, "large", memory="1.8G", node_selector=AMD)
    filling = pods(20, "filling", memory="400M", node_selector=AMD)

    alone = solve(cluster(large), FEWEST)
    together = solve(cluster([*large, *filling]), FEWEST)

    assert type_names(alone) == ["default"] * 20
    assert type_names(together) == ["default"] * 20
    assert unplaced(together) == []


def test_s22_the_cheapest_fleet_costs_no_more_than_the_tightest() -> None:
    snapshot = cluster(
        [
            *pods(40, "large", memory="1.8G", node_selector=AMD),
            *pods(20, "filling", memory="400M", node_selector=AMD),
        ]
    )

    assert solve(snapshot).price <= solve(snapshot, FEWEST).price + 1e-9


@BOTH
def test_s23_the_pod_count_of_a_type_is_kept(packing: Packing) -> None:
    plan = solve(cluster(pods(25, cpu="1m", memory="1M")), SchedulingSettings(packing=packing))

    assert type_names(plan) == ["small"] * 5
    assert pods_per_node(plan) == [5] * 5


@BOTH
def test_s24_a_large_and_a_small_pod_that_do_not_fit_together_get_their_own_types(packing: Packing) -> None:
    snapshot = cluster([a_pod("large", cpu="4.5"), a_pod("little", cpu="1")], types=incremental(5))

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert new_node_of(plan, "large").instance_type.name == "fake-it-4"
    assert new_node_of(plan, "little").instance_type.name == "fake-it-1"


@BOTH
def test_s25_a_type_for_one_pod_takes_one_pod(packing: Packing) -> None:
    pool = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "In", ["single-pod"])])

    plan = solve(cluster(pods(3), [pool]), SchedulingSettings(packing=packing))

    assert type_names(plan) == ["single-pod"] * 3
    assert pods_per_node(plan) == [1, 1, 1]


# --- S26 --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("key", "first", "second"),
    [
        (label_keys.ARCH, "amd64", "arm64"),
        (label_keys.OS, "linux", "windows"),
        (label_keys.INSTANCE_TYPE, "small", "default"),
        (label_keys.ZONE, Z1, Z2),
        (label_keys.CAPACITY_TYPE, "spot", "on-demand"),
    ],
)
def test_s26_pods_that_require_different_nodes_get_different_nodes(
    key: str, first: str, second: str, packing: Packing
) -> None:
    snapshot = cluster([a_pod("a", node_selector={key: first}), a_pod("b", node_selector={key: second})])

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert unplaced(plan) == []
    assert node_of(plan, "a") != node_of(plan, "b")


# --- S29 --------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(100, 1200), min_size=3, max_size=3))
def test_s29_three_pods_that_fit_one_node_land_on_one_node(millicores: list[int]) -> None:
    types = [kind for kind in DEFAULT_TYPES if kind.name in ("small", "default")]
    snapshot = cluster([a_pod(f"p{i}", cpu=f"{m}m") for i, m in enumerate(millicores)], types=types)

    plan = solve(snapshot, FEWEST)

    assert len(plan.nodes) == 1


@BOTH
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(sizes=st.lists(st.integers(100, 9000), min_size=1, max_size=12))
def test_s29_every_type_listed_holds_what_was_put_on_the_node(sizes: list[int], packing: Packing) -> None:
    types = incremental(10)
    before = [(kind.capacity.to_quantities(), kind.overhead.to_quantities()) for kind in types]
    snapshot = cluster([a_pod(f"p{i}", cpu=f"{m}m") for i, m in enumerate(sizes)], types=types)

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert unplaced(plan) == []
    for node in plan.nodes:
        needed = sum_resources(pod.spec.requests for pod in node.pods)
        assert node.requested == needed
        assert all(needed.fits_in(kind.allocatable) for kind in node.instance_types)
    assert [(kind.capacity.to_quantities(), kind.overhead.to_quantities()) for kind in types] == before


# --- Choices of ours --------------------------------------------------------------------------


@BOTH
def test_the_same_snapshot_gives_the_same_plan_in_any_order_of_its_parts(packing: Packing) -> None:
    some = [a_pod(f"p{i:02}", cpu=f"{100 + 90 * (i % 7)}m") for i in range(30)]
    pools = [a_pool("a"), a_pool("b", weight=3), a_pool("c")]

    def outcome(reverse: bool) -> list[tuple[str, str, list[str]]]:
        step = -1 if reverse else 1
        snapshot = cluster(some[::step], pools[::step], DEFAULT_TYPES[::step])
        plan = solve(snapshot, SchedulingSettings(packing=packing))
        return [
            (node.name, node.instance_type.name, sorted(pod.name for pod in node.pods)) for node in plan.nodes
        ]

    assert outcome(False) == outcome(True)


def test_a_cluster_without_pods_gets_an_empty_plan() -> None:
    plan = solve(cluster([]))

    assert (plan.nodes, plan.existing, plan.unschedulable) == ((), (), ())
    assert plan.price == 0


@BOTH
def test_every_pod_is_placed_or_unschedulable_exactly_once(packing: Packing) -> None:
    some = [*pods(50, "fits", cpu="700m"), *pods(3, "too-large", cpu="100")]

    plan = solve(cluster(some), SchedulingSettings(packing=packing))

    answered = [pod.key for node in plan.nodes for pod in node.pods]
    answered += [entry.pod.key for entry in plan.unschedulable]
    assert sorted(answered) == sorted(pod.key for pod in some)
