"""Spread over capacity types, architectures and custom labels."""

from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import NodeInclusionPolicy, PodPhase, TopologySpreadConstraint
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    cluster,
    node_term,
    pods,
    spread,
    taint,
    tolerate,
)
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1
from tests.support.scheduling.plans import capacity_types_of, domains_of, placed, unplaced
from tests.support.scheduling.solver import solved

APP = {"app": "web"}
CAPACITY, ARCH = label_keys.CAPACITY_TYPE, label_keys.ARCH
RACK = "rack"


def over(key: str, **more: Any) -> list[TopologySpreadConstraint]:
    return [spread(key, APP, **more)]


def launching(kind: str) -> NodePool:
    return a_pool(requirements=[(CAPACITY, "In", [kind])])


def test_four_pods_are_level_over_spot_and_on_demand() -> None:
    # T16
    snapshot = cluster(pods(4, labels=APP, spreads=over(CAPACITY)))

    assert capacity_types_of(solved(snapshot)) == {SPOT: 2, ON_DEMAND: 2}


def test_a_spot_pod_holds_back_a_pool_that_launches_on_demand_only() -> None:
    # T16
    old = a_node("old", zone=Z1, capacity_type=SPOT, room=1, pods=[a_pod("r", labels=APP)])
    snapshot = cluster(pods(5, labels=APP, spreads=over(CAPACITY)), [launching(ON_DEMAND)], nodes=[old])

    plan = solved(snapshot)

    assert capacity_types_of(plan) == {ON_DEMAND: 2}
    assert len(unplaced(plan)) == 3


def test_a_soft_spread_over_capacity_types_does_not_hold_back() -> None:
    # T16
    old = a_node("old", zone=Z1, capacity_type=SPOT, room=1, pods=[a_pod("r", labels=APP)])
    soft = over(CAPACITY, required=False)
    snapshot = cluster(pods(5, labels=APP, spreads=soft), [launching(ON_DEMAND)], nodes=[old])

    assert capacity_types_of(solved(snapshot)) == {ON_DEMAND: 5}


def test_only_live_pods_on_nodes_with_the_label_count_for_capacity_types() -> None:
    # T11
    ignored = [
        a_pod("other", labels={"app": "db"}),
        a_pod("done", labels=APP, phase=PodPhase.FAILED),
        a_pod("leaving", labels=APP, deleting=True),
        a_pod("elsewhere", labels=APP, namespace="other"),
    ]
    nodes = [
        a_node("spot", capacity_type=SPOT, room=3, pods=ignored),
        a_node("bare", room=1, pods=[a_pod("nowhere", labels=APP)]),
    ]
    snapshot = cluster(pods(4, labels=APP, spreads=over(CAPACITY)), nodes=nodes)

    assert capacity_types_of(solved(snapshot)) == {SPOT: 2, ON_DEMAND: 2}


def test_a_pod_that_requires_spot_does_not_count_on_demand_nodes() -> None:
    # T17
    old = a_node("old", zone=Z1, capacity_type=ON_DEMAND, room=1, pods=[a_pod("r", labels=APP)])
    terms = [node_term((CAPACITY, "In", [SPOT]))]
    snapshot = cluster(pods(5, labels=APP, spreads=over(CAPACITY), node_terms=terms), [a_pool()], nodes=[old])

    assert capacity_types_of(solved(snapshot)) == {SPOT: 5}


@pytest.mark.parametrize(("key", "had", "sold"), [(CAPACITY, ON_DEMAND, SPOT), (ARCH, "amd64", "arm64")])
def test_a_pod_that_requires_nothing_counts_all_nodes(key: str, had: str, sold: str) -> None:
    # T17
    old = a_node("old", zone=Z1, labels={key: had}, room=1, pods=[a_pod("r", labels=APP)])
    pool = a_pool(requirements=[(key, "In", [sold])])
    snapshot = cluster(pods(5, labels=APP, spreads=over(key)), [pool], nodes=[old])

    plan = solved(snapshot)

    assert domains_of(plan, key) == {sold: 2}
    assert len(unplaced(plan)) == 3


