"""Several topology rules in one pod or one cluster: none may override another."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.settings import Packing
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    affinity,
    cluster,
    node_term,
    pods,
    prefer_pods,
    selector,
    spread,
    zone_spread,
)
from tests.support.scheduling.instance_types import SPOT, Z1, Z2, Z3, a_type, offerings, reserved
from tests.support.scheduling.plans import node_of, placed, running_per, settled, unplaced, zones_of
from tests.support.scheduling.solver import packed, solved

APP = {"app": "a"}
ZONE, CAPACITY = label_keys.ZONE, label_keys.CAPACITY_TYPE
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing), ids=str)


@BOTH_PACKINGS
def test_a_preferred_affinity_does_not_override_required_anti_affinity(packing: Packing) -> None:
    preference = prefer_pods(90, affinity(APP, ZONE))
    snapshot = cluster(
        pods(2, labels=APP, anti_affinity=[affinity(APP, ZONE)], preferred_affinity=[preference])
    )

    plan = solved(snapshot, packing=packing)

    assert sorted(zones_of(plan).values()) == [1, 1]


@BOTH_PACKINGS
def test_pods_that_must_be_near_and_apart_are_placed_one_by_one(packing: Packing) -> None:
    snapshot = cluster(
        pods(2, labels=APP, affinity=[affinity(APP, ZONE)], anti_affinity=[affinity(APP, ZONE)])
    )

    assert len(placed(solved(snapshot, packing=packing))) == 1


@BOTH_PACKINGS
def test_pods_that_must_be_near_each_other_still_obey_their_spread(packing: Packing) -> None:
    rule = zone_spread(APP, min_domains=2)
    snapshot = cluster(pods(3, labels=APP, affinity=[affinity(APP, ZONE)], spreads=[rule]))

    assert len(placed(solved(snapshot, packing=packing))) == 1


@BOTH_PACKINGS
def test_a_matching_pod_on_a_node_without_one_topology_label_ends_the_exception_for_the_first_pod(
    packing: Packing,
) -> None:
    terms = [affinity(APP, ZONE), affinity(APP, "example.com/rack")]
    running = a_node("n", labels={ZONE: Z1}, pods=[a_pod("running", labels=APP)])
    pool = a_pool(labels={"example.com/rack": "r1"})
    snapshot = cluster([a_pod("follower", labels=APP, affinity=terms)], [pool], nodes=[running])

    assert placed(solved(snapshot, packing=packing)) == []


def test_an_unsatisfiable_spread_does_not_free_other_pods_from_their_rules() -> None:
    only_spot = a_type("t", cpu=16, memory="64Gi", offered=offerings(1.0, [(SPOT, Z2)]))
    loners = pods(2, "loner", labels=APP, anti_affinity=[affinity(APP, CAPACITY)])
    odd = a_pod("odd", labels=APP, spreads=[spread("tier", APP)])
    snapshot = cluster([*loners, odd], types=[only_spot])

    assert placed(solved(snapshot)) == ["loner-0"]


def test_a_soft_spread_beyond_a_limit_leaves_the_rest_pending() -> None:
    kind = a_type("t", cpu=4, memory="16Gi", pods=1)
    snapshot = cluster(
        pods(3, labels=APP, spreads=[zone_spread(APP, required=False)]),
        [a_pool(limits={"memory": "40Gi"})],
        types=[kind],
    )

    plan = solved(snapshot)

    assert len(plan.nodes) == 2
    assert len(unplaced(plan)) == 1


def test_every_alternative_of_an_affinity_says_which_zones_count() -> None:
    # A node in z1 matches the second alternative, so z1 counts as a zone without pods.
    terms = [node_term((ZONE, "NotIn", [Z1])), node_term(("team", "DoesNotExist"))]
    snapshot = cluster(
        [
            *pods(3, labels=APP, spreads=[zone_spread(APP)], node_terms=terms),
            a_pod("other", node_selector={ZONE: Z1}),
        ]
    )

    plan = solved(snapshot)

    assert node_of(plan, "other") is not None
    assert max(zones_of(plan, snapshot.pending_pods[:3]).values()) == 1


def test_reservations_that_are_switched_off_are_no_domain_to_spread_over() -> None:
    kind = a_type("t", offered=[reserved(Z2, "cr-1", 1)])
    rule = spread(CAPACITY, {"app": "other"})
    snapshot = cluster([a_pod("p", labels=APP, spreads=[rule])], types=[kind])

    assert unplaced(solved(snapshot, reserved_capacity=False)) == ["p"]


def test_a_label_that_a_pod_shuns_is_not_thereby_known_to_the_node() -> None:
    shuns = a_pod("shuns", cpu="1500m", node_terms=[node_term(("team", "NotIn", ["x"]))])
    requires = a_pod("requires", node_terms=[node_term(("team", "Exists"))])
    snapshot = cluster([shuns, requires])

    assert unplaced(packed(snapshot)) == ["requires"]


def test_pods_that_spread_and_pods_they_count_are_placed_so_that_all_can_bind() -> None:
    free = pods(4, "free", labels=APP, node_selector={ZONE: Z1})
    owners = pods(3, "owner", labels=APP, spreads=[zone_spread(APP, 4)])
    snapshot = cluster([*owners, *free])

    plan = solved(snapshot)

    assert unplaced(plan) == []
    assert zones_of(plan, free) == {Z1: 4}


def test_a_spread_follows_pods_that_leave_a_deleting_node() -> None:
    leaving = a_node("old", zone=Z1, pods=pods(2, "r", labels=APP, spreads=[zone_spread(APP)]), deleting=True)
    snapshot = cluster([a_pod("p", labels=APP, spreads=[zone_spread(APP)])], nodes=[leaving])

    plan = solved(snapshot)
    after = settled(snapshot, plan)

    assert unplaced(plan) == []
    assert running_per(after, ZONE, **APP) == {Z1: 1, Z2: 1, Z3: 1}


def test_two_selectors_over_one_key_hold_at_once() -> None:
    all_pods = selector({}, ("app", "Exists"))
    rules = [zone_spread(APP), zone_spread(all_pods, 2)]
    snapshot = cluster(
        [
            *pods(4, "both", labels=APP, spreads=rules),
            *pods(3, "other", labels={"app": "b"}, node_selector={ZONE: Z1}),
        ]
    )

    plan = solved(snapshot)

    assert zones_of(plan, snapshot.pending_pods[4:]) == {Z1: 3}
    assert len(placed(plan)) == 7
