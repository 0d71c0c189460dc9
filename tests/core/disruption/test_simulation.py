"""What would become of the pods if nodes were gone."""

import os
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.consolidation.estimate import QuickLook
from dovetail.core.disruption.simulation import Outcome, WhatIf
from dovetail.core.scheduling.problem import ready_first
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.build import a_node, a_pod, a_pool, affinity, cluster, pods, zone_spread
from tests.support.catalog import ON_DEMAND, Z1, Z2, incremental
from tests.support.checker import check
from tests.support.consolidating import (
    a_bought_node,
    as_plan,
    candidates_of,
    leaving,
    plain,
    running_clusters,
    some_of,
    view_of,
)

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
attack = settings(
    max_examples=LONG or 40,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TYPES = incremental(8)
POOL = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])


def a_cluster(*nodes: Any, **more: Any) -> ClusterSnapshot:
    return cluster(more.pop("pending", ()), [more.pop("pool", POOL)], TYPES, nodes=nodes, **more)


def without(snapshot: ClusterSnapshot, *names: str, closed: tuple[str, ...] = ()) -> Outcome:
    return WhatIf(view_of(snapshot, closed)).without(names)


def names_of(snapshot: ClusterSnapshot) -> list[str]:
    return [one.node.name for one in candidates_of(snapshot)]


def verdict(found: Outcome | Plan) -> object:
    nodes = found.nodes
    price = round(sum(one.price for one in nodes), 9)
    return sorted(one.pod.key for one in found.unplaced), len(nodes), price


# --- Laws ------------------------------------------------------------------------------------


@attack
@given(running_clusters(), st.data())
def test_every_answer_is_a_plan_that_kube_scheduler_could_carry_out(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    assume(names_of(snapshot))
    gone = data.draw(some_of(names_of(snapshot)))

    found = without(snapshot, *gone)

    assert [str(one) for one in check(leaving(snapshot, gone), as_plan(found))] == []


@attack
@given(running_clusters(), st.data())
def test_a_question_leaves_no_trace_in_the_answers_to_later_ones(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    assume(names_of(snapshot))
    one, other = data.draw(some_of(names_of(snapshot))), data.draw(some_of(names_of(snapshot)))
    whatif = WhatIf(view_of(snapshot))

    first = whatif.without(one)
    whatif.without(other)

    assert whatif.without(one) == first


@attack
@given(running_clusters(), st.data())
def test_for_pods_without_ties_the_answer_is_the_solvers(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    snapshot = plain(snapshot)
    assume(names_of(snapshot))
    gone = data.draw(some_of(names_of(snapshot)))
    chosen = SchedulingSettings(packing=Packing.FEWEST)
    whatif = WhatIf(view_of(snapshot), chosen, order=ready_first)

    found = whatif.ask([whatif.hosts[name] for name in gone], fewest=True)

    plan = solve(leaving(snapshot, gone), chosen)
    assert verdict(found) == verdict(plan)


@attack
@given(running_clusters(), st.data())
def test_the_quick_answer_is_the_same_wherever_there_is_one(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    snapshot = plain(snapshot)
    assume(names_of(snapshot))
    whatif = WhatIf(view_of(snapshot))
    quick = QuickLook(whatif)
    gone = [whatif.hosts[name] for name in data.draw(some_of(names_of(snapshot)))]
    assume(quick.knows(gone))

    guess, found = quick.ask(gone), whatif.ask(gone, fewest=True)

    assert (guess.starting >= 0) == bool(found.starting)
    if not found.starting:
        assert (guess.price == 0) == (found.possible and not found.nodes)
        assert (guess.lost >= 0) == bool(found.unplaced)
        if found.possible and len(found.nodes) == 1:
            assert abs(guess.price - found.price) < 1e-9


# --- Cases -----------------------------------------------------------------------------------


def test_pods_that_fit_elsewhere_need_no_new_node() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], pods(2, "web", cpu=1)), a_bought_node("b", TYPES[3])
    )

    found = without(snapshot, "a")

    assert found.possible
    assert found.nodes == ()
    assert [(one.node, len(one.pods)) for one in found.placements] == [("b", 2)]


def test_nodes_that_others_manage_are_places_too() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[3], [a_pod("p")]), a_node("by-hand", cpu=8))

    assert [one.node for one in without(snapshot, "a").placements] == ["by-hand"]


