"""Which nodes are given back or replaced, and why the others stay."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.consolidate import Consolidation, consolidate
from dovetail.core.disruption.context import in_window, unfit
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, Disruption
from dovetail.model.node import NodeObject
from dovetail.model.settings import ConsolidationSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.build import a_node, a_pod, a_pool, affinity, cluster, pods, prefer_node
from tests.support.catalog import (
    ON_DEMAND,
    SPOT,
    Z1,
    Z2,
    a_type,
    incremental,
    offerings,
    reserved,
)
from tests.support.cluster import START
from tests.support.consolidating import a_bought_node, after, candidates_of, cost, view_of

TYPES = incremental(8)
DEMAND = (label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])
POOL = a_pool(requirements=[DEMAND])


def a_cluster(*nodes: Any, **more: Any) -> ClusterSnapshot:
    types = more.pop("types", TYPES)
    return cluster(more.pop("pending", ()), [more.pop("pool", POOL)], types, nodes=nodes, **more)


def one_pass(
    snapshot: ClusterSnapshot, room: int = 100, closed: tuple[str, ...] = (), **choices: Any
) -> Consolidation:
    rooms = {pool.name: room for pool in snapshot.node_pools}
    return consolidate(view_of(snapshot, closed), rooms, settings=ConsolidationSettings(**choices))


def removed(found: Consolidation) -> list[str]:
    return sorted(one.node.name for move in found.moves for one in move.removed)


def codes(found: Consolidation) -> dict[str, str]:
    return {one.node: one.code for one in found.stays}


# --- Deleting and replacing one node ---------------------------------------------------------


def test_cs23_a_node_whose_pods_fit_elsewhere_is_given_back() -> None:
    snapshot = a_cluster(
        a_bought_node("full", TYPES[3], pods(3, "a", cpu=1)),
        a_bought_node("half", TYPES[3], pods(1, "b", cpu="500m")),
    )

    found = one_pass(snapshot)

    assert removed(found) == ["half"]
    (move,) = found.moves
    assert move.replacements == ()
    assert move.saving == pytest.approx(0.1 * 4 + 0.1 * 8 * 2**30 / 1e9)
    assert codes(found) == {"full": "receives"}


def test_cs3_a_node_too_large_for_its_pods_is_replaced_by_a_cheaper_one() -> None:
    snapshot = a_cluster(a_bought_node("large", TYPES[7], [a_pod("p", cpu="1500m")]))

    (move,) = one_pass(snapshot).moves

    (bought,) = move.replacements
    assert bought.instance_type.name == "fake-it-1"
    assert "fake-it-7" not in [kind.name for kind in bought.instance_types]
    assert move.saving > 0


def test_a_node_of_the_right_size_stays_and_the_best_price_found_is_told() -> None:
    snapshot = a_cluster(a_bought_node("fits", TYPES[1], [a_pod("p", cpu="1500m")]))

    (stay,) = one_pass(snapshot).stays

    assert stay.code == "not-cheaper"
    assert "fake-it-1" in stay.because
    assert stay.price > 0


def test_cs33_a_pod_without_another_place_keeps_its_node_and_is_named() -> None:
    node = a_bought_node("only", TYPES[0], [a_pod("huge", cpu=30)])
    snapshot = a_cluster(replace(node, allocatable=node.allocatable + TYPES[7].capacity))

    (stay,) = one_pass(snapshot).stays

    assert stay.code == "no-place"
    assert "default/huge" in stay.because


def test_cs27_a_node_that_is_needed_and_still_starting_keeps_others() -> None:
    snapshot = a_cluster(
        a_bought_node("old", TYPES[3], [a_pod("p")]),
        a_bought_node("new", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
    )

    found = one_pass(snapshot)

    assert codes(found) == {"old": "not-ready"}


def test_cs29_a_node_within_its_window_is_filled_only_once_that_is_over() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[1], [a_pod("p", cpu=1)]), a_bought_node("b", TYPES[1])
    )
    both = view_of(snapshot, ("b",))
    only_a = replace(both, candidates=both.candidates[:1])

    assert consolidate(only_a, {"default": 9}).moves == ()
    assert len(consolidate(replace(only_a, closed=frozenset()), {"default": 9}).moves) == 1


def test_cs37_pods_that_must_keep_apart_are_not_brought_together() -> None:
    lonely = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_bought_node("a", TYPES[0], [a_pod("db-0", **lonely)]),
        a_bought_node("b", TYPES[0], [a_pod("db-1", **lonely)]),
    )

    assert codes(one_pass(snapshot)) == {"a": "not-cheaper", "b": "not-cheaper"}


def test_a_node_whose_price_is_not_known_is_deleted_but_never_replaced() -> None:
    stranger = a_type("stranger", cpu=8, memory="16Gi", pods=50)
    unknown = a_bought_node("unknown", stranger, [a_pod("p", cpu=1)])

    assert codes(one_pass(a_cluster(unknown))) == {"unknown": "no-price"}
    beside = a_cluster(unknown, a_node("by-hand", cpu=4))
    assert removed(one_pass(beside)) == ["unknown"]


# --- Prices ----------------------------------------------------------------------------------


def test_cs21_a_replacement_must_be_cheaper_even_where_it_is_dearest() -> None:
    small = a_type(
        "small",
        cpu=2,
        pods=10,
        offered=[*offerings(0.3, [(SPOT, Z1)]), *offerings(1.2, [(SPOT, Z2)])],
    )
    large = a_type("large", cpu=8, pods=50, offered=offerings(1.0, [(ON_DEMAND, Z1)]))
    snapshot = a_cluster(
        a_bought_node("a", large, [a_pod("p")]), pool=a_pool(), types=[small, large]
    )

    assert codes(one_pass(snapshot)) == {"a": "not-cheaper"}


def test_a_replacement_that_could_be_either_is_bought_as_spot() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[7], [a_pod("p")]), pool=a_pool())

    (move,) = one_pass(snapshot).moves

    (bought,) = move.replacements
    assert bought.offering.capacity_type == SPOT
    assert bought.requirements[label_keys.CAPACITY_TYPE].values == {SPOT}


def test_cs40_capacity_that_is_paid_for_takes_the_place_of_on_demand() -> None:
    kind = a_type(
        "held", cpu=4, pods=20, offered=[*offerings(1.0, [(ON_DEMAND, Z1)]), reserved(Z1, "cr", 1)]
    )
    snapshot = a_cluster(a_bought_node("a", kind, [a_pod("p")]), pool=a_pool(), types=[kind])

    (move,) = one_pass(snapshot).moves

    assert [one.reservation_ids for one in move.replacements] == [("cr",)]


# --- Spot to spot ----------------------------------------------------------------------------


def a_spot_cluster() -> ClusterSnapshot:
    node = a_bought_node("a", TYPES[7], [a_pod("p")], capacity_type=SPOT)
    return a_cluster(node, pool=a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [SPOT])]))


def test_cs6_spot_is_not_replaced_by_spot_unless_the_gate_is_open() -> None:
    assert codes(one_pass(a_spot_cluster())) == {"a": "spot-to-spot"}


def test_cs5_nor_with_too_few_cheaper_types_to_choose_from() -> None:
    (stay,) = one_pass(a_spot_cluster(), spot_to_spot=True).stays

    assert stay.code == "spot-to-spot"
    assert "only 7" in stay.because


def test_cs4_with_enough_of_them_it_is_and_no_more_are_asked_for_than_that() -> None:
    (move,) = one_pass(a_spot_cluster(), spot_to_spot=True, spot_types=3).moves

    (bought,) = move.replacements
    assert [kind.name for kind in bought.instance_types] == [f"fake-it-{i}" for i in range(3)]


def test_cs10_minimum_values_widen_the_choice() -> None:
    node = a_bought_node("a", TYPES[7], [a_pod("p")], capacity_type=SPOT)
    wide = (label_keys.INSTANCE_TYPE, "Exists", [], 5)
    pool = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [SPOT]), wide])

    (move,) = one_pass(a_cluster(node, pool=pool), spot_to_spot=True, spot_types=3).moves

    assert len(move.replacements[0].instance_types) == 5


def test_cs11_a_price_that_leaves_too_few_types_for_minimum_values_is_no_price() -> None:
    wide = (label_keys.INSTANCE_TYPE, "Exists", [], 3)
    node = a_bought_node("a", TYPES[2], [a_pod("p")])

    found = one_pass(a_cluster(node, pool=a_pool(requirements=[DEMAND, wide])))

    assert codes(found) == {"a": "min-values"}


def test_a_spot_node_may_always_be_deleted() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p")], capacity_type=SPOT),
        a_bought_node("b", TYPES[3], pods(2, "q", cpu=1), capacity_type=SPOT),
        pool=a_pool(),
    )

    assert removed(one_pass(snapshot)) == ["a"]


# --- Which first, and how many ---------------------------------------------------------------


def test_sn5_of_equal_nodes_the_one_with_fewer_pods_goes() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], pods(3, "a", cpu="300m")),
        a_bought_node("b", TYPES[3], pods(1, "b", cpu="300m")),
    )

    assert removed(one_pass(snapshot)) == ["b"]


def test_mn2_of_two_nodes_of_the_cheapest_type_one_is_deleted_and_none_is_bought() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[0], pods(2, "a", cpu="100m")),
        a_bought_node("b", TYPES[0], pods(1, "b", cpu="100m")),
    )

    found = one_pass(snapshot)

    assert removed(found) == ["b"]
    assert found.moves[0].replacements == ()


def test_mn1_three_nodes_become_one() -> None:
    nodes = [a_bought_node(f"n{i}", TYPES[3], [a_pod(f"p{i}", cpu=1)]) for i in range(3)]

    found = one_pass(a_cluster(*nodes))

    assert len(removed(found)) == 2


def test_nodes_of_which_none_can_be_replaced_alone_are_replaced_together() -> None:
    """Two nodes, each of the cheapest type for its pods; one larger holds both for less."""
    narrow = a_type("narrow", cpu=2, memory="4Gi", pods=20, price=1.0)
    broad = a_type("broad", cpu=4, memory="8Gi", pods=40, price=1.5)
    snapshot = a_cluster(
        a_bought_node("a", narrow, [a_pod("pa", cpu="1500m")]),
        a_bought_node("b", narrow, [a_pod("pb", cpu="1500m")]),
        types=[narrow, broad],
    )

    (move,) = one_pass(snapshot).moves

    assert len(move.removed) == 2
    assert [one.instance_type.name for one in move.replacements] == ["broad"]
    assert move.saving == pytest.approx(0.5)


def test_mn5_no_more_nodes_go_than_the_budget_allows_and_the_others_say_so() -> None:
    nodes = [a_bought_node(f"n{i}", TYPES[7], [a_pod(f"p{i}")]) for i in range(10)]

    found = one_pass(a_cluster(*nodes), room=3)

    assert len(removed(found)) == 3
    assert "budget" in codes(found).values()
    assert one_pass(a_cluster(*nodes), room=0).moves == ()


def test_who_goes_first_is_decided_by_what_ties_between_pods_leave_of_a_saving() -> None:
    lonely = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_bought_node("stays", TYPES[7], [*pods(5, "a", cpu=1), a_pod("db-0", cpu=0, **lonely)]),
        a_bought_node("tied", TYPES[4], [a_pod("db-1", cpu="1500m", **lonely)]),
        a_bought_node("plain", TYPES[3], [a_pod("p", cpu="2800m")]),
    )

    first = one_pass(snapshot, room=1)
    both = one_pass(snapshot, room=2)

    assert removed(first) == ["plain"]
    assert removed(both) == ["plain", "tied"]


def test_a_node_whose_pods_have_wishes_stays_only_if_it_would_without_them() -> None:
    wish = [prefer_node(1, (label_keys.ZONE, "In", [Z2]))]
    snapshot = a_cluster(
        a_bought_node("full", TYPES[3], pods(3, "a", cpu=1)),
        a_bought_node("half", TYPES[3], [a_pod("b", cpu="500m", preferred_node_terms=wish)]),
    )

    assert "half" in removed(one_pass(snapshot))


def test_a_node_that_takes_pods_of_others_stays_in_this_pass() -> None:
    nodes = [a_bought_node(f"n{i}", TYPES[3], [a_pod(f"p{i}")]) for i in range(4)]

    found = one_pass(a_cluster(*nodes))

    taking = {one.node for move in found.moves for one in move.placements}
    assert taking
    assert not taking & set(removed(found))


# --- Thresholds ------------------------------------------------------------------------------


def test_a_saving_below_the_minimum_is_left() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[7], [a_pod("p")]))

    (stay,) = one_pass(snapshot, min_saving=100.0).stays

    assert stay.code == "below-threshold"


def test_pods_are_not_moved_for_pennies() -> None:
    cheap, cheaper = a_type("dear", pods=200, price=0.02), a_type("same", pods=200, price=0.0195)
    snapshot = a_cluster(
        a_bought_node("a", cheap, pods(20, "p", cpu="10m")), types=[cheap, cheaper]
    )

    assert codes(one_pass(snapshot)) == {"a": "below-threshold"}
    assert removed(one_pass(snapshot, min_saving_per_cost=0.0)) == ["a"]


def test_balanced_pools_refuse_what_saves_too_little_for_its_disruption() -> None:
    balanced = a_pool(
        requirements=[DEMAND], disruption=Disruption(policy=ConsolidationPolicy.BALANCED)
    )
    # Replacing the busy node saves a quarter of its price for half of all disruption.
    snapshot = a_cluster(
        a_bought_node("busy", TYPES[3], pods(9, "p", cpu="300m")),
        a_bought_node("calm", TYPES[7], [a_pod("q", cpu="7500m")]),
        pool=balanced,
    )

    assert codes(one_pass(snapshot)) == {"busy": "balanced", "calm": "not-cheaper"}
    assert removed(one_pass(snapshot, balanced_k=50.0)) == ["busy"]


# --- No loops --------------------------------------------------------------------------------


def test_a_second_pass_changes_nothing() -> None:
    nodes = [
        a_bought_node(f"n{i}", TYPES[i % 8], pods(1 + i % 3, f"p{i}", cpu="400m"))
        for i in range(12)
    ]
    world, prices = a_cluster(*nodes), []
    while found := one_pass(world).moves:
        world = after(world, found)
        prices.append(cost(world))

    assert one_pass(world).moves == ()
    assert prices == sorted(prices, reverse=True)


# --- Who is looked at ------------------------------------------------------------------------


def test_pools_that_do_not_want_it_are_left_alone_and_told_why() -> None:
    (one,) = candidates_of(a_cluster(a_bought_node("a", TYPES[0])))

    def in_pool(**fields: Any) -> Any:
        return replace(one, pool=a_pool(**fields))

    assert unfit(one) is None
    assert "static" in str(unfit(in_pool(replicas=3)))
    assert "Never" in str(unfit(in_pool(disruption=Disruption(consolidate_after=None))))
    empty = Disruption(policy=ConsolidationPolicy.WHEN_EMPTY)
    assert "empty" in str(unfit(in_pool(disruption=empty)))
    assert label_keys.ZONE in str(
        unfit(
            replace(
                one,
                node=NodeObject(
                    name="a",
                    labels=one.node.labels.with_items({label_keys.ZONE: ""}),
                ),
            )
        )
    )


def test_a_node_is_within_its_window_until_consolidate_after_has_passed() -> None:
    claim = NodeClaim(name="c", last_pod_event=START)
    pool = a_pool(disruption=Disruption(consolidate_after=timedelta(minutes=5)))

    assert in_window(claim, pool, START + timedelta(minutes=4))
    assert not in_window(claim, pool, START + timedelta(minutes=5))
    assert not in_window(claim, a_pool(), START)
    assert not in_window(claim, a_pool(disruption=Disruption(consolidate_after=None)), START)


def test_a_candidate_whose_node_is_on_its_way_out_is_left_alone() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[7], [a_pod("p")]))
    view = view_of(snapshot)
    marked = tuple(replace(node, deleting=True) for node in snapshot.nodes)

    found = consolidate(replace(view, snapshot=replace(snapshot, nodes=marked)), {"default": 9})

    assert found.moves == ()
    assert codes(found) == {"a": "spared"}
