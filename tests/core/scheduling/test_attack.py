"""Random clusters against the solver; the checker has the last word.

Quick and repeatable by default. ``DOVETAIL_ATTACK=2000 pytest …`` tries that
many clusters per property, different ones each time.
"""

import os

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dovetail.core.scheduling.solver import solve
from dovetail.model.frozen import FrozenDict
from dovetail.model.plan import Plan
from dovetail.model.settings import MinValues, Packing, Preferences, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.alone import could_have_been_placed_alone
from tests.support.checker import check
from tests.support.outcome import placed, settled, unplaced_pods
from tests.support.strategies import clusters

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
attack = settings(
    max_examples=LONG or 200,
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
    preferences=st.sampled_from(Preferences),
    min_values=st.sampled_from(MinValues),
    reserved_capacity=st.sampled_from([True, True, False]),
    max_instance_types=st.sampled_from([600, 2]),
)


def complaints(snapshot: ClusterSnapshot, plan: Plan) -> list[str]:
    return [str(violation) for violation in check(snapshot, plan)]


def shape(plan: Plan) -> object:
    """A plan without the names of its nodes."""
    nodes = [
        (
            node.nodepool,
            [kind.name for kind in node.instance_types],
            node.offering,
            sorted(pod.key for pod in node.pods),
        )
        for node in plan.nodes
    ]
    existing = [(one.node, sorted(pod.key for pod in one.pods)) for one in plan.existing]
    return sorted(nodes, key=str), sorted(existing), sorted(one.pod.key for one in plan.unplaced)


@attack
@given(clusters(), choices)
def test_every_pod_that_a_plan_places_can_be_bound(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    plan = solve(snapshot, chosen)

    assert complaints(snapshot, plan) == []


@attack
@given(clusters(most=3))
def test_a_pod_without_rules_about_others_is_refused_only_when_no_empty_node_would_take_it(
    snapshot: ClusterSnapshot,
) -> None:
    plan = solve(snapshot)

    wronged = {
        one.pod.key: home
        for one in plan.unplaced
        if (home := could_have_been_placed_alone(snapshot, one.pod)) is not None
    }
    assert wronged == {}


@brief
@given(clusters(), choices)
def test_a_second_pass_over_what_was_left_is_as_valid_as_the_first(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    first = solve(snapshot, chosen)
    later = settled(snapshot, first, unplaced_pods(first))

    second = solve(later, chosen)

    assert complaints(later, second) == []


@brief
@given(clusters(), choices)
def test_nobody_is_refused_who_would_find_a_place_a_moment_later(
    snapshot: ClusterSnapshot, chosen: SchedulingSettings
) -> None:
    # Without limits, which are counted at the largest type that may come.
    free = [msgspec.structs.replace(pool, limits=None) for pool in snapshot.node_pools]
    world = msgspec.structs.replace(snapshot, node_pools=tuple(free))
    first = solve(world, chosen)

    second = solve(settled(world, first, unplaced_pods(first)), chosen)

    assert placed(second) == []


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
        node_pools=snapshot.node_pools[::-1],
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
def test_every_refused_pod_is_told_why(snapshot: ClusterSnapshot) -> None:
    plan = solve(snapshot)

    assert [one.pod.key for one in plan.unplaced if not one.refusals] == []
    assert all(why.message for one in plan.unplaced for why in one.refusals)
