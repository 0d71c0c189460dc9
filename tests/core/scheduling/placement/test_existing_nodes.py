"""Existing and in-flight nodes come before new ones."""

from typing import Any

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import NO_RESOURCES, Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_node, a_pod, a_pool, affinity, cluster, pods, taint
from tests.support.scheduling.instance_types import GPU_A, Z1, Z2, Z3, a_type
from tests.support.scheduling.plans import as_node, node_of, placements, settled, unplaced, zones_of
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
NOT_READY = "node.kubernetes.io/not-ready"


def in_flight(first: Any, *then: Any) -> ClusterSnapshot:
    """Return a cluster with an in-flight node for the first pod; the others are pending."""
    snapshot = cluster([first])
    return settled(snapshot, solve(snapshot), then, in_flight=True)


# --- P11, S44, S45, S49 -----------------------------------------------------------------------


@BOTH
def test_p11_s44_a_second_pod_uses_the_in_flight_node(packing: Packing) -> None:
    snapshot = in_flight(a_pod("first"), a_pod("second"))

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert plan.nodes == ()
    assert node_of(plan, "second") == snapshot.nodes[0].name


@pytest.mark.parametrize(("zone", "reused"), [(Z2, True), (Z3, False)])
def test_s44_an_in_flight_node_takes_pods_for_its_own_zone_only(zone: str, reused: bool) -> None:
    snapshot = in_flight(
        a_pod("first", node_selector={label_keys.ZONE: Z2}),
        a_pod("second", node_selector={label_keys.ZONE: zone}),
    )

    plan = solve(snapshot)

    assert (plan.nodes == ()) is reused
    assert unplaced(plan) == []


@pytest.mark.parametrize(
    "second",
    [
        a_pod("second", cpu="1.9"),
        a_pod("second", node_selector={label_keys.ARCH: "arm64"}),
        a_pod("second", more={GPU_A: 1}),
    ],
    ids=["size", "arch", "devices"],
)
def test_s45_a_pod_that_does_not_fit_the_in_flight_node_gets_another(second: Any) -> None:
    plan = solve(in_flight(a_pod("first"), second))

    assert len(plan.nodes) == 1
    assert node_of(plan, "second") == plan.nodes[0].name


def test_s45_a_terminated_node_does_not_count() -> None:
    snapshot = msgspec.structs.replace(in_flight(a_pod("first"), a_pod("second")), nodes=())

    assert len(solve(snapshot).nodes) == 1


def test_s49_a_pod_that_is_still_reported_as_pending_gets_no_second_node() -> None:
    pod = a_pod("p", cpu="1")
    snapshot = cluster([pod])
    planned = solve(snapshot).nodes[0]
    unbound = as_node(msgspec.structs.replace(planned, pods=()), a_pool(), "n", in_flight=True)

    plan = solve(msgspec.structs.replace(snapshot, nodes=(unbound,)))

    assert placements(plan) == {"default/p": "n"}


# --- S46, S47: taints -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taints",
    [
        (),
        (taint(NOT_READY),),
        (taint(NOT_READY, effect="NoExecute"),),
        (taint("cilium", "starting"),),
        (taint("readiness.k8s.io/network"),),
        (UNREGISTERED_TAINT,),
    ],
)
def test_s46_an_uninitialized_node_takes_pods_despite_startup_taints(taints: Any) -> None:
    node = a_node(
        "n", pool="default", initialized=False, taints=taints, startup_taints=(taint("cilium", "starting"),)
    )

    assert node_of(solve(cluster([a_pod("p")], nodes=[node])), "p") == "n"


@pytest.mark.parametrize(
    "blocking", [taint("custom"), taint("cilium", "starting"), taint(NOT_READY, effect="NoExecute")]
)
def test_s47_a_taint_on_an_initialized_node_keeps_pods_away(blocking: Any) -> None:
    node = a_node("n", pool="default", taints=(blocking,), startup_taints=(taint("cilium", "starting"),))

    assert node_of(solve(cluster([a_pod("p")], nodes=[node])), "p") != "n"


def test_s47_a_custom_taint_counts_on_an_uninitialized_node_too() -> None:
    node = a_node("n", pool="default", initialized=False, taints=(taint("custom"),))

    assert node_of(solve(cluster([a_pod("p")], nodes=[node])), "p") != "n"


