"""The lower bound of the benchmark: no fleet, not even the best, costs less."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.bound import CONFIGURATION, FLUID, FleetDemand, fluid_bound, lower_bound
from bench.fleet_demand import reduce_snapshot
from bench.mixes import upstream
from dovetail.core.scheduling.fleet import Demand, cheapest_fleet
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.snapshot import ClusterSnapshot

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


def a_cluster(*pods: Pod) -> ClusterSnapshot:
    """Return a cluster whose smallest type has one core, and each next one a core more."""
    types = upstream(5).instance_types["default"][:12]
    return replace(upstream(5), pending_pods=pods, instance_types=FrozenDict({"default": types}))


def a_pod(name: str, app: str, cores: float = 0.1, rule: str = "", skew: int = 1, selects: str = "") -> Pod:
    selector = LabelSelector(FrozenDict({"app": selects or app}))
    spec = PodSpec(requests=Resources({CPU: round(cores * 1000), MEMORY: GI // 8, PODS: 1}))
    if rule == "apart":
        spec = replace(spec, anti_affinity=(PodAffinityTerm(label_keys.HOSTNAME, selector),))
    elif rule:
        key = label_keys.HOSTNAME if rule == "over hosts" else label_keys.ZONE
        spec = replace(spec, spreads=(TopologySpreadConstraint(key, max_skew=skew, selector=selector),))
    return Pod(name=name, uid=name, labels=FrozenDict({"app": app}), spec=spec)


_RULES = st.sampled_from(["", "apart", "over hosts", "over zones"])
_DEPLOYMENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([0.1, 0.4, 0.9]),
        _RULES,
        st.integers(1, 3),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=25)
@given(
    deployments=_DEPLOYMENTS,
    replicas=st.lists(st.integers(1, 5), min_size=4, max_size=4),
    other=st.booleans(),
)
def test_no_plan_is_cheaper_than_the_bound_that_knows_hostname_rules(
    deployments: list[tuple[str, float, str, int, str]], replicas: list[int], other: bool
) -> None:
    pods = [
        a_pod(f"{number}-{replica}", app, cores, rule, skew, selects if other else app)
        for number, (app, cores, rule, skew, selects) in enumerate(deployments)
        for replica in range(replicas[number])
    ]
    cluster = a_cluster(*pods)

    plan = solve(cluster)

    if not plan.unschedulable:
        assert lower_bound(reduce_snapshot(cluster), rounds=1).price <= plan.price * (1 + 1e-6)


def test_the_bound_knows_that_each_node_takes_few_pods_of_a_hostname_spread() -> None:
    pods = [a_pod(f"pod-{number}", "web", rule="over hosts", skew=2) for number in range(20)]
    free = [a_pod(f"pod-{number}", "web") for number in range(20)]

    bound, without_rule = (lower_bound(reduce_snapshot(a_cluster(*some)), 0).price for some in (pods, free))

    plan = solve(a_cluster(*pods))
    assert len(plan.nodes) == 10
    assert abs(bound - plan.price) < 1e-6
    assert without_rule < bound / 3


def test_pods_of_different_selectors_share_a_node_in_the_bound() -> None:
    pods = [a_pod(app, app, rule="apart") for app in ("web", "api", "jobs")]

    plan = solve(a_cluster(*pods))

    assert len(plan.nodes) == 1
    assert lower_bound(reduce_snapshot(a_cluster(*pods)), 0).price <= plan.price


def test_pods_that_need_nodes_of_their_own_leave_a_fleet_close_to_the_bound() -> None:
    snapshot = upstream(1000)
    bound = lower_bound(reduce_snapshot(snapshot), rounds=0)
    plan = solve(snapshot)
    assert not plan.unschedulable
    assert plan.price <= 1.08 * bound.price
