"""Properties of consolidation passes, for generated clusters."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator
from dovetail.core.disruption.consolidation.validation import CommandValidator
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import (
    after,
    as_plan,
    attack,
    context_of,
    leaving,
    plain,
    running_clusters,
)
from tests.support.scheduling.checker.plan_checker import check

MOST_PASSES = 40
worlds = st.one_of(running_clusters(), running_clusters().map(plain))
choices = st.builds(
    ConsolidationSettings,
    spot_to_spot=st.booleans(),
    min_spot_types=st.sampled_from([2, 15]),
    max_replacements=st.sampled_from([None, 1]),
    min_saving_per_pod=st.sampled_from([0.0, 0.0005, 0.02]),
    min_saving_share=st.sampled_from([0.0, 0.35]),
)
rooms = st.integers(0, 4)


def allowed_in(snapshot: ClusterSnapshot, room: int) -> dict[str, int]:
    return {pool.name: room for pool in snapshot.nodepools}


@attack
@given(worlds, rooms, choices)
def test_pass_respects_budgets_and_gives_each_candidate_a_command_or_keep_reason(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    context = context_of(snapshot)

    result = consolidate(context, allowed_in(snapshot, room), settings=chosen)

    removed = [candidate for command in result.commands for candidate in command.candidates]
    for pool in snapshot.nodepools:
        assert sum(candidate.pool.name == pool.name for candidate in removed) <= room
    names = [keep_reason.node.name for keep_reason in removed] + [
        keep_reason.node for keep_reason in result.keep_reasons
    ]
    assert sorted(names) == sorted(candidate.node.name for candidate in context.candidates)
    assert all(keep_reason.code and keep_reason.message for keep_reason in result.keep_reasons)


@attack
@given(worlds, choices)
def test_commands_place_every_pod_and_launch_nothing_more_expensive(
    snapshot: ClusterSnapshot, chosen: ConsolidationSettings
) -> None:
    result = consolidate(context_of(snapshot), allowed_in(snapshot, 4), settings=chosen)

    for command in result.commands:
        removed = {candidate.node.name for candidate in command.candidates}
        assert [str(violation) for violation in check(leaving(snapshot, removed), as_plan(command))] == []
        before = sum(candidate.price for candidate in command.candidates)
        for new_price in command.replacements:
            assert new_price.price < before
        if command.replacements:
            assert sum(replacement.price for replacement in command.replacements) < before
        snapshot = after(snapshot, [command])


@attack
@given(worlds, choices)
def test_batch_estimates_equal_single_estimates(
    snapshot: ClusterSnapshot, chosen: ConsolidationSettings
) -> None:
    simulation = SchedulingSimulation(context_of(snapshot))
    evaluator = ConsolidationEvaluator(simulation, chosen, {})
    present = [
        candidate
        for candidate in simulation.context.candidates
        if candidate.node.name in simulation.node_indexes
    ]

    together = evaluator.estimate_all_savings(present)

    assert together == {candidate.node.name: evaluator.estimate_savings(candidate) for candidate in present}


@attack
@given(worlds, rooms, choices)
def test_two_passes_on_the_same_cluster_agree(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    context, allowed = context_of(snapshot), allowed_in(snapshot, room)

    assert consolidate(context, allowed, settings=chosen) == consolidate(context, allowed, settings=chosen)


@attack
@given(worlds, st.integers(1, 4), choices)
def test_repeated_passes_reach_a_fixed_point(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    for _ in range(MOST_PASSES):
        result = consolidate(context_of(snapshot), allowed_in(snapshot, room), settings=chosen)
        if not result.commands:
            break
        snapshot = after(snapshot, result.commands)

    assert consolidate(context_of(snapshot), allowed_in(snapshot, room), settings=chosen).commands == ()


@attack
@given(worlds, rooms)
def test_commands_are_valid_while_nothing_changes(snapshot: ClusterSnapshot, room: int) -> None:
    context, allowed = context_of(snapshot), allowed_in(snapshot, room)
    moves = consolidate(context, allowed).commands

    again = CommandValidator(context, allowed)

    assert [again.validate(command) for command in moves] == [None] * len(moves)
