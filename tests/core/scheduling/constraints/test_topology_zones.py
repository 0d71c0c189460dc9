"""Spread over zones."""

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import NodeSelectorTerm, PodPhase, TopologySpreadConstraint
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim
from dovetail.model.node import Node
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    cluster,
    node_term,
    pods,
    prefer_node,
    selector,
    spread,
    zone_spread,
)
from tests.support.scheduling.instance_types import Z1, Z2, Z3, ZONES
from tests.support.scheduling.plans import node_of, placed, running_per, settled, skew, unplaced, zones_of
from tests.support.scheduling.solver import after, packed, solved

APP = {"app": "web"}
ZONE = label_keys.ZONE


def only(*zones: str, name: str = "default") -> NodePool:
    return a_pool(name, [(ZONE, "In", list(zones))])


def full(name: str, zone: str, count: int = 1) -> Node:
    """Return a full node in a zone, with so many web pods."""
    running = pods(count, name, labels=APP)
    return a_node(name, zone=zone, room=count, pods=running)


def test_a_pool_without_headroom_still_has_a_zone_that_counts_in_the_skew() -> None:
    # T1
    spent = a_pool("spent", [(ZONE, "In", [Z3])], limits={"cpu": 0})
    snapshot = cluster(pods(6, labels=APP, spreads=[zone_spread(APP)]), [only(Z1, Z2, name="open"), spent])

    plan = solved(snapshot)

    assert zones_of(plan) == {Z1: 1, Z2: 1}
    assert len(unplaced(plan)) == 4


def test_a_volume_that_pins_a_pod_to_a_zone_goes_with_a_spread_that_is_level() -> None:
    # T2
    bound = FrozenDict({BIND_COMPLETED: "yes"})
    claim = PersistentVolumeClaim(namespace="default", name="data", volume="pv", annotations=bound)
    volume = PersistentVolume(name="pv", node_terms=(node_term((ZONE, "In", [Z1])),))
    rule = zone_spread(APP, min_domains=3)
    snapshot = cluster(
        [a_pod("p", labels=APP, spreads=[rule], claims=["data"])],
        nodes=[full(f"n{zone}", zone) for zone in ZONES],
        volume_claims=[claim],
        volumes=[volume],
    )

    assert zones_of(solved(snapshot)) == {Z1: 1}


def test_a_pod_spread_over_an_unknown_label_stays_pending_while_others_are_placed() -> None:
    # T3
    odd = a_pod("odd", labels=APP, spreads=[spread("unknown", APP)])
    snapshot = cluster([odd, *pods(2, "fine")])

    plan = solved(snapshot)

    assert unplaced(plan) == ["odd"]
    assert placed(plan) == ["fine-0", "fine-1"]


@pytest.mark.parametrize(
    "select", [None, selector({}, ("app", "In", []))], ids=["no selector", "an invalid selector"]
)
def test_a_spread_that_selects_no_pod_spreads_nothing(select: LabelSelector | None) -> None:
    # T4
    snapshot = cluster(pods(2, labels=APP, spreads=[zone_spread(select)]))

    plan = packed(snapshot)

    assert len(plan.nodes) == 1


@pytest.mark.parametrize(
    "select", [selector(APP), selector({}, ("app", "In", ["web"]))], ids=["labels", "expressions"]
)
def test_four_pods_go_to_three_zones_as_one_one_two(select: LabelSelector) -> None:
    # T5
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(select)]))

    assert skew(zones_of(solved(snapshot))) == [1, 1, 2]


def test_a_pool_restricted_to_two_zones_has_pods_level_over_both() -> None:
    # T6
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(APP)]), [only(Z1, Z2)])

    assert zones_of(solved(snapshot)) == {Z1: 2, Z2: 2}


def test_a_pool_whose_label_pins_one_zone_takes_all() -> None:
    # T6
    pool = a_pool(labels={ZONE: Z1})
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(APP)]), [pool])

    assert zones_of(solved(snapshot)) == {Z1: 4}


def test_two_pools_whose_labels_pin_a_zone_each_share_the_pods() -> None:
    # T6
    pools = [a_pool("a", labels={ZONE: Z1}), a_pool("b", labels={ZONE: Z2})]
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(APP)]), pools)

    assert zones_of(solved(snapshot)) == {Z1: 2, Z2: 2}


