"""Policies choose from the moves of a pass, and can do nothing else."""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.consolidate import ConsolidationResult
from dovetail.core.disruption.consolidation.policy_choice import consolidate_by_policy
from dovetail.core.disruption.method import MethodInput
from dovetail.core.disruption.policy import DEFAULT_POLICY, Move, Offer, Policy, Search, ask_policy
from dovetail.model import labels as label_keys
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import a_pool_node, attack, context_of, running_clusters
from tests.support.scheduling.builders import a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, incremental
from tests.support.simulator.api_server import START

TYPES = incremental(8)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
Function = Callable[[Offer], Any]


def as_policy(function: Function) -> Policy:
    return Policy("test", choose=lambda offer: ask_policy(function, offer))


def run_pass(
    snapshot: ClusterSnapshot, policy: Policy = DEFAULT_POLICY, allowed: int = 100
) -> ConsolidationResult:
    context = context_of(replace(snapshot, now=START))
    return consolidate_by_policy(
        MethodInput(
            candidates=context.candidates,
            allowed_disruptions={pool.name: allowed for pool in snapshot.nodepools},
            context=context,
            policy=policy,
        )
    )


def removed(result: ConsolidationResult) -> list[str]:
    return [candidate.name for command in result.commands for candidate in command.candidates]


def codes(result: ConsolidationResult) -> dict[str, str]:
    return {reason.node: reason.code for reason in result.keep_reasons}


def three_underused_nodes() -> ClusterSnapshot:
    """Return three nodes, each of which can be replaced by a smaller one."""
    nodes = [a_pool_node(name, TYPES[7], pods(2, name, cpu=3)) for name in ("a", "b", "c")]
    return cluster((), [POOL], TYPES, nodes=nodes)


def test_declined_move_is_not_made_and_its_node_says_which_policy_declined() -> None:
    snapshot = three_underused_nodes()

    result = run_pass(snapshot, as_policy(lambda _: []))

    assert removed(run_pass(snapshot)) != []
    assert result.commands == ()
    assert "policy" in codes(result).values()
    assert any("policy 'test' declined to evict" in reason.message for reason in result.keep_reasons)


def test_declined_move_uses_no_budget() -> None:
    snapshot = three_underused_nodes()
    first = removed(run_pass(snapshot, allowed=1))

    def decline_first(offer: Offer) -> Iterable[Move]:
        return (move for move in offer.moves if [node.name for node in move.nodes] != first)

    result = run_pass(snapshot, as_policy(decline_first), allowed=1)

    assert len(removed(result)) == 1
    assert removed(result) != first
    assert codes(result)[first[0]] == "policy"


def test_offer_names_pods_costs_and_budgets() -> None:
    offers: list[Offer] = []

    def take_all(offer: Offer) -> Iterable[Move]:
        offers.append(offer)
        return offer.moves

    result = run_pass(three_underused_nodes(), as_policy(take_all), allowed=2)

    (offer,) = offers
    assert [node.name for move in offer.moves for node in move.nodes] == removed(result)
    assert [move.evictions for move in offer.moves] == [command.pod_count for command in result.commands]
    assert all(move.saving > 0 and move.disruption_cost > 1 for move in offer.moves)
    assert offer.nodepools["default"].budget == 2
    assert offer.now == START


def test_failed_policy_leaves_the_choice_to_the_built_in_one() -> None:
    snapshot = three_underused_nodes()

    result = run_pass(snapshot, as_policy(lambda offer: 1 / 0))

    assert result.policy_failure == "it raised ZeroDivisionError: division by zero"
    assert result.commands == run_pass(snapshot).commands


def _answer(offer: Offer, seed: list[int], nonsense: Any) -> Any:
    """Return a choice made of offered moves in any order, maybe twice, and maybe nonsense."""
    chosen = [offer.moves[number % len(offer.moves)] for number in seed]
    return nonsense if nonsense is not None else chosen


nonsense = st.sampled_from([None] * 4 + [7, "all", [1], [None], object(), {"moves": 1}])


@attack
@given(running_clusters(), st.integers(0, 3), st.lists(st.integers(0, 20), max_size=6), nonsense)
def test_whatever_a_policy_returns_budgets_hold_and_every_candidate_has_one_result(
    snapshot: ClusterSnapshot, allowed: int, seed: list[int], value: Any
) -> None:
    policy = as_policy(lambda offer: _answer(offer, seed, value))
    built_in = run_pass(snapshot, allowed=allowed)

    result = run_pass(snapshot, policy, allowed)

    names = removed(result)
    pools = {node.name: node.pool for node in snapshot.nodes}
    for pool in snapshot.nodepools:
        assert sum(pools[name] == pool.name for name in names) <= allowed
    context = context_of(snapshot)
    assert sorted([*names, *codes(result)]) == sorted(node.name for node in context.candidates)
    if result.policy_failure:
        assert result.commands == built_in.commands
    if value is not None and built_in.commands:
        assert result.policy_failure


@attack
@given(running_clusters(), st.integers(0, 3))
def test_a_policy_that_takes_every_move_decides_as_no_policy(snapshot: ClusterSnapshot, allowed: int) -> None:
    result = run_pass(snapshot, as_policy(lambda offer: offer.moves), allowed)

    assert result.commands == run_pass(snapshot, allowed=allowed).commands


# --- Karpenter's search ------------------------------------------------------------------------

KARPENTER = Policy("karpenter", Search.KARPENTER)


def test_karpenters_search_replaces_the_longest_list_of_nodes_by_one() -> None:
    nodes = [a_pool_node(name, TYPES[7], pods(2, name, cpu=1)) for name in ("a", "b", "c")]
    full = a_pool_node("full", TYPES[3], pods(8, "full", cpu="400m"))

    result = run_pass(cluster((), [POOL], TYPES, nodes=[*nodes, full]), KARPENTER)

    assert len(result.commands) == 1
    assert sorted(removed(result)) == ["a", "b", "c"]


def test_karpenters_search_takes_a_saving_that_is_too_small_for_the_built_in_one() -> None:
    node = a_pool_node("a", TYPES[7], pods(14, "a", cpu="450m"))
    snapshot = cluster((), [POOL], TYPES, nodes=[node])
    per_pod = ConsolidationSettings(min_saving_per_pod=1000.0)
    context = context_of(replace(snapshot, now=START))
    inputs = MethodInput(
        candidates=context.candidates, allowed_disruptions={"default": 1}, context=context, settings=per_pod
    )

    built_in = consolidate_by_policy(inputs)
    result = consolidate_by_policy(replace(inputs, policy=KARPENTER))

    assert codes(built_in) == {"a": "below-threshold"}
    assert removed(result) == ["a"]


@attack
@given(running_clusters(), st.integers(0, 3))
def test_karpenters_search_respects_budgets_and_explains_every_other_candidate(
    snapshot: ClusterSnapshot, allowed: int
) -> None:
    result = run_pass(snapshot, KARPENTER, allowed)

    names = removed(result)
    pools = {node.name: node.pool for node in snapshot.nodes}
    for pool in snapshot.nodepools:
        assert sum(pools[name] == pool.name for name in names) <= allowed
    assert len(result.commands) <= 1
    context = context_of(snapshot)
    assert sorted([*names, *codes(result)]) == sorted(node.name for node in context.candidates)
    assert all(reason.code and reason.message for reason in result.keep_reasons)