# --- S48, S50 ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("batches", [[3, 7, 1, 12, 5], [1, 1, 1, 1], [10, 0, 10], [4, 4, 3]])
def test_s48_batch_after_batch_at_most_one_node_has_room_left(batches: list[int], packing: Packing) -> None:
    settings = SchedulingSettings(packing=packing)
    snapshot = cluster([], types=[a_type("only", cpu="4.1", memory="16Gi", pods=100)])

    for number, count in enumerate(batches):
        snapshot = msgspec.structs.replace(
            snapshot, pending_pods=tuple(pods(count, f"batch-{number}", cpu="1"))
        )
        snapshot = settled(snapshot, solve(snapshot, settings), in_flight=True)

    assert sum(len(node.pods) < 4 for node in snapshot.nodes) <= 1
    assert sum(len(node.pods) for node in snapshot.nodes) == sum(batches)


@BOTH
def test_s50_an_initialized_node_is_preferred_to_an_in_flight_one(packing: Packing) -> None:
    nodes = [
        a_node("a-starting", pool="default", initialized=False),
        a_node("b-started", pool="default"),
        a_node("c-starting", pool="default", initialized=False),
    ]

    plan = solve(cluster([a_pod("p")], nodes=nodes), SchedulingSettings(packing=packing))

    assert node_of(plan, "p") == "b-started"


def test_s50_equal_nodes_are_filled_in_the_order_of_their_names() -> None:
    nodes = [a_node(name, pool="default") for name in ("c", "a", "b")]

    assert node_of(solve(cluster([a_pod("p")], nodes=nodes)), "p") == "a"


# --- S52 to S55 -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("count", [1, 100])
def test_s52_an_unmanaged_node_takes_pods(count: int, packing: Packing) -> None:
    node = a_node("mine", cpu=16, memory="64Gi")

    plan = solve(cluster(pods(count), nodes=[node]), SchedulingSettings(packing=packing))

    assert plan.nodes == ()
    assert set(placements(plan).values()) == {"mine"}


def test_s53_a_node_without_a_zone_label_does_not_fit_a_pod_that_requires_a_zone() -> None:
    pod = a_pod("p", node_selector={label_keys.ZONE: Z1})

    plan = solve(cluster([pod], nodes=[a_node("unlabelled")]))

    assert zones_of(plan) == {Z1: 1}


def test_s54_devices_that_an_uninitialized_node_does_not_report_yet_count() -> None:
    reserved = Resources.parse({"cpu": 4, "memory": "4Gi", "pods": 5, GPU_A: 2})
    reported = Resources.parse({"cpu": 4, "memory": "4Gi", "pods": 5, GPU_A: 0})
    sizes: dict[str, Any] = {
        "allocatable": reported,
        "claim_allocatable": reserved,
        "claim_capacity": reserved,
    }
    starting = a_node("n", pool="default", initialized=False, **sizes)
    started = a_node("n", pool="default", initialized=True, **sizes)
    pod = a_pod("p", more={GPU_A: 1})

    assert node_of(solve(cluster([pod], nodes=[starting])), "p") == "n"
    assert node_of(solve(cluster([pod], nodes=[started])), "p") != "n"


@BOTH
def test_s55_pods_that_require_one_zone_follow_the_in_flight_node(packing: Packing) -> None:
    together: dict[str, Any] = {"labels": {"app": "a"}, "affinity": [affinity({"app": "a"}, label_keys.ZONE)]}
    settings = SchedulingSettings(packing=packing)
    snapshot = cluster([a_pod("first", node_selector={label_keys.ZONE: Z2}, **together)])

    later = settled(
        snapshot, solve(snapshot, settings), pods(20, "later", cpu="1", **together), in_flight=True
    )
    plan = solve(later, settings)

    assert unplaced(plan) == []
    assert set(zones_of(plan, snapshot=later)) == {Z2}


# --- More that must hold ----------------------------------------------------------------------


@BOTH
def test_a_full_node_takes_no_more_pods_than_its_pod_count(packing: Packing) -> None:
    node = a_node("n", cpu=64, memory="64Gi", room=3, pods=pods(2, "running"))

    plan = solve(cluster(pods(2, cpu="1m"), nodes=[node]), SchedulingSettings(packing=packing))

    assert sorted(placements(plan).values()).count("n") == 1


def test_a_launched_claim_without_a_node_is_a_target() -> None:
    reserved = Resources.parse({"cpu": 4, "memory": "4Gi", "pods": 5})
    node = a_node(
        "claim-only",
        pool="default",
        registered=False,
        initialized=False,
        capacity=NO_RESOURCES,
        allocatable=NO_RESOURCES,
        claim_capacity=reserved,
        claim_allocatable=reserved,
    )

    assert node_of(solve(cluster([a_pod("p")], nodes=[node])), "p") == "claim-only"
