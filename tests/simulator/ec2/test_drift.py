"""Drift in the box: machines that virtual EC2 would not launch any more as they are."""

from typing import Any

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, scaled, wait

ROOM = {"key": "example.com/room", "operator": "In", "values": ["red", "blue"]}
FLOOR = {"key": "example.com/floor", "operator": "Exists"}


def a_running_box(pool: dict[str, Any] | None = None) -> Box:
    """Two nodes, each with a pod of its own, that nobody replaces."""
    pool = pool or a_pool()
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
    objects = (a_node_class(), pool, an_app(replicas=2))
    box = a_box(a_story(objects=objects))
    wait(box, 120)
    return box


def drift(box: Box) -> list[str]:
    """What each claim says of its drift."""
    claims = box.api.list(NODE_CLAIMS).items
    known = [
        {one["type"]: one["reason"] for one in claim["status"]["conditions"]} for claim in claims
    ]
    return [one.get("Drifted", "") for one in known]


def spec(box: Box, **fields: Any) -> None:
    box.api.patch(EC2_NODE_CLASSES, "default", {"spec": fields}, PatchType.MERGE)


def test_nodes_of_a_cluster_that_nobody_touches_never_drift() -> None:
    pool = a_pool()
    pool["spec"]["template"]["spec"]["requirements"] += [ROOM, FLOOR]
    box = a_running_box(pool)

    wait(box, 3 * 3600)

    assert drift(box) == ["", ""]


def test_new_images_are_drift_once_the_class_has_found_them() -> None:
    box = a_running_box()

    box.ec2.latest["AL2023"] = "v20260801"
    wait(box, 61)

    assert drift(box) == ["AMIDrift", "AMIDrift"]


def test_a_class_that_asks_for_another_version_makes_its_machines_drift() -> None:
    box = a_running_box()

    spec(box, amiSelectorTerms=[{"alias": "al2023@v20260801"}])
    wait(box, 5)

    assert drift(box) == ["AMIDrift", "AMIDrift"]


def test_what_is_bought_after_new_images_came_has_not_drifted() -> None:
    box = a_running_box()
    box.ec2.latest["AL2023"] = "v20260801"
    wait(box, 61)

    act(scaled(3), box)
    wait(box, 60)

    assert sorted(drift(box)) == ["", "AMIDrift", "AMIDrift"]


def test_other_subnets_are_drift() -> None:
    box = a_running_box()

    spec(box, subnetSelectorTerms=[{"id": "subnet-1"}, {"id": "subnet-2"}, {"id": "subnet-3"}])
    wait(box, 5)

    assert drift(box) == ["SubnetDrift", "SubnetDrift"]


def test_what_a_class_says_is_drift() -> None:
    box = a_running_box()

    spec(box, userData="#!/bin/sh\necho hello\n")
    wait(box, 5)

    assert drift(box) == ["NodeClassDrift", "NodeClassDrift"]


def test_taking_a_change_back_takes_the_drift_away() -> None:
    box = a_running_box()
    spec(box, userData="#!/bin/sh\necho hello\n")
    wait(box, 5)

    spec(box, userData=None)
    wait(box, 5)

    assert drift(box) == ["", ""]


def test_a_changed_pool_is_drift() -> None:
    box = a_running_box()

    patch = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
    box.api.patch(NODE_POOLS, "default", patch, PatchType.MERGE)
    wait(box, 5)

    assert drift(box) == ["NodePoolDrifted", "NodePoolDrifted"]


def test_controllers_that_start_anew_find_no_drift_in_what_they_left() -> None:
    box = a_running_box()

    box.restart()
    wait(box, 600)

    assert drift(box) == ["", ""]
