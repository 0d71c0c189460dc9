"""Relaxation: which preferences are dropped first, and which constraints never."""

from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.settings import Packing, PreferencePolicy, SchedulingSettings
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    affinity,
    cluster,
    host_spread,
    node_term,
    pods,
    prefer_node,
    prefer_pods,
    taint,
    zone_spread,
)
from tests.support.scheduling.instance_types import Z1, Z2, Z3
from tests.support.scheduling.plans import new_node_of, node_of, placed, unplaced, zones_of
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
MARS = (label_keys.ZONE, "In", ["mars-1a"])


# --- P72 to P74 -------------------------------------------------------------------------------


def test_p72_the_last_required_term_is_never_dropped() -> None:
    plan = solve(cluster([a_pod("p", node_terms=[node_term(MARS)])]))

    assert unplaced(plan) == ["p"]


def test_p72_of_several_required_terms_the_first_that_can_be_met_is_used() -> None:
    terms = [
        node_term(MARS),
        node_term((label_keys.ZONE, "In", ["mars-1b"])),
        node_term((label_keys.ZONE, "In", [Z3])),
        node_term((label_keys.ZONE, "In", [Z1])),
    ]

    plan = solve(cluster([a_pod("p", node_terms=terms)]))

    assert zones_of(plan) == {Z3: 1}


def test_p73_preferences_that_cannot_be_met_are_all_dropped() -> None:
    preferences = [
        prefer_node(1, MARS),
        prefer_node(1, (label_keys.INSTANCE_TYPE, "In", ["enormous"])),
        prefer_node(1, ("undefined", "In", ["x"])),
    ]

    plan = solve(cluster([a_pod("p", preferred_node_terms=preferences)]))

    assert placed(plan) == ["p"]


def test_p74_the_heaviest_preference_that_can_be_met_is_met() -> None:
    preferences = [
        prefer_node(1, (label_keys.ZONE, "In", [Z1])),
        prefer_node(100, MARS),
        prefer_node(50, (label_keys.ZONE, "In", [Z2])),
    ]

    plan = solve(cluster([a_pod("p", preferred_node_terms=preferences)]))

    assert zones_of(plan) == {Z2: 1}


# --- P75 --------------------------------------------------------------------------------------


@BOTH
def test_p75_a_pool_with_a_soft_taint_is_used_as_a_last_resort(packing: Packing) -> None:
    pool = a_pool(taints=[taint("busy", effect="PreferNoSchedule")])
    pod = a_pod("p", preferred_node_terms=[prefer_node(1, MARS)])

    plan = solve(cluster([pod], [pool]), SchedulingSettings(packing=packing))

    assert new_node_of(plan, "p").nodepool == "default"


def test_p75_a_preference_is_dropped_before_the_taint_is_ignored() -> None:
    pools = [
        a_pool("shy", labels={"team": "red"}, taints=[taint("busy", effect="PreferNoSchedule")]),
        a_pool("open", labels={"team": "blue"}),
    ]
    pod = a_pod("p", preferred_node_terms=[prefer_node(1, ("team", "In", ["red"]))])

    plan = solve(cluster([pod], pools))

    assert new_node_of(plan, "p").nodepool == "open"


def test_p75_a_hard_taint_beside_the_soft_one_is_never_ignored() -> None:
    pool = a_pool(taints=[taint("busy", effect="PreferNoSchedule"), taint("dedicated")])

    plan = solve(cluster([a_pod("p")], [pool]))

    assert unplaced(plan) == ["p"]


def test_p75_a_node_with_a_soft_taint_is_used_if_there_is_no_alternative() -> None:
    # Upstream looks for such taints on NodePools only; kube-scheduler would bind the pod here.
    node = a_node("shy", taints=(taint("busy", effect="PreferNoSchedule"),))

    plan = solve(cluster([a_pod("p")], [], nodes=[node]))

    assert node_of(plan, "p") == "shy"


# --- P76, P77 ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("key", [label_keys.ZONE, label_keys.HOSTNAME])
def test_p76_a_preference_that_cannot_be_met_does_not_stop_sharing(key: str, packing: Packing) -> None:
    choosy = a_pod("choosy", preferred_node_terms=[prefer_node(1, (key, "In", ["mars-1a"]))])

    plan = solve(cluster([a_pod("plain"), choosy]), SchedulingSettings(packing=packing))

    assert node_of(plan, "plain") == node_of(plan, "choosy")