def test_pods_that_fit_nowhere_get_the_cheapest_node_that_holds_them() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[7], [a_pod("p", cpu="1500m")]))

    found = without(snapshot, "a")

    assert [one.instance_type.name for one in found.nodes] == ["fake-it-1"]


def test_a_pod_that_no_node_could_hold_is_named_with_the_reason() -> None:
    big = a_bought_node("a", TYPES[7], [a_pod("p", cpu=30)])

    found = without(a_cluster(replace(big, allocatable=a_node("x", cpu=64).allocatable)), "a")

    assert not found.possible
    assert "default/p" in found.blocked


def test_cs27_pods_do_not_go_to_a_node_that_is_still_starting() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p")]),
        a_bought_node("b", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
    )

    found = without(snapshot, "a")

    assert found.starting == "b"
    assert not found.possible


def test_cs28_nodes_that_are_ready_are_used_before_those_that_start() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p")]),
        a_bought_node("b", TYPES[3], initialized=False, claim_allocatable=TYPES[3].allocatable),
        a_bought_node("c", TYPES[3]),
    )

    assert [one.node for one in without(snapshot, "a").placements] == ["c"]


def test_cs29_a_node_within_its_window_takes_no_running_pods() -> None:
    snapshot = a_cluster(a_bought_node("a", TYPES[3], [a_pod("p")]), a_bought_node("b", TYPES[3]))

    assert without(snapshot, "a").nodes == ()
    assert len(without(snapshot, "a", closed=("b",)).nodes) == 1


def test_room_that_waiting_pods_will_take_is_not_given_away() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[1], [a_pod("p", cpu="1500m")]),
        a_bought_node("b", TYPES[1]),
        pending=[a_pod("waits", cpu="1500m")],
    )

    assert len(without(snapshot, "a").nodes) == 1


def test_cs34_a_waiting_pod_that_needs_the_node_must_have_a_place_too() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p", cpu="100m")]),
        pending=[a_pod("waits", cpu=3)],
    )

    found = without(snapshot, "a")

    assert [one.instance_type.name for one in found.nodes] == ["fake-it-3"]


def test_cs32_a_pod_that_waits_in_vain_is_in_nobodys_way() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p")]),
        a_bought_node("b", TYPES[3]),
        pending=[a_pod("vain", cpu=500)],
    )

    assert without(snapshot, "a").possible


def test_nodes_on_their_way_out_are_no_places() -> None:
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("p")]), a_bought_node("b", TYPES[3], deleting=True)
    )

    assert len(without(snapshot, "a").nodes) == 1


def test_what_a_node_takes_of_its_pools_limits_is_free_without_it() -> None:
    pool = a_pool(limits={"cpu": 8})
    snapshot = a_cluster(a_bought_node("a", TYPES[7], [a_pod("p", cpu="1500m")]), pool=pool)

    assert without(snapshot, "a").possible


def test_cs36_pods_that_spread_over_zones_stay_spread() -> None:
    web = {"labels": {"app": "web"}, "spreads": [zone_spread({"app": "web"})]}
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("w-0", **web)], zone=Z1),
        a_bought_node("b", TYPES[3], [a_pod("w-1", **web)], zone=Z2),
        pool=a_pool(requirements=[(label_keys.ZONE, "In", [Z1, Z2])]),
    )

    found = without(snapshot, "a")

    assert [one.offering.zone for one in found.nodes] == [Z1]


def test_cs37_pods_that_keep_apart_do_not_end_up_together() -> None:
    lonely = {"labels": {"app": "db"}, "anti_affinity": [affinity({"app": "db"})]}
    snapshot = a_cluster(
        a_bought_node("a", TYPES[3], [a_pod("db-0", **lonely)]),
        a_bought_node("b", TYPES[3], [a_pod("db-1", **lonely)]),
    )

    found = without(snapshot, "a")

    assert found.placements == ()
    assert len(found.nodes) == 1