def test_a_label_of_its_own_gives_a_ratio_of_spot_to_on_demand() -> None:
    # T19
    spot = a_pool("spot", [(CAPACITY, "In", [SPOT]), (RACK, "In", ["2", "3", "4", "5"])])
    firm = a_pool("firm", [(CAPACITY, "In", [ON_DEMAND]), (RACK, "In", ["1"])])
    snapshot = cluster(pods(20, labels=APP, spreads=over(RACK)), [spot, firm])

    plan = solved(snapshot)

    assert domains_of(plan, RACK) == dict.fromkeys("12345", 4)
    assert capacity_types_of(plan) == {SPOT: 16, ON_DEMAND: 4}


@pytest.mark.parametrize(
    ("policy", "expected"), [(NodeInclusionPolicy.IGNORE, 1), (NodeInclusionPolicy.HONOR, 5)], ids=str
)
def test_racks_behind_a_taint_count_unless_taints_are_honoured(
    policy: NodeInclusionPolicy, expected: int
) -> None:
    # T22
    walled = [a_node(f"n-{rack}", labels={RACK: rack}, taints=(taint("wall"),)) for rack in ("foo", "bar")]
    rule = over(RACK, node_taints_policy=policy)
    snapshot = cluster(pods(5, labels=APP, spreads=rule), [a_pool(labels={RACK: "baz"})], nodes=walled)

    plan = solved(snapshot)

    assert domains_of(plan, RACK) == {"baz": expected}


@pytest.mark.parametrize(
    ("policy", "expected"), [(NodeInclusionPolicy.IGNORE, 1), (NodeInclusionPolicy.HONOR, 2)], ids=str
)
def test_racks_of_a_tainted_pool_count_unless_taints_are_honoured(
    policy: NodeInclusionPolicy, expected: int
) -> None:
    # T22
    pools = [
        a_pool("walled", labels={RACK: "foo"}, taints=[taint("wall")]),
        a_pool("open", labels={RACK: "bar"}),
    ]
    rule = over(RACK, node_taints_policy=policy)
    snapshot = cluster(pods(2, labels=APP, spreads=rule), pools)

    assert len(placed(solved(snapshot))) == expected


def test_pools_that_exclude_each_other_are_spread_over_each_for_itself() -> None:
    # T23, but as kube-scheduler counts with taints honoured: a node that a pod does
    # not tolerate is out of sight for it, even in a rack that both pools have.
    pools = [
        a_pool("x", [(RACK, "In", ["foo", "bar"])], taints=[taint("x")]),
        a_pool("y", [(RACK, "In", ["foo", "baz"])], taints=[taint("y")]),
    ]
    rule = over(RACK, node_taints_policy=NodeInclusionPolicy.HONOR)
    series = {wall: pods(3, wall, labels=APP, spreads=rule, tolerations=[tolerate(wall)]) for wall in "xy"}
    snapshot = cluster([*series["x"], *series["y"]], pools)

    plan = solved(snapshot)

    assert sorted(domains_of(plan, RACK, series["x"]).values()) == [1, 2]
    assert sorted(domains_of(plan, RACK, series["y"]).values()) == [1, 2]


@pytest.mark.parametrize(
    ("policy", "expected"), [(NodeInclusionPolicy.IGNORE, 1), (NodeInclusionPolicy.HONOR, 5)], ids=str
)
def test_racks_that_a_pod_does_not_select_count_unless_affinity_is_honoured(
    policy: NodeInclusionPolicy, expected: int
) -> None:
    # T24
    foreign = [a_node(f"n-{rack}", labels={RACK: rack, "team": "theirs"}) for rack in ("foo", "bar")]
    rule = over(RACK, node_affinity_policy=policy)
    snapshot = cluster(
        pods(5, labels=APP, spreads=rule, node_selector={"team": "ours"}),
        [a_pool(labels={RACK: "baz", "team": "ours"})],
        nodes=foreign,
    )

    assert domains_of(solved(snapshot), RACK) == {"baz": expected}
