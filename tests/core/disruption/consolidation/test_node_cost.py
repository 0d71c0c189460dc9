"""Consolidation with node costs, and with the preference for fewer nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.consolidate import ConsolidationResult, consolidate
from dovetail.core.scheduling.plan_cost import is_better
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import a_pool_node, after, attack, context_of, plain
from tests.support.scheduling.builders import a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, a_type
from tests.support.scheduling.plans import settled
from tests.support.scheduling.strategies import clusters

POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
MOST_PASSES = 40
ANY_SAVING = ConsolidationSettings(min_saving_per_pod=0.0)


def a_size(name: str, cpu: int, price: float, node_cost: float = 0.0) -> InstanceType:
    return replace(a_type(name, cpu=cpu, memory=f"{2 * cpu}Gi", pods=100, price=price), node_cost=node_cost)


def run_pass(snapshot: ClusterSnapshot, tolerance: float = 0.02, budget: int = 9) -> ConsolidationResult:
    return consolidate(
        context_of(snapshot),
        {pool.name: budget for pool in snapshot.nodepools},
        settings=ANY_SAVING,
        scheduling=SchedulingSettings(fewer_nodes_tolerance=tolerance),
    )


def total(snapshot: ClusterSnapshot) -> tuple[float, int]:
    """Return USD per hour and number of all nodes that consolidation may replace."""
    candidates = context_of(snapshot).candidates
    return sum(candidate.cost for candidate in candidates), len(candidates)


def test_deleting_a_node_saves_its_node_cost_too() -> None:
    size = a_size("s", 8, 0.4, node_cost=0.03)
    nodes = [a_pool_node("full", size, pods(5, "a", cpu=1)), a_pool_node("rest", size, pods(1, "b", cpu=1))]

    (command,) = run_pass(cluster((), [POOL], [size], nodes=nodes)).commands

    assert command.saving == pytest.approx(0.43)


def test_several_replacements_must_be_cheaper_with_their_node_costs() -> None:
    def commands(node_cost: float) -> tuple[Command, ...]:
        types = [a_size("large", 32, 10.0, node_cost), a_size("small", 8, 1.5, node_cost)]
        nodes = [a_pool_node("n", types[0], pods(10, "p", cpu=3))]
        return run_pass(cluster((), [POOL], types, nodes=nodes)).commands

    assert [len(command.replacements) for command in commands(0.1)] == [5]
    assert commands(0.7) == ()


def test_replacement_must_have_a_lower_price_however_much_node_cost_it_saves() -> None:
    types = [a_size("small", 4, 0.2, node_cost=0.5), a_size("large", 8, 0.41, node_cost=0.5)]
    nodes = [a_pool_node(f"n{i}", types[0], pods(3, f"p{i}", cpu=1)) for i in range(2)]

    assert run_pass(cluster((), [POOL], types, nodes=nodes)).commands == ()


def test_nodes_that_the_tolerance_prefers_are_not_replaced_by_more_nodes() -> None:
    types = [a_size("large", 32, 10.0), a_size("small", 8, 1.8)]
    snapshot = cluster((), [POOL], types, nodes=[a_pool_node("n", types[0], pods(10, "p", cpu=3))])

    assert [len(command.replacements) for command in run_pass(snapshot, 0.02).commands] == [5]
    assert run_pass(snapshot, 0.12).commands == ()


@attack
@given(
    st.one_of(clusters(most=8), clusters(most=8).map(plain)),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.sampled_from([0.0, 0.05]),
    st.integers(1, 4),
)
def test_consolidation_does_not_undo_what_provisioning_chose(
    before: ClusterSnapshot, tolerance: float, node_cost: float, budget: int
) -> None:
    types = {
        pool: tuple(replace(each, node_cost=node_cost) for each in of_pool)
        for pool, of_pool in before.instance_types.items()
    }
    before = replace(before, instance_types=type(before.instance_types)(types))
    before = replace(before, nodes=tuple(node for node in before.nodes if not node.deleting))
    plan = solve(before, SchedulingSettings(fewer_nodes_tolerance=tolerance))
    snapshot = settled(before, plan)
    first_cost, first_nodes = total(snapshot)
    for _ in range(MOST_PASSES):
        commands = run_pass(snapshot, tolerance, budget).commands
        for command in commands:
            old = [candidate.cost for candidate in command.candidates]
            new = [node.cost for node in command.replacements]
            if command.replacements:
                assert sum(new) < sum(old)
                assert not is_better(sum(old), len(old), sum(new), len(new), tolerance)
        snapshot = after(snapshot, commands)
        if not commands:
            break

    assert run_pass(snapshot, tolerance, budget).commands == ()
    last_cost, last_nodes = total(snapshot)
    if last_nodes > first_nodes:
        assert not is_better(first_cost, first_nodes, last_cost, last_nodes, tolerance)