def test_a_zone_that_cannot_grow_holds_the_others_back() -> None:
    # T7
    snapshot = cluster(
        pods(6, labels=APP, spreads=[zone_spread(APP)]), [only(Z1, Z2)], nodes=[full("old", Z3)]
    )

    plan = solved(snapshot)

    assert zones_of(plan) == {Z1: 2, Z2: 2}
    assert len(unplaced(plan)) == 2


def test_the_only_zone_allowed_fills_up_to_the_largest_skew() -> None:
    # T8
    snapshot = cluster(
        pods(10, labels=APP, spreads=[zone_spread(APP, 5)]),
        [only(Z3)],
        nodes=[full("one", Z1), full("two", Z2)],
    )

    assert zones_of(solved(snapshot)) == {Z3: 6}


def test_a_skew_that_is_violated_already_is_made_better() -> None:
    # T9
    snapshot = cluster(pods(3, labels=APP, spreads=[zone_spread(APP)]), nodes=[full("old", Z1, count=3)])

    assert skew(zones_of(solved(snapshot))) == [1, 2]
    assert Z1 not in zones_of(solved(snapshot))


@pytest.mark.parametrize("rule", [[zone_spread(APP)], []], ids=["same rule", "no rule"])
def test_a_pod_where_nothing_more_can_go_counts_whether_or_not_it_has_the_rule(
    rule: list[TopologySpreadConstraint],
) -> None:
    # T10
    running = a_pod("running", labels=APP, spreads=rule)
    old = a_node("old", zone=Z1, room=1, pods=[running])
    snapshot = cluster(pods(10, labels=APP, spreads=[zone_spread(APP)]), [only(Z2, Z3)], nodes=[old])

    assert zones_of(solved(snapshot)) == {Z2: 2, Z3: 2}


def test_only_live_bound_pods_with_the_labels_and_the_namespace_count() -> None:
    # T11: each of these would move the count if it were taken for one of the series.
    ignored = [
        a_pod("other-label", labels={"app": "db"}),
        a_pod("other-namespace", labels=APP, namespace="elsewhere"),
        a_pod("done", labels=APP, phase=PodPhase.SUCCEEDED),
        a_pod("failed", labels=APP, phase=PodPhase.FAILED),
        a_pod("leaving", labels=APP, deleting=True),
    ]
    counted = [a_pod("counted", labels=APP)]
    nodes = [
        a_node("bare", room=1, pods=[a_pod("nowhere", labels=APP)]),
        a_node("one", zone=Z1, room=5, cpu=1, pods=[*ignored, *counted]),
        a_node("two", zone=Z2, room=1, pods=[a_pod("second", labels=APP)]),
    ]
    snapshot = cluster(pods(2, labels=APP, cpu=1, spreads=[zone_spread(APP)]), [only(*ZONES)], nodes=nodes)

    plan = solved(snapshot)

    # z1 and z2 have one each, z3 none: the first pod must go to z3.
    assert zones_of(plan)[Z3] >= 1
    assert len(placed(plan)) == 2


def test_a_selector_that_does_not_match_the_pod_itself_lets_all_pack_together() -> None:
    # T12
    snapshot = cluster(pods(5, labels=APP, spreads=[zone_spread({"app": "other"})]))

    assert len(packed(snapshot).nodes) == 1


def test_fewer_zones_than_min_domains_take_one_pod_each() -> None:
    # T13
    rule = zone_spread(APP, min_domains=3)
    snapshot = cluster(pods(3, labels=APP, spreads=[rule]), [only(Z1, Z2)])

    plan = solved(snapshot)

    assert zones_of(plan) == {Z1: 1, Z2: 1}
    assert len(unplaced(plan)) == 1


@pytest.mark.parametrize("least", [2, 3])
def test_enough_zones_for_min_domains_are_filled_evenly(least: int) -> None:
    # T13
    rule = zone_spread(APP, min_domains=least)
    snapshot = cluster(pods(11, labels=APP, spreads=[rule]))

    assert skew(zones_of(solved(snapshot))) == [3, 4, 4]


def test_a_later_batch_fills_the_nodes_of_the_first_until_zones_are_level() -> None:
    # T15
    batch = pods(4, "first", labels=APP, spreads=[zone_spread(APP)])
    snapshot = cluster(batch)
    first = packed(snapshot)
    later = settled(snapshot, first, pods(5, "second", labels=APP, spreads=[zone_spread(APP)]))

    second = packed(later)

    assert skew(zones_of(first)) == [1, 1, 2]
    assert second.nodes == ()
    assert running_per(settled(later, second), ZONE, **APP) == dict.fromkeys(ZONES, 3)