def test_p77_a_preference_against_the_requirement_is_dropped() -> None:
    pod = a_pod(
        "p",
        node_terms=[node_term((label_keys.ZONE, "In", [Z1]))],
        preferred_node_terms=[prefer_node(1, (label_keys.ZONE, "In", [Z2]))],
    )

    plan = solve(cluster([pod]))

    assert zones_of(plan) == {Z1: 1}


def test_p77_a_preference_that_contradicts_itself_is_dropped() -> None:
    preference = prefer_node(1, (label_keys.ZONE, "In", [Z1]), (label_keys.ZONE, "In", [Z2]))

    plan = solve(cluster([a_pod("p", preferred_node_terms=[preference])]))

    assert placed(plan) == ["p"]


# --- P78: preferences ignored -----------------------------------------------------------------

IGNORE = SchedulingSettings(preference_policy=PreferencePolicy.IGNORE, packing=Packing.FEWEST)
RESPECT = SchedulingSettings(packing=Packing.FEWEST)
APP = {"app": "a"}
LIKE: dict[str, Any] = {"labels": APP}


def test_p78_a_preferred_node_term_has_no_influence_when_preferences_are_ignored() -> None:
    pod = a_pod("p", preferred_node_terms=[prefer_node(1, (label_keys.ARCH, "In", ["arm64"]))])

    respected = solve(cluster([pod]), RESPECT)
    ignored = solve(cluster([pod]), IGNORE)

    assert new_node_of(respected, "p").instance_type.name == "arm"
    assert new_node_of(ignored, "p").instance_type.name == "small"


@pytest.mark.parametrize(
    "preference",
    [
        {"spreads": [zone_spread(APP, required=False)]},
        {"spreads": [host_spread(APP, required=False)]},
        {"preferred_anti_affinity": [prefer_pods(1, affinity(APP))]},
        {"preferred_anti_affinity": [prefer_pods(1, affinity(APP, label_keys.ZONE))]},
    ],
    ids=["zone-spread", "host-spread", "host-anti-affinity", "zone-anti-affinity"],
)
def test_p78_preferred_anti_affinities_have_no_influence_when_preferences_are_ignored(
    preference: dict[str, Any],
) -> None:
    snapshot = cluster(pods(3, **LIKE, **preference))

    assert len(solve(snapshot, RESPECT).nodes) > 1
    assert len(solve(snapshot, IGNORE).nodes) == 1


def test_p78_preferred_affinities_have_no_influence_when_preferences_are_ignored() -> None:
    target = a_pod("target", labels=APP, node_selector={label_keys.ARCH: "arm64"}, cpu="2")
    follower = a_pod("follower", preferred_affinity=[prefer_pods(1, affinity(APP))])
    apart = a_pod("apart", node_selector={label_keys.ARCH: "amd64"})
    snapshot = cluster([target, follower, apart])

    respected = solve(snapshot, RESPECT)

    assert node_of(respected, "follower") == node_of(respected, "target")
    assert unplaced(solve(snapshot, IGNORE)) == []


def test_preferences_never_leave_a_pod_without_a_node() -> None:
    pod = a_pod(
        "p",
        labels=APP,
        preferred_node_terms=[prefer_node(10, MARS), prefer_node(5, ("x", "Exists"))],
        preferred_affinity=[prefer_pods(1, affinity({"app": "absent"}))],
        preferred_anti_affinity=[prefer_pods(1, affinity(APP, "unknown-key"))],
        spreads=[zone_spread(APP, required=False, min_domains=9)],
    )

    plan = solve(cluster([pod]))

    assert placed(plan) == ["p"]


@BOTH
def test_pods_that_dropped_a_preference_still_avoid_those_that_did_not(packing: Packing) -> None:
    labels = {"app": "s"}
    preference = prefer_pods(10, affinity(labels, label_keys.ZONE))
    apart = pods(
        4, "s", labels=labels, anti_affinity=[affinity(labels)], preferred_anti_affinity=[preference]
    )

    plan = solve(cluster(apart), SchedulingSettings(packing=packing))

    assert [len(node.pods) for node in plan.nodes] == [1, 1, 1, 1]
