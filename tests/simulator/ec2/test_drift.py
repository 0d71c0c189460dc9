"""Drift in a simulated cluster."""

from typing import Any

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    scaled,
    wait,
)

ROOM = {"key": "example.com/room", "operator": "In", "values": ["red", "blue"]}
FLOOR = {"key": "example.com/floor", "operator": "Exists"}


def running_cluster(pool: dict[str, Any] | None = None) -> SimulatedCluster:
    """Two nodes with a pod each, which are not consolidated."""
    pool = pool or a_pool()
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
    objects = (a_node_class(), pool, an_app(replicas=2))
    cluster = build_cluster(build_scenario(objects=objects))
    wait(cluster, 120)
    return cluster


def drift(cluster: SimulatedCluster) -> list[str]:
    """Reason of each claim's Drifted condition; empty without one."""
    claims = cluster.api.list(NODE_CLAIMS).items
    conditions_by_type = [
        {condition["type"]: condition["reason"] for condition in claim["status"]["conditions"]}
        for claim in claims
    ]
    return [conditions.get("Drifted", "") for conditions in conditions_by_type]


def spec(cluster: SimulatedCluster, **fields: Any) -> None:
    cluster.api.patch(EC2_NODE_CLASSES, "default", {"spec": fields}, PatchType.MERGE)


def test_nodes_of_an_unchanged_cluster_never_drift() -> None:
    pool = a_pool()
    pool["spec"]["template"]["spec"]["requirements"] += [ROOM, FLOOR]
    cluster = running_cluster(pool)

    wait(cluster, 3 * 3600)

    assert drift(cluster) == ["", ""]


def test_new_amis_cause_drift_once_the_node_class_has_resolved_them() -> None:
    cluster = running_cluster()

    cluster.ec2.latest_image_versions["AL2023"] = "v20260801"
    wait(cluster, 61)

    assert drift(cluster) == ["AMIDrift", "AMIDrift"]


def test_selecting_another_ami_version_causes_drift() -> None:
    cluster = running_cluster()

    spec(cluster, amiSelectorTerms=[{"alias": "al2023@v20260801"}])
    wait(cluster, 5)

    assert drift(cluster) == ["AMIDrift", "AMIDrift"]


def test_instances_launched_after_an_ami_release_have_not_drifted() -> None:
    cluster = running_cluster()
    cluster.ec2.latest_image_versions["AL2023"] = "v20260801"
    wait(cluster, 61)

    perform(scaled(3), cluster)
    wait(cluster, 60)

    assert sorted(drift(cluster)) == ["", "AMIDrift", "AMIDrift"]


def test_other_subnets_cause_drift() -> None:
    cluster = running_cluster()

    spec(cluster, subnetSelectorTerms=[{"id": "subnet-1"}, {"id": "subnet-2"}, {"id": "subnet-3"}])
    wait(cluster, 5)

    assert drift(cluster) == ["SubnetDrift", "SubnetDrift"]


def test_a_changed_node_class_field_causes_drift() -> None:
    cluster = running_cluster()

    spec(cluster, userData="#!/bin/sh\necho hello\n")
    wait(cluster, 5)

    assert drift(cluster) == ["NodeClassDrift", "NodeClassDrift"]


def test_reverting_a_change_ends_the_drift() -> None:
    cluster = running_cluster()
    spec(cluster, userData="#!/bin/sh\necho hello\n")
    wait(cluster, 5)

    spec(cluster, userData=None)
    wait(cluster, 5)

    assert drift(cluster) == ["", ""]


def test_a_changed_nodepool_causes_drift() -> None:
    cluster = running_cluster()

    patch = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
    cluster.api.patch(NODE_POOLS, "default", patch, PatchType.MERGE)
    wait(cluster, 5)

    assert drift(cluster) == ["NodePoolDrifted", "NodePoolDrifted"]


def test_restarted_controllers_find_no_drift_in_existing_nodes() -> None:
    cluster = running_cluster()

    cluster.restart()
    wait(cluster, 600)

    assert drift(cluster) == ["", ""]
