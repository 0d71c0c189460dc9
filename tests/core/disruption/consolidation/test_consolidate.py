"""Consolidation passes: nodes to delete or replace, and keep reasons of the others."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.consolidate import ConsolidationResult, consolidate
from dovetail.core.disruption.context import get_unconsolidatable_reason, is_within_consolidate_after
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, Disruption
from dovetail.model.node import NodeObject
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import a_pool_node, after, candidates_of, context_of, cost
from tests.support.scheduling.builders import a_node, a_pod, a_pool, affinity, cluster, pods, prefer_node
from tests.support.scheduling.instance_types import (
    ON_DEMAND,
    SPOT,
    Z1,
    Z2,
    a_type,
    incremental,
    offerings,
    reserved,
)
from tests.support.simulator.api_server import START

TYPES = incremental(8)
DEMAND = (label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])
POOL = a_pool(requirements=[DEMAND])


def a_cluster(*nodes: Any, **more: Any) -> ClusterSnapshot:
    types = more.pop("types", TYPES)
    return cluster(more.pop("pending_pods", ()), [more.pop("pool", POOL)], types, nodes=nodes, **more)


def run_pass(
    snapshot: ClusterSnapshot, allowed: int = 100, excluded: tuple[str, ...] = (), **choices: Any
) -> ConsolidationResult:
    allowed_disruptions = {pool.name: allowed for pool in snapshot.nodepools}
    return consolidate(
        context_of(snapshot, excluded), allowed_disruptions, settings=ConsolidationSettings(**choices)
    )


def removed(result: ConsolidationResult) -> list[str]:
    return sorted(candidate.node.name for command in result.commands for candidate in command.candidates)


def codes(result: ConsolidationResult) -> dict[str, str]:
    return {keep_reason.node: keep_reason.code for keep_reason in result.keep_reasons}


# --- Deleting and replacing one node ---------------------------------------------------------


def test_cs23_node_whose_pods_fit_elsewhere_is_deleted() -> None:
    snapshot = a_cluster(
        a_pool_node("full", TYPES[3], pods(3, "a", cpu=1)),
        a_pool_node("half", TYPES[3], pods(1, "b", cpu="500m")),
    )

    result = run_pass(snapshot)

    assert removed(result) == ["half"]
    (command,) = result.commands
    assert command.replacements == ()
    assert command.saving == pytest.approx(0.1 * 4 + 0.1 * 8 * 2**30 / 1e9)
    assert codes(result) == {"full": "receives"}


def test_cs3_node_too_large_for_its_pods_is_replaced_by_a_cheaper_one() -> None:
    snapshot = a_cluster(a_pool_node("large", TYPES[7], [a_pod("p", cpu="1500m")]))

    (command,) = run_pass(snapshot).commands

    (new_node,) = command.replacements
    assert new_node.instance_type.name == "fake-it-1"
    assert "fake-it-7" not in [kind.name for kind in new_node.instance_types]
    assert command.saving > 0


def test_node_of_the_right_size_is_kept_and_the_message_names_the_best_price() -> None:
    snapshot = a_cluster(a_pool_node("fits", TYPES[1], [a_pod("p", cpu="1500m")]))

    (reason,) = run_pass(snapshot).keep_reasons

    assert reason.code == "not-cheaper"
    assert "fake-it-1" in reason.message
    assert reason.price > 0


def test_cs33_unschedulable_pod_keeps_its_node_and_is_named() -> None:
    node = a_pool_node("only", TYPES[0], [a_pod("huge", cpu=30)])
    snapshot = a_cluster(replace(node, allocatable=node.allocatable + TYPES[7].capacity))

    (reason,) = run_pass(snapshot).keep_reasons

    assert reason.code == "no-place"
    assert "default/huge" in reason.message


def test_cs27_needed_uninitialized_node_keeps_other_nodes() -> None:
    snapshot = a_cluster(
        a_pool_node("old", TYPES[3], [a_pod("p")]),
        a_pool_node("new", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
    )

    result = run_pass(snapshot)

    assert codes(result) == {"old": "not-ready"}


def test_cs29_excluded_target_receives_no_pods() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[1], [a_pod("p", cpu=1)]), a_pool_node("b", TYPES[1]))
    both = context_of(snapshot, ("b",))
    only_a = replace(both, candidates=both.candidates[:1])

    assert consolidate(only_a, {"default": 9}).commands == ()
    assert len(consolidate(replace(only_a, excluded_targets=frozenset()), {"default": 9}).commands) == 1


def test_cs37_anti_affinity_keeps_pods_on_separate_nodes() -> None:
    exclusive = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_pool_node("a", TYPES[0], [a_pod("db-0", **exclusive)]),
        a_pool_node("b", TYPES[0], [a_pod("db-1", **exclusive)]),
    )

    assert codes(run_pass(snapshot)) == {"a": "not-cheaper", "b": "not-cheaper"}


def test_node_of_unknown_price_is_deleted_but_never_replaced() -> None:
    stranger = a_type("stranger", cpu=8, memory="16Gi", pods=50)
    unknown = a_pool_node("unknown", stranger, [a_pod("p", cpu=1)])

    assert codes(run_pass(a_cluster(unknown))) == {"unknown": "no-price"}
    beside = a_cluster(unknown, a_node("by-hand", cpu=4))
    assert removed(run_pass(beside)) == ["unknown"]


# --- Prices ----------------------------------------------------------------------------------


def test_cs21_replacement_must_be_cheaper_at_its_maximum_price() -> None:
    small = a_type(
        "small", cpu=2, pods=10, offered=[*offerings(0.3, [(SPOT, Z1)]), *offerings(1.2, [(SPOT, Z2)])]
    )
    large = a_type("large", cpu=8, pods=50, offered=offerings(1.0, [(ON_DEMAND, Z1)]))
    snapshot = a_cluster(a_pool_node("a", large, [a_pod("p")]), pool=a_pool(), types=[small, large])

    assert codes(run_pass(snapshot)) == {"a": "not-cheaper"}


def test_replacement_that_allows_both_is_launched_as_spot() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[7], [a_pod("p")]), pool=a_pool())

    (command,) = run_pass(snapshot).commands

    (new_node,) = command.replacements
    assert new_node.offering.capacity_type == SPOT
    assert new_node.requirements[label_keys.CAPACITY_TYPE].values == {SPOT}


def test_cs40_reserved_capacity_replaces_on_demand() -> None:
    kind = a_type("held", cpu=4, pods=20, offered=[*offerings(1.0, [(ON_DEMAND, Z1)]), reserved(Z1, "cr", 1)])
    snapshot = a_cluster(a_pool_node("a", kind, [a_pod("p")]), pool=a_pool(), types=[kind])

    (command,) = run_pass(snapshot).commands

    assert [replacement.reservation_ids for replacement in command.replacements] == [("cr",)]


# --- Spot to spot ----------------------------------------------------------------------------


def a_spot_cluster() -> ClusterSnapshot:
    node = a_pool_node("a", TYPES[7], [a_pod("p")], capacity_type=SPOT)
    return a_cluster(node, pool=a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [SPOT])]))


def test_cs6_spot_to_spot_needs_the_feature_gate() -> None:
    assert codes(run_pass(a_spot_cluster())) == {"a": "spot-to-spot"}


def test_cs5_spot_to_spot_needs_enough_cheaper_types() -> None:
    (reason,) = run_pass(a_spot_cluster(), spot_to_spot=True).keep_reasons

    assert reason.code == "spot-to-spot"
    assert "only 7" in reason.message


def test_cs4_spot_to_spot_requests_only_the_minimum_number_of_types() -> None:
    (command,) = run_pass(a_spot_cluster(), spot_to_spot=True, min_spot_types=3).commands

    (new_node,) = command.replacements
    assert [kind.name for kind in new_node.instance_types] == [f"fake-it-{i}" for i in range(3)]


def test_cs10_min_values_raise_the_number_of_types() -> None:
    node = a_pool_node("a", TYPES[7], [a_pod("p")], capacity_type=SPOT)
    wide = (label_keys.INSTANCE_TYPE, "Exists", [], 5)
    pool = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [SPOT]), wide])

    (command,) = run_pass(a_cluster(node, pool=pool), spot_to_spot=True, min_spot_types=3).commands

    assert len(command.replacements[0].instance_types) == 5


def test_cs11_cheaper_types_must_meet_min_values() -> None:
    wide = (label_keys.INSTANCE_TYPE, "Exists", [], 3)
    node = a_pool_node("a", TYPES[2], [a_pod("p")])

    result = run_pass(a_cluster(node, pool=a_pool(requirements=[DEMAND, wide])))

    assert codes(result) == {"a": "min-values"}


def test_spot_node_can_be_deleted_without_the_feature_gate() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], [a_pod("p")], capacity_type=SPOT),
        a_pool_node("b", TYPES[3], pods(2, "q", cpu=1), capacity_type=SPOT),
        pool=a_pool(),
    )

    assert removed(run_pass(snapshot)) == ["a"]


# --- Which first, and how many ---------------------------------------------------------------


def test_sn5_of_equal_nodes_the_one_with_fewer_pods_is_removed() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[3], pods(3, "a", cpu="300m")),
        a_pool_node("b", TYPES[3], pods(1, "b", cpu="300m")),
    )

    assert removed(run_pass(snapshot)) == ["b"]


def test_mn2_of_two_nodes_of_the_cheapest_type_one_is_deleted_without_replacement() -> None:
    snapshot = a_cluster(
        a_pool_node("a", TYPES[0], pods(2, "a", cpu="100m")),
        a_pool_node("b", TYPES[0], pods(1, "b", cpu="100m")),
    )

    result = run_pass(snapshot)

    assert removed(result) == ["b"]
    assert result.commands[0].replacements == ()


def test_mn1_three_nodes_become_one() -> None:
    nodes = [a_pool_node(f"n{i}", TYPES[3], [a_pod(f"p{i}", cpu=1)]) for i in range(3)]

    result = run_pass(a_cluster(*nodes))

    assert len(removed(result)) == 2


def test_nodes_of_which_none_can_be_replaced_alone_are_replaced_together() -> None:
    """Two nodes, each of the cheapest type for its pods; one larger holds both for less."""
    narrow = a_type("narrow", cpu=2, memory="4Gi", pods=20, price=1.0)
    broad = a_type("broad", cpu=4, memory="8Gi", pods=40, price=1.5)
    snapshot = a_cluster(
        a_pool_node("a", narrow, [a_pod("pa", cpu="1500m")]),
        a_pool_node("b", narrow, [a_pod("pb", cpu="1500m")]),
        types=[narrow, broad],
    )

    (command,) = run_pass(snapshot).commands

    assert len(command.candidates) == 2
    assert [replacement.instance_type.name for replacement in command.replacements] == ["broad"]
    assert command.saving == pytest.approx(0.5)


def test_mn5_budget_bounds_the_number_of_nodes_and_is_the_keep_reason_of_others() -> None:
    nodes = [a_pool_node(f"n{i}", TYPES[7], [a_pod(f"p{i}")]) for i in range(10)]

    result = run_pass(a_cluster(*nodes), allowed=3)

    assert len(removed(result)) == 3
    assert "budget" in codes(result).values()
    assert run_pass(a_cluster(*nodes), allowed=0).commands == ()


def test_order_of_removal_follows_simulated_savings_not_estimates() -> None:
    exclusive = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_pool_node("stays", TYPES[7], [*pods(5, "a", cpu=1), a_pod("db-0", cpu=0, **exclusive)]),
        a_pool_node("tied", TYPES[4], [a_pod("db-1", cpu="1500m", **exclusive)]),
        a_pool_node("plain", TYPES[3], [a_pod("p", cpu="2800m")]),
    )

    first = run_pass(snapshot, allowed=1)
    both = run_pass(snapshot, allowed=2)

    assert removed(first) == ["plain"]
    assert removed(both) == ["plain", "tied"]


def test_preferences_of_pods_do_not_keep_a_node() -> None:
    preference = [prefer_node(1, (label_keys.ZONE, "In", [Z2]))]
    snapshot = a_cluster(
        a_pool_node("full", TYPES[3], pods(3, "a", cpu=1)),
        a_pool_node("half", TYPES[3], [a_pod("b", cpu="500m", preferred_node_terms=preference)]),
    )

    assert "half" in removed(run_pass(snapshot))


def test_receiving_node_is_kept_in_the_same_pass() -> None:
    nodes = [a_pool_node(f"n{i}", TYPES[3], [a_pod(f"p{i}")]) for i in range(4)]

    result = run_pass(a_cluster(*nodes))

    receiving = {placement.node for command in result.commands for placement in command.placements}
    assert receiving
    assert not receiving & set(removed(result))


# --- Thresholds ------------------------------------------------------------------------------


def test_saving_below_the_minimum_keeps_the_node() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[7], [a_pod("p")]))

    (reason,) = run_pass(snapshot, min_saving=100.0).keep_reasons

    assert reason.code == "below-threshold"


def test_saving_per_pod_below_the_minimum_keeps_the_node() -> None:
    cheap, cheaper = a_type("expensive", pods=200, price=0.02), a_type("same", pods=200, price=0.0195)
    snapshot = a_cluster(a_pool_node("a", cheap, pods(20, "p", cpu="10m")), types=[cheap, cheaper])

    assert codes(run_pass(snapshot)) == {"a": "below-threshold"}
    assert removed(run_pass(snapshot, min_saving_per_pod=0.0)) == ["a"]


def test_policy_balanced_rejects_low_savings_for_high_disruption() -> None:
    balanced = a_pool(requirements=[DEMAND], disruption=Disruption(policy=ConsolidationPolicy.BALANCED))
    # Replacing the busy node saves a quarter of its price for half of all disruption.
    snapshot = a_cluster(
        a_pool_node("busy", TYPES[3], pods(9, "p", cpu="300m")),
        a_pool_node("calm", TYPES[7], [a_pod("q", cpu="7500m")]),
        pool=balanced,
    )

    assert codes(run_pass(snapshot)) == {"busy": "balanced", "calm": "not-cheaper"}
    assert removed(run_pass(snapshot, balanced_k=50.0)) == ["busy"]


# --- No loops --------------------------------------------------------------------------------


def test_a_second_pass_changes_nothing() -> None:
    nodes = [a_pool_node(f"n{i}", TYPES[i % 8], pods(1 + i % 3, f"p{i}", cpu="400m")) for i in range(12)]
    snapshot, prices = a_cluster(*nodes), []
    while commands := run_pass(snapshot).commands:
        snapshot = after(snapshot, commands)
        prices.append(cost(snapshot))

    assert run_pass(snapshot).commands == ()
    assert prices == sorted(prices, reverse=True)


# --- Who is looked at ------------------------------------------------------------------------


def test_settings_of_the_nodepool_are_the_unconsolidatable_reason() -> None:
    (candidate,) = candidates_of(a_cluster(a_pool_node("a", TYPES[0])))

    def in_pool(**fields: Any) -> Any:
        return replace(candidate, pool=a_pool(**fields))

    assert get_unconsolidatable_reason(candidate) is None
    assert "static" in str(get_unconsolidatable_reason(in_pool(replicas=3)))
    assert "Never" in str(get_unconsolidatable_reason(in_pool(disruption=Disruption(consolidate_after=None))))
    empty = Disruption(policy=ConsolidationPolicy.WHEN_EMPTY)
    assert "WhenEmpty" in str(get_unconsolidatable_reason(in_pool(disruption=empty)))
    assert label_keys.ZONE in str(
        get_unconsolidatable_reason(
            replace(
                candidate,
                node=NodeObject(name="a", labels=candidate.node.labels.with_items({label_keys.ZONE: ""})),
            )
        )
    )


def test_consolidate_after_counts_from_the_last_pod_event() -> None:
    claim = NodeClaim(name="c", last_pod_event=START)
    pool = a_pool(disruption=Disruption(consolidate_after=timedelta(minutes=5)))

    assert is_within_consolidate_after(claim, pool, START + timedelta(minutes=4))
    assert not is_within_consolidate_after(claim, pool, START + timedelta(minutes=5))
    assert not is_within_consolidate_after(claim, a_pool(), START)
    assert not is_within_consolidate_after(
        claim, a_pool(disruption=Disruption(consolidate_after=None)), START
    )


def test_candidate_whose_node_is_being_deleted_is_kept() -> None:
    snapshot = a_cluster(a_pool_node("a", TYPES[7], [a_pod("p")]))
    context = context_of(snapshot)
    deleting = tuple(replace(node, deleting=True) for node in snapshot.nodes)

    result = consolidate(replace(context, snapshot=replace(snapshot, nodes=deleting)), {"default": 9})

    assert result.commands == ()
    assert codes(result) == {"a": "spared"}
