"""The checker of plans: spread, affinity and orders of arrival."""

from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeInclusionPolicy
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    affinity,
    cluster,
    host_spread,
    pods,
    selector,
    taint,
    zone_spread,
)
from tests.support.scheduling.checker.manual_plans import APP, a_plan, on, one_node, planned, rules
from tests.support.scheduling.checker.plan_checker import check, final_state
from tests.support.scheduling.instance_types import Z1, Z2


def test_too_much_skew_over_zones_is_flagged() -> None:
    snapshot = cluster(pods(3, labels=APP, spreads=[zone_spread(APP)]))

    assert rules(snapshot, on(snapshot, Z1, Z2, Z1)) == set()
    assert rules(snapshot, on(snapshot, Z1, Z1, Z1)) == set()  # One zone only: nothing to compare.
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(APP)]))
    assert rules(snapshot, on(snapshot, Z1, Z2, Z1, Z1)) == {"inter-pod"}


def test_a_zone_with_an_empty_node_counts_in_the_skew() -> None:
    snapshot = cluster(pods(2, labels=APP, spreads=[zone_spread(APP)]), nodes=[a_node("old", zone=Z2)])

    assert rules(snapshot, on(snapshot, Z1, Z1)) == {"inter-pod"}


def test_a_zone_that_the_pod_excludes_counts_only_with_the_ignore_policy() -> None:
    old = a_node("old", zone=Z2)
    honor = zone_spread(APP)
    ignore = zone_spread(APP, node_affinity_policy=NodeInclusionPolicy.IGNORE)
    pinned: dict[str, Any] = {"labels": APP, "node_selector": {label_keys.ZONE: Z1}}
    kind = cluster(pods(2, spreads=[honor], **pinned), nodes=[old])
    strict = cluster(pods(2, spreads=[ignore], **pinned), nodes=[old])

    assert rules(kind, on(kind, Z1, Z1)) == set()
    assert rules(strict, on(strict, Z1, Z1)) == {"inter-pod"}


def test_a_tainted_zone_counts_unless_taints_are_honoured() -> None:
    old = a_node("old", zone=Z2, taints=(taint("t"),))
    ignore = cluster(pods(2, labels=APP, spreads=[zone_spread(APP)]), nodes=[old])
    honor = zone_spread(APP, node_taints_policy=NodeInclusionPolicy.HONOR)
    kind = cluster(pods(2, labels=APP, spreads=[honor]), nodes=[old])

    assert rules(ignore, on(ignore, Z1, Z1)) == {"inter-pod"}
    assert rules(kind, on(kind, Z1, Z1)) == set()


def test_too_few_domains_count_as_an_empty_one() -> None:
    snapshot = cluster(pods(2, labels=APP, spreads=[zone_spread(APP, min_domains=2)]))

    assert rules(snapshot, on(snapshot, Z1, Z1)) == {"inter-pod"}
    assert rules(snapshot, on(snapshot, Z1, Z2)) == set()


def test_too_many_pods_of_a_workload_on_one_node_are_flagged() -> None:
    snapshot = cluster(pods(2, labels=APP, spreads=[host_spread(APP)]), nodes=[a_node("old")])

    assert rules(snapshot, on(snapshot, Z1, Z1)) == set()
    assert rules(snapshot, one_node(snapshot)) == {"inter-pod"}


def test_revisions_are_counted_apart_with_match_label_keys() -> None:
    rule = host_spread(APP, match_label_keys=("rev",))
    snapshot = cluster(
        [a_pod(f"p{rev}", labels={**APP, "rev": rev}, spreads=[rule]) for rev in "ab"], nodes=[a_node("old")]
    )

    assert rules(snapshot, one_node(snapshot)) == set()


def test_a_spread_pod_whose_zone_is_left_open_is_flagged() -> None:
    snapshot = cluster(pods(1, labels=APP, spreads=[zone_spread(APP)]))
    node = planned(snapshot, "n0", snapshot.pending_pods)
    loose = msgspec.structs.replace(node, requirements=node.requirements.without(label_keys.ZONE))

    assert rules(snapshot, a_plan(loose)) == {"open-domain"}


def test_an_anti_affine_pair_on_one_node_is_flagged() -> None:
    snapshot = cluster(pods(2, labels=APP, anti_affinity=[affinity(APP)]))

    assert rules(snapshot, on(snapshot, Z1, Z1)) == set()
    assert rules(snapshot, one_node(snapshot)) == {"inter-pod"}


