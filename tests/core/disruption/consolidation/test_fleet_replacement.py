"""Fleet replacement: wasteful nodes are replaced by several cheaper ones, step by step."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.fleet_replacement import MIN_NODE_AGE
from dovetail.core.disruption.consolidation.validation import CommandValidator
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.settings import ConsolidationSettings, Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import (
    a_pool_node,
    after,
    as_plan,
    attack,
    context_of,
    cost,
    leaving,
)
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, a_type, offerings
from tests.support.scheduling.plans import settled
from tests.support.simulator.api_server import START

LARGE = a_type("large", cpu=32, memory="64Gi", pods=200, price=10.0)
SMALL = a_type("small", cpu=8, memory="16Gi", pods=50, price=1.5)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])


def large_nodes(count: int, types: Any = (LARGE, SMALL), **more: Any) -> ClusterSnapshot:
    """Return full nodes that cost much more than small ones for the same pods."""
    nodes = [a_pool_node(f"n{i}", types[0], pods(10, f"p{i}", cpu=3), **more) for i in range(count)]
    return cluster((), [POOL], types, nodes=nodes)


ANY_SAVING = {"min_saving_share": 0.0}
"""Generated pods are bare: they move for a higher saving only."""


def commands_of(context: DisruptionContext, allowed: int, **choices: Any) -> tuple[Command, ...]:
    budgets = {pool.name: allowed for pool in context.snapshot.nodepools}
    return consolidate(context, budgets, settings=ConsolidationSettings(**choices)).commands


def test_one_node_is_replaced_by_several_cheaper_ones() -> None:
    (command,) = commands_of(context_of(large_nodes(1)), 1)

    assert {planned.instance_type.name for planned in command.replacements} == {"small"}
    assert len(command.replacements) == 5
    assert command.saving == pytest.approx(10.0 - 5 * 1.5)


def test_a_step_replaces_as_many_nodes_as_budgets_allow() -> None:
    (command,) = commands_of(context_of(large_nodes(4)), 2)

    assert len(command.candidates) == 2
    assert len(command.replacements) == 10


def test_nodes_that_a_later_step_replaces_receive_no_pods() -> None:
    """The node with room for half of the pods is to be replaced itself."""
    half_full = a_pool_node("half-full", LARGE, pods(5, "half", cpu=3))
    snapshot = replace(large_nodes(2), nodes=(*large_nodes(2).nodes, half_full))

    (command,) = commands_of(context_of(snapshot, excluded=["n1"]), 1)

    assert "half-full" not in {placement.node for placement in command.placements}
    assert len(command.replacements) > 1


def test_repeated_steps_reach_the_price_of_a_plan_from_scratch() -> None:
    snapshot = large_nodes(6)
    moved = tuple(replace(pod, node_name="") for node in snapshot.nodes for pod in node.pods)
    from_scratch = solve(replace(snapshot, nodes=(), pending_pods=moved)).price

    prices = [cost(snapshot)]
    while commands := commands_of(context_of(snapshot), 1):
        snapshot = after(snapshot, commands)
        prices.append(cost(snapshot))

    assert prices == sorted(prices, reverse=True)
    assert prices[-1] <= 1.04 * from_scratch


def test_limit_of_one_replacement_keeps_large_nodes() -> None:
    assert commands_of(context_of(large_nodes(2)), 2, max_replacements=1) == ()


def test_step_must_save_enough_per_evicted_pod() -> None:
    assert commands_of(context_of(large_nodes(1)), 1, min_saving_per_pod=1.0) == ()


def at_age(snapshot: ClusterSnapshot, age: timedelta) -> DisruptionContext:
    context = context_of(replace(snapshot, now=START))
    claims = [replace(candidate.claim, created=START - age) for candidate in context.candidates]
    candidates = zip(context.candidates, claims, strict=True)
    return replace(context, candidates=tuple(replace(node, claim=claim) for node, claim in candidates))


def test_young_nodes_are_not_replaced_by_a_fleet() -> None:
    young = at_age(large_nodes(1), MIN_NODE_AGE - timedelta(seconds=1))

    assert commands_of(young, 1) == ()
    assert len(commands_of(at_age(large_nodes(1), MIN_NODE_AGE), 1)) == 1


def spot_nodes(small_types: int) -> ClusterSnapshot:
    spot = [(SPOT, Z1)]
    large = replace(LARGE, offerings=offerings(10.0, spot))
    small = [
        replace(
            a_type(f"small-{i:02}", cpu=8, memory="16Gi", pods=50, price=1.5), offerings=offerings(1.5, spot)
        )
        for i in range(small_types)
    ]
    node = a_pool_node("n", large, pods(10, "p", cpu=3), capacity_type=SPOT)
    pool = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [SPOT])])
    return cluster((), [pool], [large, *small], nodes=[node])


def test_spot_nodes_need_the_feature_gate_and_enough_types_for_each_replacement() -> None:
    assert commands_of(context_of(spot_nodes(20)), 1) == ()
    assert commands_of(context_of(spot_nodes(14)), 1, spot_to_spot=True) == ()

    (command,) = commands_of(context_of(spot_nodes(20)), 1, spot_to_spot=True)

    assert [len(planned.instance_types) for planned in command.replacements] == [15] * 5


# -- Validation ------------------------------------------------------------------------------


def test_fleet_of_an_unchanged_cluster_is_valid() -> None:
    context = context_of(large_nodes(3))
    commands = commands_of(context, 2)

    validator = CommandValidator(context, {"default": 2})

    assert [validator.validate(command) for command in commands] == [None]


def test_fleet_is_valid_if_other_nodes_have_more_room_than_before() -> None:
    snapshot = large_nodes(2)
    (command,) = commands_of(context_of(snapshot), 1)
    more = a_pool_node("new", SMALL, [a_pod("other", cpu=4)])
    changed = context_of(replace(snapshot, nodes=(*snapshot.nodes, more)))

    assert CommandValidator(changed, {"default": 1}).validate(command) is None


def test_fleet_fails_if_its_pods_need_a_more_expensive_one() -> None:
    snapshot = large_nodes(1)
    (command,) = commands_of(context_of(snapshot), 1)
    grown = a_pool_node("n0", LARGE, pods(10, "p0", cpu="3900m"))
    changed = context_of(replace(snapshot, nodes=(grown,)))

    failure = CommandValidator(changed, {"default": 1}).validate(replace_price(command))

    assert failure is not None
    assert failure.code == "scheduling"


def replace_price(command: Command) -> Command:
    """Return the command with one replacement less, as if its pods had needed less."""
    return replace(command, replacements=command.replacements[:-1])


# -- Properties ------------------------------------------------------------------------------


@st.composite
def taken_over_clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Return full nodes of a fewest-nodes plan, on types whose small sizes are cheaper."""
    types = [
        a_type(f"t{cpu}", cpu=cpu, memory=f"{2 * cpu}Gi", pods=10 * cpu, price=cpu * (0.1 + 0.01 * cpu))
        for cpu in (2, 4, 8, 16)
    ]
    waiting = [
        pod
        for number in range(draw(st.integers(1, 4)))
        for pod in pods(
            draw(st.integers(1, 8)),
            f"p{number}",
            cpu=draw(st.sampled_from(["500m", "1", "1700m", "3"])),
            memory=draw(st.sampled_from(["256Mi", "1Gi", "5Gi"])),
        )
    ]
    before = cluster(waiting, [POOL], types)
    return settled(before, solve(before, SchedulingSettings(packing=Packing.FEWEST)))


