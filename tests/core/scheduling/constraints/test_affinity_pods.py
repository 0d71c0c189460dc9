"""Pods that want to be near others."""

import itertools
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.selectors import LabelSelector
from tests.support.build import (
    a_node,
    a_pod,
    a_pool,
    affinity,
    cluster,
    host_spread,
    pods,
    prefer_pods,
    selector,
)
from tests.support.catalog import Z1, Z2, Z3
from tests.support.outcome import (
    domains_of,
    node_of,
    pods_per_node,
    reasons,
    settled,
    unplaced,
    unplaced_pods,
    zones_of,
)
from tests.support.solving import packed, solved

WEB = {"app": "web"}
ZONE, ARCH = label_keys.ZONE, label_keys.ARCH


def test_empty_lists_of_terms_are_fine() -> None:
    # T32
    world = cluster([a_pod("p", affinity=[], anti_affinity=[], preferred_affinity=[])])

    assert unplaced(solved(world)) == []


def test_a_pod_goes_to_the_host_of_the_one_it_wants_although_there_are_many() -> None:
    # T33
    crowd = pods(10, "crowd", labels={"app": "crowd"}, spreads=[host_spread({"app": "crowd"})])
    friend = a_pod("friend", affinity=[affinity(WEB)])
    world = cluster([*crowd, a_pod("web", labels=WEB), friend])

    plan = solved(world)

    assert node_of(plan, "friend") == node_of(plan, "web") is not None


def test_pods_of_one_architecture_may_still_spread_over_hosts() -> None:
    # T33
    both = {"group": "both"}
    rule = [host_spread(both)]
    web = a_pod("web", labels=WEB | both, spreads=rule, node_selector={ARCH: "arm64"})
    friend = a_pod("friend", labels=both, spreads=rule, affinity=[affinity(WEB, ARCH)])
    world = cluster([friend, web])

    plan = solved(world)

    assert domains_of(plan, ARCH) == {"arm64": 2}
    assert node_of(plan, "friend") != node_of(plan, "web")


def test_pods_that_want_each_other_share_one_host() -> None:
    # T34
    world = cluster(pods(3, labels=WEB, affinity=[affinity(WEB)]))

    assert pods_per_node(solved(world)) == [3]


def test_more_pods_that_want_each_other_than_a_host_holds_leave_the_rest_waiting() -> None:
    # T34
    world = cluster(pods(10, labels=WEB, affinity=[affinity(WEB)]))

    first = solved(world)
    later = settled(world, first, unplaced_pods(first))
    second = solved(later)

    assert pods_per_node(first) == [5]
    assert len(unplaced(first)) == len(unplaced(second)) == 5
    assert reasons(second)["pod-9"] == ["pod-affinity"]


def test_a_host_in_another_zone_counts_as_the_one_to_join() -> None:
    # T35: a pod's zone does not hide the pods it wants to be near.
    near: dict[str, Any] = {"labels": WEB, "affinity": [affinity(WEB)]}
    old = a_node("old", zone=Z1, pods=[a_pod("first", **near)])
    world = cluster(
        [a_pod(f"in-{zone}", node_selector={ZONE: zone}, **near) for zone in (Z2, Z3)], nodes=[old]
    )

    assert unplaced(solved(world)) == [f"in-{Z2}", f"in-{Z3}"]


def test_pods_that_want_each_others_zone_share_a_node() -> None:
    # T36
    world = cluster(pods(3, labels=WEB, affinity=[affinity(WEB, ZONE)]))

    assert pods_per_node(packed(world)) == [3]


def test_pods_that_want_each_others_zone_go_where_they_must() -> None:
    # T36
    near = [affinity(WEB, ZONE)]
    world = cluster(pods(3, labels=WEB, affinity=near, node_selector={ZONE: Z3}))

    assert zones_of(solved(world)) == {Z3: 3}


def test_pods_that_want_each_other_but_must_be_in_different_zones_cannot_all_be_had() -> None:
    # T37, but as kube-scheduler judges: once one of them runs, a series has begun,
    # and the other could only join it. A node bought for it would stay empty.
    near = [affinity(WEB, ZONE)]
    world = cluster(
        [
            a_pod(f"in-{zone}", labels=WEB, affinity=near, node_selector={ZONE: zone})
            for zone in (Z1, Z2)
        ]
    )

    assert len(unplaced(solved(world))) == 1