def test_a_pod_that_another_one_avoids_is_flagged_although_it_avoids_none() -> None:
    loner = a_pod("loner", anti_affinity=[affinity(APP, label_keys.ZONE)])
    together = cluster([loner, a_pod("web", labels=APP)])
    running = cluster([a_pod("web", labels=APP)], nodes=[a_node("old", zone=Z1, pods=[loner])])

    assert rules(together, on(together, Z1, Z2)) == set()
    assert rules(together, on(together, Z1, Z1)) == {"inter-pod"}
    assert rules(running, on(running, Z2)) == set()
    assert rules(running, on(running, Z1)) == {"inter-pod"}


def test_an_affine_pod_elsewhere_is_flagged() -> None:
    friend = a_pod("friend", affinity=[affinity(APP, label_keys.ZONE)])
    snapshot = cluster([a_pod("web", labels=APP), friend])

    assert rules(snapshot, on(snapshot, Z1, Z1)) == set()
    assert rules(snapshot, on(snapshot, Z1, Z2)) == {"inter-pod"}


def test_a_self_affine_workload_may_start_anywhere_but_only_once() -> None:
    snapshot = cluster(pods(2, labels=APP, affinity=[affinity(APP, label_keys.ZONE)]))

    assert rules(snapshot, on(snapshot, Z2, Z2)) == set()
    assert rules(snapshot, on(snapshot, Z1, Z2)) == {"inter-pod"}


def test_affinity_without_a_matching_pod_is_flagged() -> None:
    snapshot = cluster([a_pod("p", affinity=[affinity(APP)])])

    assert rules(snapshot, one_node(snapshot)) == {"inter-pod"}


def test_other_namespaces_count_only_when_named() -> None:
    web = a_pod("web", labels=APP, namespace="other")
    near = a_pod("near", affinity=[affinity(APP)])
    named = a_pod("named", affinity=[affinity(APP, namespaces=["other"])])
    apart, together = cluster([web, near]), cluster([web, named])

    assert rules(apart, one_node(apart)) == {"inter-pod"}
    assert rules(together, one_node(together)) == set()


def test_a_pod_that_is_being_deleted_is_neither_waited_for_nor_avoided() -> None:
    leaving = a_pod("web", labels=APP, deleting=True)
    old = a_node("old", pods=[leaving])
    loner = cluster([a_pod("p", anti_affinity=[affinity(APP)])], nodes=[old])
    friend = cluster([a_pod("p", affinity=[affinity(APP)])], nodes=[old])

    assert rules(loner, a_plan(existing=[("old", loner.pending_pods)])) == set()
    assert rules(friend, a_plan(existing=[("old", friend.pending_pods)])) == {"inter-pod"}


def test_the_final_state_is_stricter_than_some_order_of_arrival() -> None:
    spread = a_pod("owner", labels=APP, spreads=[zone_spread(APP)])
    others = pods(2, "other", labels=APP)
    snapshot = cluster([spread, *others], nodes=[a_node("old", zone=Z2)])
    plan = on(snapshot, Z1, Z1, Z1)

    assert check(snapshot, plan) == []
    assert [violation.about for violation in final_state(snapshot, plan)] == ["default/owner"]


def test_an_order_is_found_although_thousands_of_others_end_with_a_pod_that_came_too_late() -> None:
    # The guests count all pods but guests; the host pod counts guests and must be first.
    guests = {"app": "guest"}
    all_others = zone_spread(selector({}, ("app", "NotIn", ["guest"])))
    first = a_pod("first", labels={"app": "host"}, spreads=[zone_spread(guests)])
    many = pods(14, "other", labels={"app": "other"})
    late = pods(2, "guest", labels=guests, spreads=[all_others])
    snapshot = cluster([*late, first, *many])
    plan = on(snapshot, Z1, Z1, Z1, *[Z2] * 14)

    assert check(snapshot, plan) == []


def test_a_pod_for_which_every_order_is_too_late_is_flagged_beside_however_many_others() -> None:
    guests = {"app": "guest"}
    all_others = zone_spread(selector({}, ("app", "NotIn", ["guest"])))
    snapshot = cluster(
        [
            a_pod("never", labels={"app": "host"}, spreads=[zone_spread(guests)]),
            *pods(14, "other", labels={"app": "other"}),
            *pods(2, "guest", labels=guests, spreads=[all_others]),
        ],
        nodes=[a_node("old", zone=Z1, pods=pods(2, "running", labels=guests))],
    )
    plan = on(snapshot, Z1, *[Z2] * 14, Z1, Z1)

    assert "default/never" in {violation.about for violation in check(snapshot, plan)}