@attack
@given(taken_over_clusters(), st.integers(1, 4))
def test_fleets_place_every_pod_within_budgets_and_cost_less(snapshot: ClusterSnapshot, allowed: int) -> None:
    commands = commands_of(context_of(snapshot), allowed, **ANY_SAVING)

    assert sum(len(command.candidates) for command in commands) <= allowed
    for command in commands:
        removed = {candidate.name for candidate in command.candidates}
        assert [str(violation) for violation in check(leaving(snapshot, removed), as_plan(command))] == []
        before = sum(candidate.price for candidate in command.candidates)
        assert command.saving == pytest.approx(before - command.replacement_price)
        assert command.replacement_price < before
        assert not {placement.node for placement in command.placements} & command.excluded_targets
        snapshot = after(snapshot, [command])


@attack
@given(taken_over_clusters(), st.integers(1, 4))
def test_fleets_are_valid_while_nothing_changes_and_passes_end(
    snapshot: ClusterSnapshot, allowed: int
) -> None:
    for _ in range(40):
        context = context_of(snapshot)
        commands = commands_of(context, allowed, **ANY_SAVING)
        if not commands:
            break
        validator = CommandValidator(context, {"default": allowed})
        assert [validator.validate(command) for command in commands] == [None] * len(commands)
        snapshot = after(snapshot, commands)

    assert commands_of(context_of(snapshot), allowed, **ANY_SAVING) == ()


def test_generated_clusters_have_fleets_of_several_replacements() -> None:
    """Guard of the properties above: they must see what they are about."""
    sizes = []

    @settings(max_examples=25, derandomize=True, database=None, deadline=None)
    @given(taken_over_clusters())
    def collect(snapshot: ClusterSnapshot) -> None:
        commands = commands_of(context_of(snapshot), 4, **ANY_SAVING)
        sizes.extend(len(command.replacements) for command in commands)

    collect()

    assert sum(size > 1 for size in sizes) >= 5
