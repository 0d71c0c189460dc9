"""Volumes restrict where a pod can run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm, PodVolume
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.plan import Constraint
from dovetail.model.settings import SchedulingSettings
from tests.support.scheduling.builders import a_pod, affinity, cluster, node_term
from tests.support.scheduling.instance_types import Z1, Z2, Z3
from tests.support.scheduling.plans import placed, reasons_of, unplaced, zones_of
from tests.support.scheduling.solver import checked as solve

DRIVER = "ebs.csi.aws.com"
BOUND: dict[str, Any] = {"annotations": FrozenDict({BIND_COMPLETED: "yes"}), "phase": "Bound"}


def in_zone(*zones: str) -> NodeSelectorTerm:
    return node_term((label_keys.ZONE, "In", list(zones)))


def a_claim(name: str = "data", **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(namespace="default", name=name, **fields)


def a_class(name: str = "zonal", *terms: NodeSelectorTerm, **fields: Any) -> StorageClass:
    return StorageClass(name=name, provisioner=DRIVER, allowed_topologies=terms, **fields)


def bound_in(*terms: NodeSelectorTerm, name: str = "pv", **fields: Any) -> dict[str, Any]:
    """Return a claim that is bound to a volume with these terms."""
    return {
        "volume_claims": [a_claim(volume=name, **BOUND)],
        "volumes": [PersistentVolume(name=name, driver=DRIVER, node_terms=terms, **fields)],
    }


def find_refused(plan: Any) -> tuple[str, Constraint]:
    [reason] = reasons_of(plan, "p")
    return reason.nodepool, reason.constraint


POD = a_pod("p", claims=["data"])


# --- P79, P80, S41, S42: claims that cannot be used -------------------------------------------


@pytest.mark.parametrize(
    "around",
    [
        {},
        {"volume_claims": [a_claim(storage_class="nowhere")]},
        {"volume_claims": [a_claim(volume="nowhere", **BOUND)]},
        {"volume_claims": [a_claim(storage_class="")]},
    ],
    ids=["no-claim", "no-class", "no-volume", "no-class-named"],
)
def test_p79_p80_an_invalid_volume_claim_stops_its_pod_and_no_other(around: dict[str, Any]) -> None:
    plan = solve(cluster([POD, a_pod("other")], **around))

    assert unplaced(plan) == ["p"]
    assert placed(plan) == ["other"]
    assert find_refused(plan) == ("", Constraint.VOLUME)
    assert "data" in reasons_of(plan, "p")[0].message


@pytest.mark.parametrize("storage_class", ["", "nowhere"])
def test_p80_a_bound_claim_needs_no_class(storage_class: str) -> None:
    around = bound_in()
    around["volume_claims"] = [a_claim(volume="pv", storage_class=storage_class, **BOUND)]

    plan = solve(cluster([POD], **around))

    assert placed(plan) == ["p"]


@pytest.mark.parametrize(
    "around",
    [
        {
            "volume_claims": [a_claim(storage_class="zonal")],
            "storage_classes": [a_class(binds_immediately=True)],
        },
        {"volume_claims": [a_claim(storage_class="zonal", deleting=True)], "storage_classes": [a_class()]},
        {"volume_claims": [a_claim(storage_class="zonal", phase="Lost")], "storage_classes": [a_class()]},
        bound_in(deleting=True),
        {
            "volume_claims": [a_claim(volume="pv", phase="Pending")],
            "volumes": [PersistentVolume(name="pv", driver=DRIVER)],
        },
    ],
    ids=["s41-immediate", "s41-deleting", "s41-lost", "s41-volume-deleting", "s42-half-bound"],
)
def test_s41_s42_a_claim_that_is_not_ready_for_a_pod_stops_it(around: dict[str, Any]) -> None:
    plan = solve(cluster([POD], **around))

    assert find_refused(plan) == ("", Constraint.VOLUME)


def test_s42_a_completely_bound_claim_does_not_stop_it() -> None:
    assert placed(solve(cluster([POD], **bound_in()))) == ["p"]


# --- P81 to P84 -------------------------------------------------------------------------------


@pytest.mark.parametrize("ephemeral", [False, True], ids=["claim", "ephemeral"])
@pytest.mark.parametrize(("zones", "expected"), [([Z1, Z3], {Z3: 1}), ([Z1], {})])
def test_p81_the_class_and_the_pod_must_agree_on_a_zone(
    zones: list[str], expected: dict[str, int], ephemeral: bool
) -> None:
    volume = PodVolume(claim="data", ephemeral=ephemeral)
    pod = a_pod("p", volumes=[volume], node_terms=[in_zone(*zones)])

    plan = solve(
        cluster(
            [pod],
            volume_claims=[a_claim(storage_class="zonal")],
            storage_classes=[a_class("zonal", in_zone(Z2, Z3))],
        )
    )

    assert zones_of(plan) == expected
    assert unplaced(plan) == ([] if expected else ["p"])


def test_p82_a_bound_volume_says_the_zone() -> None:
    plan = solve(cluster([POD], **bound_in(in_zone(Z3))))

    assert zones_of(plan) == {Z3: 1}


def test_p82_a_pod_that_must_be_elsewhere_stays_pending() -> None:
    pod = a_pod("p", claims=["data"], node_selector={label_keys.ZONE: Z1})

    plan = solve(cluster([pod], **bound_in(in_zone(Z3))))

    assert unplaced(plan) == ["p"]


def test_p82_the_zone_label_of_the_driver_means_the_zone() -> None:
    term = node_term(("topology.ebs.csi.aws.com/zone", "In", [Z3]))

    assert zones_of(solve(cluster([POD], **bound_in(term)))) == {Z3: 1}


ON_NODE = node_term((label_keys.HOSTNAME, "In", ["node-7"]))


def test_p83_the_hostname_of_a_local_volume_is_ignored() -> None:
    assert placed(solve(cluster([POD], **bound_in(ON_NODE, is_local=True)))) == ["p"]


def test_p83_the_zone_of_a_local_volume_counts() -> None:
    both = node_term((label_keys.HOSTNAME, "In", ["node-7"]), (label_keys.ZONE, "In", [Z2]))

    assert zones_of(solve(cluster([POD], **bound_in(both, is_local=True)))) == {Z2: 1}


def test_p83_the_hostname_of_any_other_volume_is_kept() -> None:
    plan = solve(cluster([POD], **bound_in(ON_NODE)))

    assert unplaced(plan) == ["p"]
    assert "node-7" in reasons_of(plan, "p")[0].message


def test_p84_the_volumes_zone_survives_dropping_alternatives() -> None:
    pod = a_pod("p", claims=["data"], node_terms=[in_zone("mars-1a"), in_zone(Z1, Z3)])

    plan = solve(cluster([pod], **bound_in(in_zone(Z3))))

    assert zones_of(plan) == {Z3: 1}


# --- S34 to S36: alternatives -----------------------------------------------------------------


@pytest.mark.parametrize("bound", [True, False], ids=["volume", "class"])
def test_s34_a_volume_with_two_zones_lets_two_pods_separate(bound: bool) -> None:
    places = (in_zone(Z1), in_zone(Z2))
    apart: dict[str, Any] = {
        "labels": {"app": "a"},
        "anti_affinity": [affinity({"app": "a"}, label_keys.ZONE)],
    }
    some = [a_pod(name, claims=[name], **apart) for name in ("a", "b")]
    if bound:
        claims = [a_claim(name, volume=name, **BOUND) for name in ("a", "b")]
    else:
        claims = [a_claim(name, storage_class="zonal") for name in ("a", "b")]

    plan = solve(
        cluster(
            some,
            volume_claims=claims,
            volumes=[PersistentVolume(name=name, driver=DRIVER, node_terms=places) for name in ("a", "b")],
            storage_classes=[a_class("zonal", *places)],
        )
    )

    assert zones_of(plan) == {Z1: 1, Z2: 1}


def test_s35_a_topology_with_only_the_hostname_of_a_local_volume_allows_any_node() -> None:
    around = bound_in(ON_NODE, in_zone("mars-1a"), is_local=True)

    assert placed(solve(cluster([POD], **around))) == ["p"]


def test_s36_volumes_must_have_a_zone_in_common() -> None:
    pod = a_pod("p", claims=["one", "two"])

    plan = solve(
        cluster(
            [pod],
            volume_claims=[a_claim("one", volume="one", **BOUND), a_claim("two", volume="two", **BOUND)],
            volumes=[
                PersistentVolume(name="one", driver=DRIVER, node_terms=(in_zone(Z1), in_zone(Z2))),
                PersistentVolume(name="two", driver=DRIVER, node_terms=(in_zone(Z2), in_zone(Z3))),
            ],
        )
    )

    assert zones_of(plan) == {Z2: 1}


def test_s36_volumes_without_a_common_zone_leave_the_pod_pending() -> None:
    pod = a_pod("p", claims=["one", "two"])

    plan = solve(
        cluster(
            [pod],
            volume_claims=[a_claim("one", volume="one", **BOUND), a_claim("two", volume="two", **BOUND)],
            volumes=[
                PersistentVolume(name="one", driver=DRIVER, node_terms=(in_zone(Z1),)),
                PersistentVolume(name="two", driver=DRIVER, node_terms=(in_zone(Z3),)),
            ],
        )
    )

    assert unplaced(plan) == ["p"]
    assert find_refused(plan) == ("default", Constraint.VOLUME)
    assert label_keys.ZONE in reasons_of(plan, "p")[0].message


# --- S39, S40 ---------------------------------------------------------------------------------


def test_s39_an_ephemeral_volume_without_a_claim_yet_follows_the_class_of_its_template() -> None:
    volume = PodVolume(claim="p-scratch", ephemeral=True, template_storage_class="zonal")

    plan = solve(cluster([a_pod("p", volumes=[volume])], storage_classes=[a_class("zonal", in_zone(Z3))]))

    assert zones_of(plan) == {Z3: 1}


def test_s39_without_a_class_named_the_newest_default_class_counts() -> None:
    volume = PodVolume(claim="p-scratch", ephemeral=True)
    first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    classes = [
        a_class("newer", in_zone(Z3), is_default=True, created=second),
        a_class("older", in_zone(Z1), is_default=True, created=first),
        a_class("other", in_zone(Z2)),
    ]

    plan = solve(cluster([a_pod("p", volumes=[volume])], storage_classes=classes))

    assert zones_of(plan) == {Z3: 1}


def test_s40_a_driver_that_is_not_supported_stops_the_pod() -> None:
    settings = SchedulingSettings(unsupported_provisioners=frozenset({DRIVER}))
    by_class = cluster([POD], volume_claims=[a_claim(storage_class="zonal")], storage_classes=[a_class()])
    by_volume = cluster([POD], **bound_in())

    for snapshot in (by_class, by_volume):
        assert find_refused(solve(snapshot, settings)) == ("", Constraint.VOLUME)
        assert placed(solve(snapshot)) == ["p"]


def test_s40_a_topology_key_that_is_not_supported_stops_the_pod() -> None:
    settings = SchedulingSettings(unsupported_topology_keys=frozenset({"example.com/rack"}))
    snapshot = cluster(
        [POD],
        volume_claims=[a_claim(storage_class="zonal")],
        storage_classes=[a_class("zonal", node_term(("example.com/rack", "In", ["r1"])))],
    )

    assert find_refused(solve(snapshot, settings)) == ("", Constraint.VOLUME)
