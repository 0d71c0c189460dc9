"""Properties of every fleet, whatever the pods and types."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.scheduling.fleet import Bundle, Demand, cheapest_fleet
from dovetail.core.scheduling.fleet.lp_relaxation import FluidProgram
from dovetail.core.scheduling.fleet.problem import compile_demand

GI = 2**30


@st.composite
def demands(draw: st.DrawFn, *, classes: int, most_pods: int, types: int, capped: bool = True) -> Demand:
    """Generate pods and types with awkward sizes; the largest type holds any pod."""
    class_count = draw(st.integers(1, classes))
    cores = draw(st.lists(st.integers(50, 8000), min_size=class_count, max_size=class_count))
    memory = draw(st.lists(st.integers(1, 64 * GI), min_size=class_count, max_size=class_count))
    counts = draw(st.lists(st.integers(0, most_pods), min_size=class_count, max_size=class_count))
    device_counts = st.sampled_from((0, 0, 0, 0, 1, 2))
    devices = draw(st.lists(device_counts, min_size=class_count, max_size=class_count))
    sizes = np.array([cores, memory, [1] * class_count, devices], dtype=np.float64).T
    type_rows = draw(
        st.lists(
            st.tuples(
                st.integers(100, 64_000),
                st.integers(GI, 256 * GI),
                st.integers(1, 250),
                st.sampled_from((0, 0, 1, 8)),
                st.integers(1, 5000),
            ),
            min_size=0,
            max_size=types - 1,
        )
    )
    large = draw(st.integers(1, 4))
    type_rows.append((8000 * large, 64 * GI * large, 58, 2, 3000))
    alloc = np.array([row[:-1] for row in type_rows], dtype=np.float64)
    price = np.array([row[-1] for row in type_rows]) / 1000
    caps = None
    if capped and draw(st.booleans()):
        caps = np.array(draw(st.lists(st.integers(1, 5), min_size=class_count, max_size=class_count)))
    return Demand(sizes, np.array(counts), alloc, price, caps, effort=4)


@st.composite
def divided_demands(draw: st.DrawFn) -> Demand:
    """Generate many types, each for a few classes only.

    Most classes have a maximum per node. An extra resource per class says which types
    it may use.
    """
    class_count = draw(st.integers(2, 24))
    type_count = draw(st.integers(max(17, class_count), 32))
    one_per_class = st.lists(st.integers(100, 4000), min_size=class_count, max_size=class_count)
    cores, counts = draw(one_per_class), draw(one_per_class)
    admitted = np.zeros((type_count, class_count))
    for t in range(type_count):
        admitted[t, t % class_count] = 1 << 40
    for k in draw(st.lists(st.integers(0, class_count - 1), max_size=3)):
        admitted[draw(st.integers(0, type_count - 1)), k] = 1 << 40
    requests = np.array([cores, [2 * GI] * class_count, [1] * class_count], dtype=np.float64).T
    room = np.tile([draw(st.sampled_from((4000, 16_000))), 64 * GI, 100], (type_count, 1))
    price = draw(st.lists(st.integers(300, 700), min_size=type_count, max_size=type_count))
    caps = draw(st.lists(st.sampled_from((1, 1, 1, 2, 100)), min_size=class_count, max_size=class_count))
    return Demand(
        np.hstack([requests, np.eye(class_count)]),
        np.array(counts) // 10,
        np.hstack([room, admitted]),
        np.array(price) / 1000,
        np.array(caps),
        effort=4,
    )


class ProgramOfAllTypes(FluidProgram):
    """Has all instance types from the beginning."""

    def _cheapest_for_each_class(self, price: np.ndarray) -> np.ndarray:
        return np.arange(len(price))


def cost(demand: Demand, fleet: list[Bundle]) -> float:
    return float(sum(demand.price[bundle.type_index] * bundle.copies for bundle in fleet))


def assert_complete(demand: Demand, fleet: list[Bundle]) -> None:
    """Assert that every pod is placed once, on nodes that hold their pods."""
    housed = np.zeros(len(demand.counts), dtype=np.int64)
    for bundle in fleet:
        assert bundle.copies >= 1
        assert bundle.counts.any()
        assert (bundle.counts >= 0).all()
        assert (bundle.counts @ demand.sizes <= demand.alloc[bundle.type_index]).all()
        if demand.max_per_node is not None:
            assert (bundle.counts <= demand.max_per_node).all()
        housed += bundle.counts * bundle.copies
    assert (housed == demand.counts).all()


def per_class_fill(demand: Demand) -> float:
    """Return the cost of separate nodes of the best type for each class."""
    total = 0.0
    caps = demand.max_per_node if demand.max_per_node is not None else demand.counts
    for size, count, cap in zip(demand.sizes, demand.counts, caps, strict=True):
        requested = size > 0
        held = np.floor((demand.alloc[:, requested] / size[requested]).min(axis=1))
        held = np.minimum(held, min(cap, max(count, 1)))
        nodes = np.where(held >= 1, np.ceil(count / np.maximum(held, 1)), np.inf)
        total += float((nodes * demand.price).min()) if count else 0.0
    return total


def brute_force(demand: Demand) -> float:
    """Return the lowest price over all ways to split the pods into nodes."""
    single = list(itertools.chain.from_iterable([k] * n for k, n in enumerate(demand.counts)))
    caps = demand.max_per_node

    def node(group: tuple[int, ...]) -> float:
        counts = np.bincount(group, minlength=len(demand.counts))
        if caps is not None and (counts > caps).any():
            return np.inf
        fits = (counts @ demand.sizes <= demand.alloc).all(axis=1)
        return float(np.where(fits, demand.price, np.inf).min())

    def best(waiting: tuple[int, ...]) -> float:
        if not waiting:
            return 0.0
        first, rest = waiting[0], waiting[1:]
        least = np.inf
        for size in range(len(rest) + 1):
            for chosen in itertools.combinations(range(len(rest)), size):
                price = node((first, *(rest[i] for i in chosen)))
                if price < least:
                    others = tuple(p for i, p in enumerate(rest) if i not in chosen)
                    least = min(least, price + best(others))
        return least

    return best(tuple(single))


@settings(deadline=None, max_examples=60)
@given(demands(classes=12, most_pods=60, types=8))
def test_every_pod_is_placed_once_on_nodes_that_hold_their_pods(demand: Demand) -> None:
    fleet = cheapest_fleet(demand)

    assert_complete(demand, fleet)


@settings(deadline=None, max_examples=40)
@given(divided_demands())
def test_every_pod_is_placed_when_rules_divide_more_types_than_the_search_prefers(demand: Demand) -> None:
    fleet = cheapest_fleet(demand)

    assert_complete(demand, fleet)


@settings(deadline=None, max_examples=20)
@given(demands(classes=10, most_pods=40, types=8))
def test_the_same_demand_gives_the_same_fleet(demand: Demand) -> None:
    once, again = cheapest_fleet(demand), cheapest_fleet(demand)

    assert [(b.type_index, b.counts.tolist(), b.copies) for b in once] == [
        (b.type_index, b.counts.tolist(), b.copies) for b in again
    ]


@settings(deadline=None, max_examples=60)
@given(demands(classes=10, most_pods=60, types=8))
def test_a_fleet_costs_no_more_than_nodes_apart_for_each_class(demand: Demand) -> None:
    fleet = cheapest_fleet(demand)

    assert cost(demand, fleet) <= per_class_fill(demand) + 1e-6


@settings(deadline=None, max_examples=60)
@given(demands(classes=4, most_pods=2, types=5))
def test_a_few_pods_cost_hardly_more_than_the_best_of_all_fleets(demand: Demand) -> None:
    fleet = cheapest_fleet(demand)

    assert cost(demand, fleet) <= brute_force(demand) * 1.05 + 1e-9


@settings(deadline=None, max_examples=40)
@given(demands(classes=10, most_pods=60, types=8))
def test_no_fleet_is_cheaper_than_the_fluid_bound(demand: Demand) -> None:
    fleet = cheapest_fleet(demand)

    if fleet:
        problem, _ = compile_demand(demand)
        assert cost(demand, fleet) >= FluidProgram(problem).solve(problem.price).bound * (1 - 1e-6)


@settings(deadline=None, max_examples=60)
@given(demands(classes=10, most_pods=60, types=24) | divided_demands(), st.integers(1, 3000))
def test_types_added_on_demand_give_the_same_bound_as_all_types(demand: Demand, thousandths: int) -> None:
    if not demand.counts.any():
        return
    problem, _ = compile_demand(demand)
    prices = (problem.price, problem.price + thousandths / 1000)

    program = FluidProgram(problem)
    bounds = [program.solve(price).bound for price in prices]

    expected = [ProgramOfAllTypes(problem).solve(price).bound for price in prices]
    assert bounds == pytest.approx(expected, rel=1e-6)
