"""Pod anti-affinity, and inverse anti-affinity."""

from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from tests.support.scheduling.builders import a_node, a_pod, affinity, cluster, host_spread, pods, prefer_pods
from tests.support.scheduling.instance_types import Z1, Z2, Z3, ZONES
from tests.support.scheduling.plans import (
    domains_of,
    node_of,
    placed,
    pods_per_node,
    reasons,
    settled,
    unplaced,
    zones_of,
)
from tests.support.scheduling.solver import packed, solved

WEB = {"app": "web"}
ZONE, ARCH = label_keys.ZONE, label_keys.ARCH


def zonal(**more: Any) -> list[Pod]:
    """Return one pod pinned to each zone."""
    return [a_pod(f"in-{zone}", cpu="200m", node_selector={ZONE: zone}, **more) for zone in ZONES]


def test_a_preferred_anti_affinity_may_be_broken() -> None:
    # T38
    preference = prefer_pods(50, affinity(WEB, ZONE))
    snapshot = cluster([*zonal(labels=WEB), a_pod("p", preferred_anti_affinity=[preference])])

    assert unplaced(solved(snapshot)) == []


def test_preferred_anti_affinities_give_way_to_a_required_spread() -> None:
    # T38
    preference = prefer_pods(50, affinity(WEB))
    rule = [host_spread(WEB)]
    snapshot = cluster(pods(3, labels=WEB, spreads=rule, preferred_anti_affinity=[preference]))

    assert pods_per_node(solved(snapshot)) == [1, 1, 1]


@pytest.mark.parametrize("turned", [False, True])
def test_a_pod_that_avoids_another_gets_another_node_in_either_order(turned: bool) -> None:
    # T39
    both = [a_pod("web", labels=WEB), a_pod("loner", anti_affinity=[affinity(WEB)])]
    snapshot = cluster(both[::-1] if turned else both)

    plan = packed(snapshot)

    assert unplaced(plan) == []
    assert node_of(plan, "web") != node_of(plan, "loner")


def test_a_pod_that_avoids_pods_in_every_zone_stays_pending() -> None:
    # T40
    loner = a_pod("loner", anti_affinity=[affinity(WEB, ZONE)])
    snapshot = cluster([*zonal(labels=WEB), loner])

    plan = solved(snapshot)

    assert unplaced(plan) == ["loner"]
    assert "pod-anti-affinity" in reasons(plan)["loner"]


def test_a_pod_that_avoids_an_unconstrained_pod_gets_another_zone_in_the_same_pass() -> None:
    # T40, T43: the free pod is given a zone at once, so its zone is known.
    loner = a_pod("loner", anti_affinity=[affinity(WEB, ZONE)])
    snapshot = cluster([a_pod("web", labels=WEB), loner])

    plan = solved(snapshot)

    assert sorted(zones_of(plan).values()) == [1, 1]


def test_a_pod_that_avoids_an_architecture_gets_the_other() -> None:
    # T41
    web = a_pod("web", labels=WEB, node_selector={ARCH: "arm64"})
    loner = a_pod("loner", anti_affinity=[affinity(WEB, ARCH)])
    snapshot = cluster([loner, web])

    plan = solved(snapshot)

    assert domains_of(plan, ARCH) == {"arm64": 1, "amd64": 1}


def test_pods_in_every_zone_that_avoid_a_pod_keep_it_out() -> None:
    # T42
    guards = zonal(anti_affinity=[affinity(WEB, ZONE)])
    snapshot = cluster([a_pod("web", labels=WEB), *guards])

    assert unplaced(solved(snapshot)) == ["web"]


def test_running_pods_in_every_zone_that_avoid_a_pod_keep_it_out() -> None:
    # T42
    guards = [a_pod(f"guard-{zone}", anti_affinity=[affinity(WEB, ZONE)]) for zone in ZONES]
    nodes = [a_node(f"n-{zone}", zone=zone, pods=[guard]) for zone, guard in zip(ZONES, guards, strict=True)]
    snapshot = cluster([a_pod("web", labels=WEB)], nodes=nodes)

    assert unplaced(solved(snapshot)) == ["web"]


def test_pods_that_would_rather_avoid_a_pod_do_not_keep_it_out() -> None:
    # T42
    preference = prefer_pods(100, affinity(WEB, ZONE))
    together = cluster([a_pod("web", labels=WEB), *zonal(preferred_anti_affinity=[preference])])
    running = cluster(
        [a_pod("web", labels=WEB)],
        nodes=[
            a_node(f"n-{zone}", zone=zone, pods=[a_pod(zone, preferred_anti_affinity=[preference])])
            for zone in ZONES
        ],
    )

    assert unplaced(solved(together)) == []
    assert unplaced(solved(running)) == []


def test_a_pod_avoids_the_zone_of_one_that_runs_already() -> None:
    # T43, second pass
    loner = a_pod("loner", anti_affinity=[affinity(WEB, ZONE)])
    snapshot = cluster([loner], nodes=[a_node("old", zone=Z1, pods=[a_pod("web", labels=WEB)])])

    assert zones_of(solved(snapshot)).keys() <= {Z2, Z3}


def test_three_pods_that_avoid_each_others_zone_fill_three_zones_in_one_pass() -> None:
    # T44: Karpenter places one per pass, because it leaves their zones open.
    snapshot = cluster(pods(3, labels=WEB, anti_affinity=[affinity(WEB, ZONE)]))

    plan = solved(snapshot)

    assert zones_of(plan) == dict.fromkeys(ZONES, 1)


def test_a_fourth_pod_that_avoids_the_others_zones_finds_none() -> None:
    # T44
    same: dict[str, Any] = {"labels": WEB, "anti_affinity": [affinity(WEB, ZONE)]}
    snapshot = cluster(pods(3, **same))
    later = settled(snapshot, solved(snapshot), [a_pod("late", **same)])

    assert unplaced(solved(later)) == ["late"]


def test_of_four_pods_that_avoid_each_others_zone_one_stays_pending() -> None:
    # T44
    snapshot = cluster(pods(4, labels=WEB, anti_affinity=[affinity(WEB, ZONE)]))

    assert len(placed(solved(snapshot))) == 3


def test_pods_that_avoid_each_other_get_a_node_each() -> None:
    snapshot = cluster(pods(4, labels=WEB, anti_affinity=[affinity(WEB)]))

    assert pods_per_node(packed(snapshot)) == [1, 1, 1, 1]


def test_pods_that_avoid_each_other_share_nodes_with_everyone_else() -> None:
    loners = pods(3, "loner", labels=WEB, anti_affinity=[affinity(WEB)])
    snapshot = cluster([*loners, *pods(6, "free")])

    assert len(packed(snapshot).nodes) == 3


@pytest.mark.parametrize("listed", [False, True])
def test_a_pod_of_another_namespace_is_avoided_only_when_asked_for(listed: bool) -> None:
    # T48
    web = a_pod("web", labels=WEB, namespace="other")
    term = affinity(WEB, namespaces=["other"] if listed else [])
    snapshot = cluster([web, a_pod("loner", anti_affinity=[term])])

    plan = packed(snapshot)

    assert pods_per_node(plan) == ([1, 1] if listed else [2])
