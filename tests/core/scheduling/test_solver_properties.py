"""Properties of the solver on random clusters, verified by the checker.

Quick and repeatable by default. ``DOVETAIL_ATTACK=2000 pytest …`` tries that
many clusters per property, different ones each time.
"""

import os

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dovetail.core.scheduling.placement_order import place_in_order, split_invalid
from dovetail.core.scheduling.pods.equivalence import classify
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule
from dovetail.core.scheduling.solver import solve
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Operator
from dovetail.model.plan import Plan
from dovetail.model.settings import MinValuesPolicy, Packing, PreferencePolicy, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.checker.single_pod import find_fitting_type
from tests.support.scheduling.plans import placed, settled, unplaced_pods
from tests.support.scheduling.strategies import clusters

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
attack = settings(
    max_examples=LONG or 100,
    derandomize=not LONG,
    database=None,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # Explaining takes minutes here.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
brief = settings(attack, max_examples=LONG or 50)

choices = st.builds(
    SchedulingSettings,
    packing=st.sampled_from(Packing),
    preference_policy=st.sampled_from(PreferencePolicy),
    min_values_policy=st.sampled_from(MinValuesPolicy),
    reserved_capacity=st.sampled_from([True, True, False]),
    max_instance_types=st.sampled_from([600, 2]),
)


def violations(snapshot: ClusterSnapshot, plan: Plan) -> list[str]:
    return [str(violation) for violation in check(snapshot, plan)]


def topology_keys(pod: Pod) -> set[str]:
    spec = pod.spec
    return {rule.topology_key for rule in (*spec.spreads, *spec.affinity, *spec.anti_affinity)}


def open_keys(snapshot: ClusterSnapshot) -> set[str]:
    """Return the labels whose value a NodePool leaves open until a node is launched.

    A node of the first pass may add a topology domain that no plan could know.
    """
    requirements = [spec for pool in snapshot.nodepools for spec in pool.template.requirements]
    return {spec.key for spec in requirements if spec.operator is not Operator.IN}


def shape(plan: Plan) -> object:
    """Return a plan without the names of its nodes."""
    nodes = [
        (
            node.nodepool,
            [kind.name for kind in node.instance_types],
            node.offering,
            sorted(pod.key for pod in node.pods),
        )
        for node in plan.nodes
    ]
    existing = [(placement.node, sorted(pod.key for pod in placement.pods)) for placement in plan.existing]
    return sorted(nodes, key=str), sorted(existing), sorted(entry.pod.key for entry in plan.unschedulable)


@attack
@given(clusters(), choices)
def test_every_pod_that_a_plan_places_can_be_bound(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    plan = solve(snapshot, chosen)

    assert violations(snapshot, plan) == []


@attack
@given(clusters(most=3))
def test_a_pod_without_rules_about_others_is_unschedulable_only_when_no_empty_node_would_take_it(
    snapshot: ClusterSnapshot,
) -> None:
    plan = solve(snapshot)

    schedulable = {
        entry.pod.key: instance_type
        for entry in plan.unschedulable
        if (instance_type := find_fitting_type(snapshot, entry.pod)) is not None
    }
    assert schedulable == {}


@brief
@given(clusters(), choices)
def test_a_second_pass_over_what_was_left_is_as_valid_as_the_first(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    first = solve(snapshot, chosen)
    later = settled(snapshot, first, unplaced_pods(first))

    second = solve(later, chosen)

    assert violations(later, second) == []


@brief
@given(clusters(), choices)
def test_no_unschedulable_pod_could_be_placed_by_a_second_pass(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    # Without limits, which are counted at the largest type that may come.
    free = [msgspec.structs.replace(pool, limits=None) for pool in snapshot.nodepools]
    unlimited = msgspec.structs.replace(snapshot, nodepools=tuple(free))
    first = solve(unlimited, chosen)
    left = [pod for pod in unplaced_pods(first) if not topology_keys(pod) & open_keys(unlimited)]

    second = solve(settled(unlimited, first, left), chosen)

    assert placed(second) == []


def count_placed_in_usual_order(snapshot: ClusterSnapshot, chosen: SchedulingSettings) -> int:
    """Return how many pods are placed without regard to how many NodePools they fit."""
    pending = find_pods_to_schedule(snapshot)
    moving = frozenset(pod.key for pod in pending if pod.node_name)
    classes, _ = split_invalid(classify(pending), snapshot, chosen)
    place_in_order(snapshot, chosen, classes, moving, lambda _: [])
    return sum(pod_class.placed for pod_class in classes)


@attack
@given(clusters(), choices)
def test_no_fewer_pods_are_placed_than_without_a_preference_for_pods_that_fit_few_pools(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    # A NodeClaim that would break minValues when cut to few types is dropped later.
    chosen = msgspec.structs.replace(chosen, max_instance_types=600)

    plan = solve(snapshot, chosen)

    assert len(placed(plan)) >= count_placed_in_usual_order(snapshot, chosen)


@brief
@given(clusters())
def test_the_same_cluster_gets_the_same_plan(snapshot: ClusterSnapshot) -> None:
    assert msgspec.json.encode(str(solve(snapshot))) == msgspec.json.encode(str(solve(snapshot)))


@brief
@given(clusters(), choices)
def test_the_order_in_which_pools_types_and_nodes_are_listed_does_not_matter(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    turned = msgspec.structs.replace(
        snapshot,
        nodepools=snapshot.nodepools[::-1],
        nodes=snapshot.nodes[::-1],
        instance_types=FrozenDict(
            {pool: kinds[::-1] for pool, kinds in reversed(snapshot.instance_types.items())}
        ),
    )

    assert shape(solve(snapshot, chosen)) == shape(solve(turned, chosen))


@brief
@given(clusters())
def test_solving_changes_nothing_in_the_snapshot(snapshot: ClusterSnapshot) -> None:
    before = repr(snapshot)

    solve(snapshot)

    assert repr(snapshot) == before


@brief
@given(clusters())
def test_every_unschedulable_pod_has_a_reason(snapshot: ClusterSnapshot) -> None:
    plan = solve(snapshot)

    assert [entry.pod.key for entry in plan.unschedulable if not entry.reasons] == []
    assert all(why.message for entry in plan.unschedulable for why in entry.reasons)
