"""Pod affinity."""

import itertools
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.selectors import LabelSelector
from tests.support.scheduling.builders import (
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
from tests.support.scheduling.instance_types import Z1, Z2, Z3
from tests.support.scheduling.plans import (
    domains_of,
    node_of,
    pods_per_node,
    reasons,
    settled,
    unplaced,
    unplaced_pods,
    zones_of,
)
from tests.support.scheduling.solver import packed, solved

WEB = {"app": "web"}
ZONE, ARCH = label_keys.ZONE, label_keys.ARCH


def test_empty_lists_of_terms_are_fine() -> None:
    # T32
    snapshot = cluster([a_pod("p", affinity=[], anti_affinity=[], preferred_affinity=[])])

    assert unplaced(solved(snapshot)) == []


def test_a_pod_goes_to_the_node_of_its_affinity_target_among_many() -> None:
    # T33
    crowd = pods(10, "crowd", labels={"app": "crowd"}, spreads=[host_spread({"app": "crowd"})])
    friend = a_pod("friend", affinity=[affinity(WEB)])
    snapshot = cluster([*crowd, a_pod("web", labels=WEB), friend])

    plan = solved(snapshot)

    assert node_of(plan, "friend") == node_of(plan, "web") is not None


def test_pods_of_one_architecture_may_still_spread_over_nodes() -> None:
    # T33
    both = {"group": "both"}
    rule = [host_spread(both)]
    web = a_pod("web", labels=WEB | both, spreads=rule, node_selector={ARCH: "arm64"})
    friend = a_pod("friend", labels=both, spreads=rule, affinity=[affinity(WEB, ARCH)])
    snapshot = cluster([friend, web])

    plan = solved(snapshot)

    assert domains_of(plan, ARCH) == {"arm64": 2}
    assert node_of(plan, "friend") != node_of(plan, "web")


def test_pods_with_affinity_to_each_other_share_one_node() -> None:
    # T34
    snapshot = cluster(pods(3, labels=WEB, affinity=[affinity(WEB)]))

    assert pods_per_node(solved(snapshot)) == [3]


def test_more_pods_with_affinity_to_each_other_than_a_node_holds_leave_the_rest_pending() -> None:
    # T34
    snapshot = cluster(pods(10, labels=WEB, affinity=[affinity(WEB)]))

    first = solved(snapshot)
    later = settled(snapshot, first, unplaced_pods(first))
    second = solved(later)

    assert pods_per_node(first) == [5]
    assert len(unplaced(first)) == len(unplaced(second)) == 5
    assert reasons(second)["pod-9"] == ["pod-affinity"]


def test_a_node_in_another_zone_counts_as_the_one_to_join() -> None:
    # T35: a pod's zone does not hide the pods that its affinity selects.
    near: dict[str, Any] = {"labels": WEB, "affinity": [affinity(WEB)]}
    old = a_node("old", zone=Z1, pods=[a_pod("first", **near)])
    snapshot = cluster(
        [a_pod(f"in-{zone}", node_selector={ZONE: zone}, **near) for zone in (Z2, Z3)], nodes=[old]
    )

    assert unplaced(solved(snapshot)) == [f"in-{Z2}", f"in-{Z3}"]


def test_pods_with_zone_affinity_to_each_other_share_a_node() -> None:
    # T36
    snapshot = cluster(pods(3, labels=WEB, affinity=[affinity(WEB, ZONE)]))

    assert pods_per_node(packed(snapshot)) == [3]


def test_pods_with_zone_affinity_to_each_other_go_where_they_must() -> None:
    # T36
    near = [affinity(WEB, ZONE)]
    snapshot = cluster(pods(3, labels=WEB, affinity=near, node_selector={ZONE: Z3}))

    assert zones_of(solved(snapshot)) == {Z3: 3}


def test_affinity_and_zone_anti_affinity_to_each_other_cannot_both_hold() -> None:
    # T37, but as kube-scheduler does: once one of them runs, the first pod exists, and the
    # other could only join it. A node launched for it would stay empty.
    near = [affinity(WEB, ZONE)]
    snapshot = cluster(
        [a_pod(f"in-{zone}", labels=WEB, affinity=near, node_selector={ZONE: zone}) for zone in (Z1, Z2)]
    )

    assert len(unplaced(solved(snapshot))) == 1


def test_a_preferred_affinity_may_be_broken() -> None:
    # T38
    preference = prefer_pods(50, affinity({"app": "absent"}))
    snapshot = cluster([a_pod("p", preferred_affinity=[preference])])

    assert unplaced(solved(snapshot)) == []


def test_a_preferred_affinity_gives_way_to_a_required_spread() -> None:
    # T38
    preference = prefer_pods(50, affinity(WEB))
    snapshot = cluster(pods(3, labels=WEB, preferred_affinity=[preference], spreads=[host_spread(WEB)]))

    assert pods_per_node(solved(snapshot)) == [1, 1, 1]


def test_affinity_to_a_pod_that_does_not_exist_stays_pending() -> None:
    # T45
    snapshot = cluster([*pods(5, affinity=[affinity({"app": "absent"})]), a_pod("other")])

    plan = solved(snapshot)

    assert len(unplaced(plan)) == 5
    assert node_of(plan, "other") is not None


def test_pods_with_zone_affinity_to_an_unconstrained_pod_all_follow_it_in_one_pass() -> None:
    # T46: the unconstrained pod gets a zone at once, so no pod waits for the next pass.
    followers = pods(10, "follower", affinity=[affinity(WEB, ZONE)])
    snapshot = cluster([a_pod("web", labels=WEB), *followers])

    plan = solved(snapshot)

    assert unplaced(plan) == []
    assert list(zones_of(plan).values()) == [11]


def test_pods_with_zone_affinity_to_a_pinned_pod_follow_it() -> None:
    # T46
    followers = pods(10, "follower", affinity=[affinity(WEB, ZONE)])
    web = a_pod("web", labels=WEB, node_selector={ZONE: Z2})
    snapshot = cluster([*followers, web])

    assert zones_of(solved(snapshot)) == {Z2: 11}


CHAIN = ("db", "web", "cache", "ui")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=lambda o: "".join(map(str, o)))
def test_a_chain_of_affinities_resolves_in_one_pass_in_any_order(order: tuple[int, ...]) -> None:
    # T47
    links = [a_pod("db", labels={"app": "db"})]
    for before, name in itertools.pairwise(CHAIN):
        links.append(a_pod(name, labels={"app": name}, affinity=[affinity({"app": before})]))
    snapshot = cluster([links[i] for i in order])

    assert pods_per_node(solved(snapshot)) == [4]


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
    snapshot = cluster([web, a_pod("p", affinity=[term])], namespaces={"other": {"team": "x"}})

    plan = solved(snapshot)

    assert (unplaced(plan) == []) is follows
    assert not follows or node_of(plan, "p") == node_of(plan, "other/web")


def test_a_pod_joins_a_running_one_on_its_existing_node() -> None:
    old = a_node("old", zone=Z1, pods=[a_pod("web", labels=WEB)])
    empty = a_node("vacant", zone=Z1)
    snapshot = cluster([a_pod("p", affinity=[affinity(WEB)])], nodes=[empty, old])

    assert node_of(solved(snapshot), "p") == "old"


def test_a_pod_with_two_affinity_terms_needs_one_pod_that_matches_both() -> None:
    # kube-scheduler counts only pods that meet all terms of the affinity.
    both = a_pod("p", affinity=[affinity({"app": "a"}, ZONE), affinity({"app": "b"}, ZONE)])
    snapshot = cluster(
        [both],
        [a_pool(requirements=[(ZONE, "In", [Z1])])],
        nodes=[
            a_node("one", zone=Z1, pods=[a_pod("a", labels={"app": "a"})]),
            a_node("two", zone=Z1, pods=[a_pod("b", labels={"app": "b"})]),
        ],
    )

    assert unplaced(solved(snapshot)) == ["p"]
