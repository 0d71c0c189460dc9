"""Fleets of cheapest_fleet for catalogs small enough to check by hand."""

import numpy as np
import pytest

from dovetail.core.scheduling.fleet import Bundle, Demand, cheapest_fleet
from dovetail.core.scheduling.fleet.column_generation import ColumnGeneration
from dovetail.core.scheduling.fleet.lp_relaxation import FluidProgram
from dovetail.core.scheduling.fleet.problem import compile_demand
from dovetail.core.scheduling.fleet.rounding import (
    Fleet,
    FleetSearchError,
    add_remaining_nodes,
    add_whole_nodes,
)
from dovetail.core.scheduling.fleet.search import repack_poor_nodes

GI = 2**30


def pods(*classes: tuple[int, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return classes given as (count, cores, GiB)."""
    sizes = [[cores * 1000, memory * GI, 1] for _, cores, memory in classes]
    return np.array(sizes, dtype=np.float64), np.array([count for count, _, _ in classes])


def type_arrays(*types: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return types given as (cores, GiB, USD per hour); each takes 100 pods."""
    alloc = [[cores * 1000, memory * GI, 100] for cores, memory, _ in types]
    return np.array(alloc, dtype=np.float64), np.array([price for _, _, price in types])


def nodes_per_type(fleet: list[Bundle]) -> dict[int, int]:
    """Return type → number of nodes."""
    nodes: dict[int, int] = {}
    for bundle in fleet:
        nodes[bundle.type_index] = nodes.get(bundle.type_index, 0) + bundle.copies
    return nodes


def test_no_pods_need_no_nodes() -> None:
    sizes, _ = pods((1, 1, 1))
    alloc, price = type_arrays((4, 16, 0.2))

    fleet = cheapest_fleet(Demand(sizes, np.array([0]), alloc, price))

    assert fleet == []


def test_a_class_that_fits_on_no_type_raises_with_its_index() -> None:
    sizes, counts = pods((1, 1, 1), (1, 9, 1))
    alloc, price = type_arrays((4, 16, 0.2))

    with pytest.raises(ValueError, match="class 1 fits on no type"):
        cheapest_fleet(Demand(sizes, counts, alloc, price))


def test_a_class_with_a_maximum_of_zero_per_node_raises() -> None:
    sizes, counts = pods((1, 1, 1))
    alloc, price = type_arrays((4, 16, 0.2))

    with pytest.raises(ValueError, match="class 0"):
        cheapest_fleet(Demand(sizes, counts, alloc, price, max_per_node=np.array([0])))


def test_one_pod_gets_the_cheapest_type_that_holds_it() -> None:
    sizes, counts = pods((1, 2, 4))
    alloc, price = type_arrays((1, 4, 0.05), (2, 4, 0.1), (4, 16, 0.2))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {1: 1}


def test_pods_that_fill_a_node_exactly_share_it() -> None:
    sizes, counts = pods((4, 1, 4))
    alloc, price = type_arrays((4, 16, 0.2))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {0: 1}


def test_one_byte_too_much_needs_a_second_node() -> None:
    sizes, counts = pods((4, 1, 4))
    alloc, price = type_arrays((4, 16, 0.2))
    sizes[0, 1] += 1

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {0: 2}


def test_pods_of_opposite_shape_are_put_together_when_that_is_cheaper() -> None:
    sizes, counts = pods((40, 3, 2), (40, 1, 14))
    alloc, price = type_arrays((4, 16, 0.2), (4, 32, 0.35), (8, 16, 0.35))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {0: 40}


def test_identical_pods_end_on_a_small_node_rather_than_a_large_empty_one() -> None:
    sizes, counts = pods((21, 1, 1))
    alloc, price = type_arrays((20, 80, 1.0), (1, 4, 0.06))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {0: 1, 1: 1}


def test_of_two_fleets_at_one_price_the_one_with_fewer_nodes_is_chosen() -> None:
    sizes, counts = pods((2, 1, 1))
    alloc, price = type_arrays((1, 2, 0.125), (2, 4, 0.25))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {1: 1}


def test_of_two_equal_types_the_first_is_used() -> None:
    sizes, counts = pods((3, 1, 1), (2, 1, 2))
    alloc, price = type_arrays((8, 32, 0.4), (8, 32, 0.4))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {0: 1}


def test_a_type_far_larger_than_the_demand_is_not_used_at_the_same_price() -> None:
    sizes, counts = pods((3, 1, 1), (2, 1, 2))
    alloc, price = type_arrays((96, 384, 0.4), (8, 32, 0.4))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {1: 1}


def test_a_cap_of_one_puts_every_pod_of_the_class_on_a_node_of_its_own() -> None:
    sizes, counts = pods((30, 0.5, 1), (300, 0.1, 0.2))
    alloc, price = type_arrays((2, 8, 0.1), (8, 32, 0.4), (32, 128, 1.6))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price, max_per_node=np.array([1, 1_000_000])))

    assert sum(bundle.copies for bundle in fleet if bundle.counts[0] == 1) == 30
    assert all(bundle.counts[0] <= 1 for bundle in fleet)
    assert nodes_per_type(fleet) == {0: 30}


