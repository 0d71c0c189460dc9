"""What holds for every pass over every cluster."""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.evaluator import Ground
from dovetail.core.disruption.consolidation.validation import Recheck
from dovetail.core.disruption.simulation import WhatIf
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.checker import check
from tests.support.consolidating import (
    after,
    as_plan,
    leaving,
    plain,
    running_clusters,
    view_of,
)

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
attack = settings(
    max_examples=LONG or 25,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MOST_PASSES = 40
worlds = st.one_of(running_clusters(), running_clusters().map(plain))
choices = st.builds(
    ConsolidationSettings,
    spot_to_spot=st.booleans(),
    spot_types=st.sampled_from([2, 15]),
    most_replacements=st.sampled_from([None, 1]),
    min_saving_per_cost=st.sampled_from([0.0, 0.0005, 0.02]),
)
rooms = st.integers(0, 4)


def room_in(snapshot: ClusterSnapshot, room: int) -> dict[str, int]:
    return {pool.name: room for pool in snapshot.node_pools}


@attack
@given(worlds, rooms, choices)
def test_no_pass_goes_over_a_budget_and_every_candidate_goes_or_says_why_it_stays(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    view = view_of(snapshot)

    found = consolidate(view, room_in(snapshot, room), settings=chosen)

    gone = [one for move in found.moves for one in move.removed]
    for pool in snapshot.node_pools:
        assert sum(one.pool.name == pool.name for one in gone) <= room
    names = [one.node.name for one in gone] + [one.node for one in found.stays]
    assert sorted(names) == sorted(one.node.name for one in view.candidates)
    assert all(one.code and one.because for one in found.stays)


@attack
@given(worlds, choices)
def test_every_pod_has_a_place_to_go_and_nothing_is_bought_that_is_dearer(
    snapshot: ClusterSnapshot, chosen: ConsolidationSettings
) -> None:
    found = consolidate(view_of(snapshot), room_in(snapshot, 4), settings=chosen)

    for move in found.moves:
        gone = {one.node.name for one in move.removed}
        assert [str(one) for one in check(leaving(snapshot, gone), as_plan(move))] == []
        before = sum(one.price for one in move.removed)
        for bought in move.replacements:
            assert bought.price < before
        if move.replacements:
            assert sum(one.price for one in move.replacements) < before
        snapshot = after(snapshot, [move])


@attack
@given(worlds, choices)
def test_nodes_that_are_weighed_together_are_judged_as_each_of_them_alone(
    snapshot: ClusterSnapshot, chosen: ConsolidationSettings
) -> None:
    whatif = WhatIf(view_of(snapshot))
    ground = Ground(whatif, chosen, {})
    there = [one for one in whatif.view.candidates if one.node.name in whatif.hosts]

    together = ground.weigh_all(there)

    assert together == {one.node.name: ground.weigh(one) for one in there}


@attack
@given(worlds, rooms, choices)
def test_two_passes_on_the_same_cluster_agree(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    view, allowed = view_of(snapshot), room_in(snapshot, room)

    assert consolidate(view, allowed, settings=chosen) == consolidate(
        view, allowed, settings=chosen
    )


@attack
@given(worlds, st.integers(1, 4), choices)
def test_passes_come_to_an_end(
    snapshot: ClusterSnapshot, room: int, chosen: ConsolidationSettings
) -> None:
    for _ in range(MOST_PASSES):
        found = consolidate(view_of(snapshot), room_in(snapshot, room), settings=chosen)
        if not found.moves:
            break
        snapshot = after(snapshot, found.moves)

    assert consolidate(view_of(snapshot), room_in(snapshot, room), settings=chosen).moves == ()


@attack
@given(worlds, rooms)
def test_nothing_is_said_against_moves_while_nothing_has_changed(
    snapshot: ClusterSnapshot, room: int
) -> None:
    view, allowed = view_of(snapshot), room_in(snapshot, room)
    moves = consolidate(view, allowed).moves

    again = Recheck(view, allowed)

    assert [again.objection(move) for move in moves] == [None] * len(moves)
