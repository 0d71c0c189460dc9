"""The lower bound of the benchmark: no fleet, not even the best, costs less."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.bound import CONFIGURATION, FLUID, FleetDemand, fluid_bound, lower_bound
from dovetail.core.scheduling.fleet import Demand, cheapest_fleet

GI = 2**30


def best_price(work: FleetDemand) -> float:
    """Return the exact optimum for the few pods of these tests."""
    demand = Demand(work.sizes, work.counts.astype(np.int64), work.alloc, work.price)
    return float(sum(work.price[bundle.type_index] * bundle.copies for bundle in cheapest_fleet(demand)))


@settings(deadline=None, max_examples=30)
@given(
    cores=st.lists(st.integers(50, 8000), min_size=1, max_size=4),
    memory=st.lists(st.integers(1, 64), min_size=4, max_size=4),
    counts=st.lists(st.integers(1, 2), min_size=4, max_size=4),
    price=st.lists(st.integers(10, 3000), min_size=3, max_size=3),
    rounds=st.integers(0, 3),
)
def test_the_best_fleet_of_all_does_not_undercut_the_bound(
    cores: list[int], memory: list[int], counts: list[int], price: list[int], rounds: int
) -> None:
    kinds = len(cores)
    sizes = np.array([[c, m * GI, 1] for c, m in zip(cores, memory, strict=False)], dtype=float)
    alloc = np.array([[8000, 64 * GI, 10], [16000, 64 * GI, 58], [32000, 256 * GI, 110]])
    work = FleetDemand(sizes, np.array(counts[:kinds], dtype=float), alloc, np.array(price) / 1000)

    bound = lower_bound(work, rounds)

    assert bound.price <= best_price(work) * (1 + 1e-6)
    assert bound.price >= fluid_bound(work)[0] * (1 - 1e-6)


def test_pods_that_cannot_share_a_node_raise_the_bound_above_the_fluid_one() -> None:
    sizes = np.array([[5000, GI, 1], [4500, 2 * GI, 1]], dtype=float)
    work = FleetDemand(sizes, np.array([10.0, 10.0]), np.array([[8000.0, 32 * GI, 50]]), np.array([0.4]))

    bound = lower_bound(work, rounds=5)

    assert bound.kind == CONFIGURATION
    assert bound.price > 0.9 * 20 * 0.4
    assert fluid_bound(work)[0] < 0.7 * 20 * 0.4


def test_pods_that_fill_nodes_without_a_gap_are_bounded_by_the_fluid_relaxation() -> None:
    sizes = np.array([[1000, 4 * GI, 1]], dtype=float)
    work = FleetDemand(sizes, np.array([80.0]), np.array([[8000.0, 32 * GI, 50]]), np.array([0.4]))

    bound = lower_bound(work, rounds=3)

    assert bound.kind == FLUID
    assert abs(bound.price - 4.0) < 1e-6