def test_a_wish_to_be_near_may_be_broken() -> None:
    # T38
    wish = prefer_pods(50, affinity({"app": "nobody"}))
    world = cluster([a_pod("p", preferred_affinity=[wish])])

    assert unplaced(solved(world)) == []


def test_a_wish_to_be_near_gives_way_to_a_required_spread() -> None:
    # T38
    wish = prefer_pods(50, affinity(WEB))
    world = cluster(pods(3, labels=WEB, preferred_affinity=[wish], spreads=[host_spread(WEB)]))

    assert pods_per_node(solved(world)) == [1, 1, 1]


def test_affinity_to_a_pod_that_does_not_exist_waits() -> None:
    # T45
    world = cluster([*pods(5, affinity=[affinity({"app": "nobody"})]), a_pod("other")])

    plan = solved(world)

    assert len(unplaced(plan)) == 5
    assert node_of(plan, "other") is not None


def test_pods_that_want_the_zone_of_a_free_pod_all_follow_it_in_one_pass() -> None:
    # T46: the free pod is given a zone at once, so nobody has to wait for the next pass.
    followers = pods(10, "follower", affinity=[affinity(WEB, ZONE)])
    world = cluster([a_pod("web", labels=WEB), *followers])

    plan = solved(world)

    assert unplaced(plan) == []
    assert list(zones_of(plan).values()) == [11]


def test_pods_that_want_the_zone_of_a_pinned_pod_follow_it() -> None:
    # T46
    followers = pods(10, "follower", affinity=[affinity(WEB, ZONE)])
    web = a_pod("web", labels=WEB, node_selector={ZONE: Z2})
    world = cluster([*followers, web])

    assert zones_of(solved(world)) == {Z2: 11}


CHAIN = ("db", "web", "cache", "ui")


@pytest.mark.parametrize(
    "order", list(itertools.permutations(range(4))), ids=lambda o: "".join(map(str, o))
)
def test_a_chain_of_wishes_resolves_in_one_pass_in_any_order(order: tuple[int, ...]) -> None:
    # T47
    links = [a_pod("db", labels={"app": "db"})]
    for before, name in itertools.pairwise(CHAIN):
        links.append(a_pod(name, labels={"app": name}, affinity=[affinity({"app": before})]))
    world = cluster([links[i] for i in order])

    assert pods_per_node(solved(world)) == [4]


@pytest.mark.parametrize(
    ("namespaces", "select", "follows"),
    [
        ((), None, False),
        (("other",), None, True),
        ((), LabelSelector(), True),
        ((), selector({"team": "x"}), True),
        ((), selector({"team": "y"}), False),
    ],
    ids=["own only", "listed", "all", "selected", "not selected"],
)
def test_pods_of_other_namespaces_count_when_asked_for(
    namespaces: tuple[str, ...], select: LabelSelector | None, follows: bool
) -> None:
    # T48
    web = a_pod("web", labels=WEB, namespace="other")
    term = affinity(WEB, namespaces=namespaces, namespace_selector=select)
    world = cluster([web, a_pod("p", affinity=[term])], namespaces={"other": {"team": "x"}})

    plan = solved(world)

    assert (unplaced(plan) == []) is follows
    assert not follows or node_of(plan, "p") == node_of(plan, "other/web")


def test_a_pod_joins_a_running_one_on_its_existing_node() -> None:
    old = a_node("old", zone=Z1, pods=[a_pod("web", labels=WEB)])
    spare = a_node("spare", zone=Z1)
    world = cluster([a_pod("p", affinity=[affinity(WEB)])], nodes=[spare, old])

    assert node_of(solved(world), "p") == "old"


def test_a_pod_that_wants_two_things_needs_one_pod_that_is_both() -> None:
    # kube-scheduler counts only pods that meet all terms of the affinity.
    both = a_pod("p", affinity=[affinity({"app": "a"}, ZONE), affinity({"app": "b"}, ZONE)])
    world = cluster(
        [both],
        [a_pool(requirements=[(ZONE, "In", [Z1])])],
        nodes=[
            a_node("one", zone=Z1, pods=[a_pod("a", labels={"app": "a"})]),
            a_node("two", zone=Z1, pods=[a_pod("b", labels={"app": "b"})]),
        ],
    )

    assert unplaced(solved(world)) == ["p"]