def test_classes_that_need_rare_hardware_share_the_nodes_that_have_it() -> None:
    sizes = np.array([[1000, GI, 1, 1], [500, GI, 1, 0]], dtype=np.float64)
    alloc = np.array([[8000, 32 * GI, 50, 0], [32000, 128 * GI, 50, 4]], dtype=np.float64)
    price = np.array([0.4, 12.0])

    fleet = cheapest_fleet(Demand(sizes, np.array([8, 20]), alloc, price))

    assert nodes_per_type(fleet) == {1: 2}


def test_many_classes_with_and_without_rare_hardware_find_a_fleet() -> None:
    cores = np.array([500, 1000, 2000, 250, 4000, 1500])
    gpus = np.array([1, 0, 2, 0, 4, 0])
    sizes = np.column_stack([cores, cores * 4 * 2**20, np.ones(6), gpus]).astype(np.float64)
    alloc = np.array(
        [
            [8000, 32 * GI, 50, 0],
            [16000, 64 * GI, 110, 0],
            [32000, 128 * GI, 200, 4],
            [8000, 32 * GI, 50, 1],
            [100, -GI, 3, 0],
        ],
        dtype=np.float64,
    )
    price = np.array([0.4, 0.8, 4.0, 1.1, 0.01])
    counts = np.array([40, 300, 30, 700, 12, 200])

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    gpu_nodes = nodes_per_type(fleet)
    assert (sum(bundle.counts * bundle.copies for bundle in fleet) == counts).all()
    assert gpu_nodes.get(2, 0) * 4 + gpu_nodes.get(3, 0) >= (gpus * counts).sum()
    assert sum(price[kind] * nodes for kind, nodes in gpu_nodes.items()) < 180


def test_pods_without_requests_count_as_pods_only() -> None:
    sizes = np.array([[0, 0, 1], [100, GI, 1]], dtype=np.float64)
    alloc, price = type_arrays((4, 16, 0.2))

    fleet = cheapest_fleet(Demand(sizes, np.array([150, 10]), alloc, price))

    assert nodes_per_type(fleet) == {0: 2}


def test_types_without_a_price_are_never_used() -> None:
    sizes, counts = pods((3, 1, 1))
    alloc, price = type_arrays((4, 16, np.inf), (4, 16, 0.3))

    fleet = cheapest_fleet(Demand(sizes, counts, alloc, price))

    assert nodes_per_type(fleet) == {1: 1}


def classes_with_types_of_their_own(number: int) -> Demand:
    """Return classes with one pod per node, each with a single type that admits it."""
    sizes = np.hstack([np.tile([1000, 2 * GI, 1], (number, 1)), np.eye(number)])
    alloc = np.hstack([np.tile([16_000, 64 * GI, 100], (number, 1)), np.eye(number) * (1 << 40)])
    counts = np.arange(200, 200 + number)
    caps = np.ones(number, dtype=np.int64)
    return Demand(sizes, counts, alloc, np.linspace(0.5, 0.6, number), max_per_node=caps)


def test_more_types_than_the_search_prefers_all_get_the_pods_that_only_they_hold() -> None:
    demand = classes_with_types_of_their_own(20)

    fleet = cheapest_fleet(demand)

    assert nodes_per_type(fleet) == {k: 200 + k for k in range(20)}


def test_a_round_that_adds_no_node_raises_instead_of_repeating() -> None:
    problem, _ = compile_demand(classes_with_types_of_their_own(20))
    mix = ColumnGeneration(problem, FluidProgram(problem).solve(problem.price)).run(4)
    fleet = Fleet(problem, np.full(20, 0.75))  # Less than a pod of each class: no node can take one.

    with pytest.raises(FleetSearchError, match="no instance type takes any of 15 pods"):
        add_remaining_nodes(fleet, mix)


def test_nodes_that_rounding_leaves_half_empty_are_packed_again() -> None:
    sizes, counts = pods((30, 1, 2), (30, 2, 2))
    alloc, price = type_arrays((1, 2, 0.05), (2, 4, 0.07), (16, 24, 0.5))
    problem, _ = compile_demand(Demand(sizes, counts, alloc, price))
    mix = ColumnGeneration(problem, FluidProgram(problem).solve(problem.price)).run(4)
    fleet = Fleet(problem, problem.counts)
    # Two of the smallest nodes, although one of the next size holds both pods.
    smallest = int(problem.price.argmin())
    fleet.add_nodes(smallest, np.array([1.0, 0.0]), 2)
    add_whole_nodes(fleet, mix)
    add_remaining_nodes(fleet, mix)

    repacked = repack_poor_nodes(fleet, mix.values)

    assert repacked.cost < fleet.cost
    nodes = list(zip(repacked.types, repacked.counts, repacked.copies, strict=True))
    assert not any(kind == smallest and copies > 1 for kind, _, copies in nodes)
    assert sum(held * copies for _, held, copies in nodes).tolist() == problem.counts.tolist()
