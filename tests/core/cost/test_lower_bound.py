"""The lower bound of the bill: proven for every plan, and close to good ones."""

import os
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.mixes import deployments, rules
from dovetail.core.cost.lower_bound import compute_lower_bound
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy, CpuCredits
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod, PodAffinityTerm, PodSpec
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources, sum_resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_daemon_set, a_pod, a_pool, cluster
from tests.support.scheduling.strategies import clusters

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
GI = 2**30
choices = st.builds(
    SchedulingSettings, packing=st.sampled_from(Packing), reserved_capacity=st.sampled_from([True, False])
)


@settings(
    max_examples=LONG or 150,
    derandomize=not LONG,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(snapshot=clusters(), chosen=choices)
def test_no_plan_of_the_solver_is_cheaper_than_the_bound(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    plan = solve(snapshot, chosen)
    pods = [pod for node in plan.nodes for pod in node.pods]

    bound = compute_lower_bound(snapshot, pods)

    assert bound.price <= plan.price + 1e-9
    assert (bound.pods, bound.left_out) == (len(pods), 0)


def test_the_bound_is_close_to_the_plan_of_many_deployments() -> None:
    snapshot = deployments(1000)
    plan = solve(snapshot)

    bound = compute_lower_bound(snapshot, snapshot.pending_pods)

    assert 0.9 * plan.price < bound.price <= plan.price


def test_hundreds_of_classes_are_grouped_and_the_bound_still_holds() -> None:
    snapshot = rules(1000)
    plan = solve(snapshot)
    pods = [pod for node in plan.nodes for pod in node.pods]

    bound = compute_lower_bound(snapshot, pods)

    assert 0.5 * plan.price < bound.price <= plan.price


def instance_type(name: str, price: float, cpu: int = 4000) -> InstanceType:
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels({label_keys.INSTANCE_TYPE: name}),
        capacity=Resources({CPU: cpu, MEMORY: cpu * GI // 250, PODS: 110}),
        offerings=(Offering(zone="us-east-1a", capacity_type=label_keys.ON_DEMAND, price=price),),
    )


def burstable_type(
    name: str, price: float, *, cpu: int = 2000, memory: int = 8, baseline: int = 600, **chosen: object
) -> InstanceType:
    cpu_credits = CpuCredits(vcpus=cpu // 1000, baseline=baseline, surplus_price=0.05)
    return replace(
        instance_type(name, price, cpu=cpu),
        capacity=Resources({CPU: cpu, MEMORY: memory * GI, PODS: 110}),
        cpu_credits=replace(cpu_credits, **chosen),
    )


def snapshot_of(*pods: Pod) -> ClusterSnapshot:
    types = (instance_type("large", 0.4), instance_type("small", 0.1, cpu=1000))
    return ClusterSnapshot(
        pending_pods=pods,
        nodepools=(NodePool(name="default"),),
        instance_types=FrozenDict({"default": types}),
    )


def pod(name: str, cpu: int = 500, **spec: object) -> Pod:
    requests = Resources({CPU: cpu, MEMORY: GI, PODS: 1})
    labels = FrozenDict({"app": "web"})
    return Pod(name=name, labels=labels, spec=replace(PodSpec(requests=requests), **spec))


def test_pods_that_exclude_each_other_need_a_node_each() -> None:
    apart = PodAffinityTerm(label_keys.HOSTNAME, LabelSelector(match_labels=FrozenDict({"app": "web"})))
    snapshot = snapshot_of(*(pod(f"web-{at}", 100, anti_affinity=(apart,)) for at in range(10)))

    bound = compute_lower_bound(snapshot, snapshot.pending_pods)

    assert abs(bound.price - 10 * 0.1) < 1e-6


def test_one_small_pod_still_costs_a_whole_node() -> None:
    snapshot = snapshot_of(pod("web", 10))

    assert abs(compute_lower_bound(snapshot, snapshot.pending_pods).price - 0.1) < 1e-6


def test_a_pod_that_fits_nowhere_is_left_out_and_counted() -> None:
    snapshot = snapshot_of(pod("web"), pod("huge", 64_000))

    bound = compute_lower_bound(snapshot, snapshot.pending_pods)

    assert (bound.pods, bound.left_out) == (1, 1)


def test_without_nodepools_or_pods_there_is_no_bound() -> None:
    lonely = ClusterSnapshot(pending_pods=(pod("web"),))

    assert compute_lower_bound(lonely, lonely.pending_pods).ratio(1.0) is None
    assert compute_lower_bound(snapshot_of(), ()).ratio(1.0) is None


def test_a_daemonset_that_runs_on_some_nodes_of_a_type_does_not_raise_the_bound() -> None:
    pool = a_pool(requirements=[("team", "In", ["web", "batch"])])
    daemon = a_daemon_set("agent", cpu="2", node_selector={"team": "web"})
    waiting = a_pod("p", cpu="1", node_selector={"team": "batch"})
    without = cluster([waiting], [pool])

    bound = compute_lower_bound(replace(without, daemon_sets=(daemon,)), [waiting])

    assert bound.price == compute_lower_bound(without, [waiting]).price


def burstable_snapshot(types: tuple[InstanceType, ...], pods: list[Pod]) -> ClusterSnapshot:
    return replace(
        snapshot_of(*pods), instance_types=FrozenDict({"default": tuple(sorted(types, key=lambda t: t.name))})
    )


def test_pods_above_the_baseline_cost_their_surplus_credits_in_the_bound() -> None:
    snapshot = burstable_snapshot(
        (burstable_type("t.large", 0.08),), [pod(f"p{at}", 1000) for at in range(20)]
    )

    bound = compute_lower_bound(snapshot, snapshot.pending_pods)

    # Ten nodes with two pods each: 1.4 vCPU above the baseline.
    assert bound.price == pytest.approx(10 * (0.08 + 1.4 * 0.05))
    assert bound.price == pytest.approx(solve(snapshot).price)


def test_pods_below_the_baseline_cost_the_list_price_in_the_bound() -> None:
    snapshot = burstable_snapshot((burstable_type("t.large", 0.08),), [pod(f"p{at}", 10) for at in range(80)])

    assert compute_lower_bound(snapshot, snapshot.pending_pods).price == pytest.approx(10 * 0.08)


def test_one_pod_alone_pays_its_surplus_credits_in_the_bound() -> None:
    snapshot = burstable_snapshot((burstable_type("t.large", 0.08),), [pod("web", 1600)])

    assert compute_lower_bound(snapshot, snapshot.pending_pods).price == pytest.approx(0.08 + 0.05)


def test_a_burstable_type_that_is_cheaper_than_its_credits_bounds_at_its_baseline() -> None:
    cheap = burstable_type("t.large", 0.01, memory=64, baseline=1000)
    snapshot = burstable_snapshot((cheap,), [pod(f"p{at}", 100) for at in range(200)])

    bound = compute_lower_bound(snapshot, snapshot.pending_pods)

    # A node for each 10 pods costs less than credits for more of them.
    assert bound.price == pytest.approx(20 * 0.01)


@pytest.mark.parametrize(
    "chosen", [{"policy": BurstablePolicy.ALLOW}, {"surplus_price": 0.0}], ids=["allow", "standard mode"]
)
def test_types_without_surplus_credits_count_at_their_list_price(chosen: dict[str, object]) -> None:
    snapshot = burstable_snapshot(
        (burstable_type("t.large", 0.08, **chosen),), [pod(f"p{at}", 1000) for at in range(20)]
    )

    assert compute_lower_bound(snapshot, snapshot.pending_pods).price == pytest.approx(10 * 0.08)


LOADS = st.lists(st.tuples(st.integers(10, 2000), st.integers(1, 8)), min_size=1, max_size=5)


@settings(max_examples=LONG or 100, derandomize=not LONG, database=None, deadline=None)
@given(
    loads=LOADS,
    prices=st.lists(st.integers(5, 200), min_size=3, max_size=3),
    baselines=st.lists(st.integers(0, 2000), min_size=2, max_size=2),
    overhead=st.sampled_from([0, 100, 700]),
)
def test_no_fleet_of_burstable_nodes_is_cheaper_than_the_bound(
    loads: list[tuple[int, int]], prices: list[int], baselines: list[int], overhead: int
) -> None:
    first, second, plain = (price / 1000 for price in prices)
    types = (
        replace(burstable_type("t.large", first, baseline=baselines[0]), overhead=Resources({CPU: overhead})),
        burstable_type("t.xlarge", second, cpu=4000, memory=16, baseline=2 * baselines[1]),
        instance_type("plain", plain),
    )
    requests = [Resources({CPU: cpu, MEMORY: memory * GI, PODS: 1}) for cpu, memory in loads]
    pods = [replace(pod(f"p{at}"), spec=PodSpec(requests=each)) for at, each in enumerate(requests)]
    snapshot = burstable_snapshot(types, pods)

    bound = compute_lower_bound(snapshot, pods)

    if not bound.left_out:
        assert bound.price <= cheapest_partition(requests, types) + 1e-9


def cheapest_partition(requests: list[Resources], types: tuple[InstanceType, ...]) -> float:
    """Return the price of the cheapest of all fleets for a few pods."""

    def price(group: list[Resources]) -> float:
        total = sum_resources(group)
        fitting = [
            each.offerings[0].price + each.price_surplus(total)
            for each in types
            if all(total[name] <= each.allocatable.get(name, 0) for name in total)
        ]
        return min(fitting, default=float("inf"))

    best = float("inf")
    for assignment in product(range(len(requests)), repeat=len(requests)):
        if all(number <= max(assignment[:at], default=-1) + 1 for at, number in enumerate(assignment)):
            groups = [
                [each for each, number in zip(requests, assignment, strict=True) if number == chosen]
                for chosen in set(assignment)
            ]
            best = min(best, sum(map(price, groups)))
    return best
