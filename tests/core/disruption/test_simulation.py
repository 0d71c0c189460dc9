"""Scheduling simulation of the pods of removed nodes."""

import os
from typing import Any

from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.estimate import Estimator
from dovetail.core.disruption.simulation import SchedulingSimulation, SimulationOutcome
from dovetail.core.scheduling.problem import initialized_first
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, Resources
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import (
    a_pool_node,
    as_plan,
    candidates_of,
    context_of,
    leaving,
    plain,
    running_clusters,
    some_of,
)
from tests.support.scheduling.builders import a_node, a_pod, a_pool, affinity, cluster, pods, zone_spread
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.instance_types import ON_DEMAND, Z1, Z2, incremental

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
many = settings(
    max_examples=LONG or 40,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def attack(test: Any) -> Any:
    """Try the same clusters each time, whatever the test is called; others with DOVETAIL_ATTACK."""
    return many(test if LONG else seed(1)(test))


TYPES = incremental(8)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])


def a_cluster(*nodes: Any, **more: Any) -> ClusterSnapshot:
    return cluster(more.pop("pending_pods", ()), [more.pop("pool", POOL)], TYPES, nodes=nodes, **more)


def simulate_without(
    snapshot: ClusterSnapshot, *names: str, excluded: tuple[str, ...] = ()
) -> SimulationOutcome:
    return SchedulingSimulation(context_of(snapshot, excluded)).simulate_removal(names)


def names_of(snapshot: ClusterSnapshot) -> list[str]:
    return [candidate.node.name for candidate in candidates_of(snapshot)]


def summarize(outcome: SimulationOutcome | Plan) -> object:
    nodes = outcome.nodes if isinstance(outcome, Plan) else outcome.new_nodes
    price = round(sum(node.price for node in nodes), 9)
    return sorted(pod.pod.key for pod in outcome.unschedulable), len(nodes), price


# --- Laws ------------------------------------------------------------------------------------


@attack
@given(running_clusters(), st.data())
def test_every_outcome_is_a_plan_that_kube_scheduler_could_carry_out(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    assume(names_of(snapshot))
    removed = data.draw(some_of(names_of(snapshot)))

    outcome = simulate_without(snapshot, *removed)

    assert [str(violation) for violation in check(leaving(snapshot, removed), as_plan(outcome))] == []


@attack
@given(running_clusters(), st.data())
def test_simulation_does_not_affect_later_simulations(snapshot: ClusterSnapshot, data: st.DataObject) -> None:
    assume(names_of(snapshot))
    names, other = data.draw(some_of(names_of(snapshot))), data.draw(some_of(names_of(snapshot)))
    simulation = SchedulingSimulation(context_of(snapshot))

    first = simulation.simulate_removal(names)
    simulation.simulate_removal(other)

    assert simulation.simulate_removal(names) == first


@attack
@given(running_clusters(), st.data())
def test_outcome_for_simple_pods_equals_the_solver_plan(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    snapshot = plain(snapshot)
    assume(names_of(snapshot))
    removed = data.draw(some_of(names_of(snapshot)))
    chosen = SchedulingSettings(packing=Packing.FEWEST)
    simulation = SchedulingSimulation(context_of(snapshot), chosen, node_order=initialized_first)

    outcome = simulation.simulate([simulation.node_indexes[name] for name in removed], fewest_nodes=True)

    plan = solve(leaving(snapshot, removed), chosen)
    assert summarize(outcome) == summarize(plan)


@attack
@given(running_clusters(), st.data())
def test_exact_estimate_equals_the_simulation(snapshot: ClusterSnapshot, data: st.DataObject) -> None:
    snapshot = plain(snapshot)
    assume(names_of(snapshot))
    simulation = SchedulingSimulation(context_of(snapshot))
    estimator = Estimator(simulation)
    removed = [simulation.node_indexes[name] for name in data.draw(some_of(names_of(snapshot)))]
    assume(estimator.is_exact(removed) and not simulation.has_surplus_prices)

    estimate, outcome = estimator.estimate(removed), simulation.simulate(removed, fewest_nodes=True)

    assert (estimate.uninitialized_node >= 0) == bool(outcome.uninitialized_node)
    if not outcome.uninitialized_node:
        assert (estimate.price == 0) == (outcome.is_schedulable and not outcome.new_nodes)
        assert (estimate.unplaceable_shape >= 0) == bool(outcome.unschedulable)
        if outcome.is_schedulable and len(outcome.new_nodes) == 1:
            assert abs(estimate.price - outcome.price) < 1e-9


@attack
@given(running_clusters(), st.integers(0, 30), st.data())
def test_estimate_near_limits_is_a_lower_bound_and_exact_without_a_new_node(
    snapshot: ClusterSnapshot, headroom: int, data: st.DataObject
) -> None:
    snapshot = plain(snapshot)
    assume(names_of(snapshot))
    running = sum(node.effective_capacity().get(CPU, 0) for node in snapshot.nodes)
    limits = Resources({CPU: running + headroom * 1000})
    pools = tuple(replace(pool, limits=limits, weight=0) for pool in snapshot.nodepools)
    simulation = SchedulingSimulation(context_of(replace(snapshot, nodepools=pools)))
    estimator = Estimator(simulation)
    removed = [simulation.node_indexes[name] for name in data.draw(some_of(names_of(snapshot)))]
    assume(estimator.is_bound(removed))

    estimate, outcome = estimator.estimate(removed), simulation.simulate(removed, fewest_nodes=True)

    if outcome.is_schedulable and len(outcome.new_nodes) == 1:
        assert estimate.price <= outcome.price + 1e-9
    if estimator.is_exact(removed, needs_new_node=False) and estimate.uninitialized_node < 0:
        assert (estimate.price == 0) == (outcome.is_schedulable and not outcome.new_nodes)


# --- Cases -----------------------------------------------------------------------------------


def test_pods_that_fit_elsewhere_need_no_new_node() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[3], pods(2, "web", cpu=1)), a_pool_node("b", TYPES[3]))

    outcome = simulate_without(snapshot, "a")

    assert outcome.is_schedulable
    assert outcome.new_nodes == ()
    assert [(placement.node, len(placement.pods)) for placement in outcome.placements] == [("b", 2)]