def test_a_pod_that_selects_a_zone_is_not_held_back_by_others_zones() -> None:
    # T25
    rule = [zone_spread(APP)]
    snapshot = cluster(
        [
            *pods(5, "one", labels=APP, spreads=rule, node_selector={ZONE: Z1}),
            *pods(10, "two", labels=APP, spreads=rule, node_selector={ZONE: Z2}),
        ]
    )

    assert zones_of(solved(snapshot)) == {Z1: 5, Z2: 10}


def test_an_affinity_for_two_zones_spreads_over_these_two() -> None:
    # T25
    terms = [node_term((ZONE, "In", [Z1, Z2]))]
    snapshot = cluster(pods(10, labels=APP, spreads=[zone_spread(APP)], node_terms=terms))

    assert zones_of(solved(snapshot)) == {Z1: 5, Z2: 5}


def test_batches_with_different_zones_in_reach_end_up_level() -> None:
    # T25
    rule = [zone_spread(APP)]

    def reaching(*zones: str) -> list[NodeSelectorTerm]:
        return [node_term((ZONE, "In", list(zones)))]

    start = cluster(pods(6, "a", labels=APP, spreads=rule, node_terms=reaching(Z1, Z2)))

    expected = after(start)
    two = after(start, [a_pod("b", labels=APP, spreads=rule, node_terms=reaching(Z2, Z3))])
    three = after(two, pods(5, "c", labels=APP, spreads=rule))

    assert running_per(expected, ZONE) == {Z1: 3, Z2: 3}
    assert running_per(two, ZONE) == {Z1: 3, Z2: 3, Z3: 1}
    assert running_per(three, ZONE) == dict.fromkeys(ZONES, 4)


def test_a_preferred_zone_does_not_narrow_where_pods_spread() -> None:
    # T26
    preference = [prefer_node(1, (ZONE, "In", [Z1, Z2]))]
    snapshot = cluster(pods(6, labels=APP, spreads=[zone_spread(APP)], preferred_node_terms=preference))

    assert zones_of(solved(snapshot)) == dict.fromkeys(ZONES, 2)


def test_the_older_name_of_the_zone_label_spreads_as_well() -> None:
    old = spread("failure-domain.beta.kubernetes.io/zone", APP)
    snapshot = cluster(pods(3, labels=APP, spreads=[old]))

    assert zones_of(solved(snapshot)) == dict.fromkeys(ZONES, 1)


def test_two_workloads_with_different_min_domains_each_follow_their_own() -> None:
    # minDomains is part of a constraint's identity, so neither borrows the other's.
    strict = pods(3, "strict", labels={"app": "s"}, spreads=[zone_spread({"app": "s"}, min_domains=3)])
    loose = pods(3, "loose", labels={"app": "l"}, spreads=[zone_spread({"app": "l"})])
    snapshot = cluster([*strict, *loose], [only(Z1, Z2)])

    plan = solved(snapshot)

    assert skew(zones_of(plan, loose)) == [1, 2]
    assert skew(zones_of(plan, strict)) == [1, 1]


def test_a_soft_spread_yields_when_it_cannot_be_kept() -> None:
    rule = zone_spread(APP, required=False)
    snapshot = cluster(pods(4, labels=APP, spreads=[rule]), [only(Z1)])

    plan = solved(snapshot)

    assert zones_of(plan) == {Z1: 4}
    assert all(node_of(plan, pod) for pod in snapshot.pending_pods)


def test_a_soft_spread_is_kept_where_it_can_be() -> None:
    rule = zone_spread(APP, required=False)
    snapshot = cluster(pods(3, labels=APP, spreads=[rule]))

    assert zones_of(solved(snapshot)) == dict.fromkeys(ZONES, 1)


def test_spreading_does_not_depend_on_the_order_of_pods() -> None:
    snapshot = cluster(pods(5, labels=APP, spreads=[zone_spread(APP)]))
    turned = msgspec.structs.replace(snapshot, pending_pods=snapshot.pending_pods[::-1])

    assert skew(zones_of(solved(snapshot))) == skew(zones_of(solved(turned))) == [1, 2, 2]