def test_unmanaged_nodes_receive_pods() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[3], [a_pod("p")]), a_node("by-hand", cpu=8))

    assert [placement.node for placement in simulate_without(snapshot, "a").placements] == ["by-hand"]


def test_pods_that_fit_no_existing_node_get_the_cheapest_new_node() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[7], [a_pod("p", cpu="1500m")]))

    outcome = simulate_without(snapshot, "a")

    assert [new_node.instance_type.name for new_node in outcome.new_nodes] == ["fake-it-1"]


def test_blocked_reason_names_the_unschedulable_pod() -> None:
    big = a_pool_node("a", TYPES[7], [a_pod("p", cpu=30)])

    outcome = simulate_without(a_cluster(replace(big, allocatable=a_node("x", cpu=64).allocatable)), "a")

    assert not outcome.is_schedulable
    assert "default/p" in outcome.blocked_reason


def test_cs27_needed_uninitialized_node_blocks_the_removal() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("p")]),
        a_pool_node("b", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
    )

    outcome = simulate_without(snapshot, "a")

    assert outcome.uninitialized_node == "b"
    assert not outcome.is_schedulable


def test_cs28_initialized_nodes_are_used_before_uninitialized_ones() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("p")]),
        a_pool_node("b", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
        a_pool_node("c", TYPES[3]),
    )

    assert [placement.node for placement in simulate_without(snapshot, "a").placements] == ["c"]


def test_cs29_excluded_node_takes_no_running_pods() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[3], [a_pod("p")]), a_pool_node("b", TYPES[3]))

    assert simulate_without(snapshot, "a").new_nodes == ()
    assert len(simulate_without(snapshot, "a", excluded=("b",)).new_nodes) == 1


def test_room_of_pending_pods_is_reserved() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[1], [a_pod("p", cpu="1500m")]),
        a_pool_node("b", TYPES[1]),
        pending_pods=[a_pod("waits", cpu="1500m")],
    )

    assert len(simulate_without(snapshot, "a").new_nodes) == 1


def test_cs34_pending_pods_on_the_removed_node_are_placed_too() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("p", cpu="100m")]), pending_pods=[a_pod("waits", cpu=3)]
    )

    outcome = simulate_without(snapshot, "a")

    assert [new_node.instance_type.name for new_node in outcome.new_nodes] == ["fake-it-3"]


def test_cs32_unschedulable_pending_pod_does_not_block_the_removal() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("p")]),
        a_pool_node("b", TYPES[3]),
        pending_pods=[a_pod("vain", cpu=500)],
    )

    assert simulate_without(snapshot, "a").is_schedulable


def complex_pod(name: str, **fields: Any) -> Pod:
    """Return a pod whose spec makes it expensive to plan."""
    terms = [affinity({"app": str(number)}, label_keys.ZONE) for number in range(100)]
    return a_pod(name, anti_affinity=terms, **fields)


def test_complex_pending_pods_are_not_planned_in_simulations() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[1], [a_pod("p", cpu="1500m")]),
        a_pool_node("b", TYPES[1]),
        pending_pods=[complex_pod("waits", cpu="1500m")],
    )
    simulation = SchedulingSimulation(context_of(snapshot))

    outcome = simulation.simulate_removal(["a"])

    assert [placement.node for placement in outcome.placements] == ["b"]
    assert not list(simulation.problem.topology.groups)


def test_node_with_a_complex_pod_is_kept_with_a_reason() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [complex_pod("p"), a_pod("q")]), a_pool_node("b", TYPES[3])
    )

    outcome = simulate_without(snapshot, "a")

    assert not outcome.is_schedulable
    assert "100 pod anti-affinity terms" in outcome.blocked_reason
    assert simulate_without(snapshot, "b").is_schedulable


def test_deleting_nodes_receive_no_pods() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[3], [a_pod("p")]), a_pool_node("b", TYPES[3], deleting=True))

    assert len(simulate_without(snapshot, "a").new_nodes) == 1


def test_removed_node_frees_its_share_of_the_limits() -> None:
    pool = a_pool(limits={"cpu": 8})
    snapshot = a_cluster(a_pool_node("a", TYPES[7], [a_pod("p", cpu="1500m")]), pool=pool)

    assert simulate_without(snapshot, "a").is_schedulable


def test_cs36_pods_that_spread_over_zones_stay_spread() -> None:
    web = {"labels": {"app": "web"}, "spreads": [zone_spread({"app": "web"})]}
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("w-0", **web)], zone=Z1),
        a_pool_node("b", TYPES[3], [a_pod("w-1", **web)], zone=Z2),
        pool=a_pool(requirements=[(label_keys.ZONE, "In", [Z1, Z2])]),
    )

    outcome = simulate_without(snapshot, "a")

    assert [new_node.offering.zone for new_node in outcome.new_nodes] == [Z1]


def test_cs37_anti_affinity_holds_in_the_simulation() -> None:
    lonely = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("db-0", **lonely)]),
        a_pool_node("b", TYPES[3], [a_pod("db-1", **lonely)]),
    )

    outcome = simulate_without(snapshot, "a")

    assert outcome.placements == ()
    assert len(outcome.new_nodes) == 1
