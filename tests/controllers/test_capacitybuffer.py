"""CapacityBuffers: CB1–CB7, X4, X5, EM14–EM18 of the checklists."""

from typing import Any

import pytest

from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POD_TEMPLATES,
    PODS,
)
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

ON = FeatureGates(CapacityBuffer=True)


def a_buffer(**spec: Any) -> dict[str, Any]:
    """Return a buffer of pods like those of ``web``; each pod needs its own node."""
    default = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "buffer", "namespace": "default"},
        "spec": default | spec,
    }


def a_cluster(
    *more: dict[str, Any], replicas: int = 0, gates: FeatureGates = ON, **pool: Any
) -> SimulatedCluster:
    objects = (a_node_class(), a_pool(**pool), an_app(replicas=replicas), *more)
    cluster = build_cluster(build_scenario(objects=objects, node_group=0), gates=gates)
    wait(cluster, 60)
    return cluster


def count_nodes(cluster: SimulatedCluster) -> int:
    return len(cluster.api.list(NODES).items)


def get_condition(cluster: SimulatedCluster, kind: str) -> tuple[str, str]:
    status = cluster.api.get(CAPACITY_BUFFERS, "buffer", "default").get("status", {})
    for condition in status.get("conditions", ()):
        if condition["type"] == kind:
            return condition["status"], condition["reason"]
    return "", ""


def versions(cluster: SimulatedCluster) -> dict[tuple[str, str], str]:
    return {
        (kind.plural, obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
        for kind in (CAPACITY_BUFFERS, NODE_CLAIMS, NODE_POOLS)
        for obj in cluster.api.list(kind).items
    }


def scale(cluster: SimulatedCluster, replicas: int) -> None:
    cluster.api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, PatchType.MERGE, "default")


def test_nodes_are_launched_for_virtual_pods_and_kept() -> None:
    cluster = a_cluster(a_buffer(replicas=2))
    before = count_nodes(cluster)

    wait(cluster, 3600)

    assert before == 2
    assert count_nodes(cluster) == 2
    assert cluster.api.list(PODS).items == []
    assert get_condition(cluster, "ReadyForProvisioning") == ("True", "Resolved")
    assert get_condition(cluster, "Provisioning") == ("True", "FitsExistingCapacity")
    assert cluster.api.get(CAPACITY_BUFFERS, "buffer", "default")["status"]["replicas"] == 2
    assert cluster.invariants.violations == []


def test_pending_nodeclaims_are_not_duplicated() -> None:
    cluster = a_cluster(a_buffer(replicas=2))

    assert cluster.ec2.billing.instance_count == 2
    assert len(cluster.api.list(NODE_CLAIMS).items) == 2


def test_real_pod_uses_the_buffer_at_once_and_the_buffer_is_refilled() -> None:
    cluster = a_cluster(a_buffer(replicas=1))

    scale(cluster, 1)
    wait(cluster, 5)
    (pod,) = cluster.api.list(PODS).items
    at_once = pod["spec"].get("nodeName", "")
    wait(cluster, 60)

    assert at_once
    assert count_nodes(cluster) == 2


def test_nodes_of_a_deleted_buffer_are_deleted() -> None:
    cluster = a_cluster(a_buffer(replicas=2))

    cluster.api.delete(CAPACITY_BUFFERS, "buffer", "default")
    wait(cluster, 120)

    assert count_nodes(cluster) == 0


def test_smaller_buffer_deletes_surplus_nodes() -> None:
    cluster = a_cluster(a_buffer(replicas=3))

    cluster.api.patch(CAPACITY_BUFFERS, "buffer", {"spec": {"replicas": 1}}, PatchType.MERGE, "default")
    wait(cluster, 120)

    assert count_nodes(cluster) == 1


def test_percentage_buffer_grows_with_its_workload() -> None:
    cluster = a_cluster(a_buffer(percentage=50), replicas=2)
    before = count_nodes(cluster)

    scale(cluster, 4)
    wait(cluster, 120)

    assert before == 3
    assert count_nodes(cluster) == 6


def test_nodepool_limits_apply_to_buffers() -> None:
    cluster = a_cluster(a_buffer(replicas=5), limits={"nodes": "2"})

    wait(cluster, 300)

    assert count_nodes(cluster) == 2
    assert get_condition(cluster, "Provisioning") == ("False", "RequiresNewCapacity")


def test_buffer_can_refer_to_a_pod_template() -> None:
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "web", "namespace": "default"},
        "template": an_app()["spec"]["template"],
    }
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 2, "scalableRef": None}
    buffer = a_buffer(**spec)
    del buffer["spec"]["scalableRef"]

    cluster = a_cluster(template, buffer)

    assert count_nodes(cluster) == 2
    cluster.api.delete(POD_TEMPLATES, "web", "default")
    wait(cluster, 120)
    assert get_condition(cluster, "ReadyForProvisioning") == ("False", "PodTemplateNotFound")
    assert count_nodes(cluster) == 0


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ({"apiGroup": "apps", "kind": "Deployment", "name": "gone"}, "ScalableRefNotFound"),
        ({"apiGroup": "apps", "kind": "DaemonSet", "name": "web"}, "ResolutionFailed"),
        ({"apiGroup": "example.com", "kind": "Deployment", "name": "web"}, "ResolutionFailed"),
    ],
)
def test_unresolved_reference_is_reported_and_reserves_nothing(ref: dict[str, str], reason: str) -> None:
    cluster = a_cluster(a_buffer(scalableRef=ref, replicas=2))

    assert get_condition(cluster, "ReadyForProvisioning") == ("False", reason)
    assert get_condition(cluster, "Provisioning") == ("False", "NotReadyForProvisioning")
    assert count_nodes(cluster) == 0


def test_workload_created_later_is_resolved_within_half_a_minute() -> None:
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "late"}
    cluster = a_cluster(a_buffer(scalableRef=ref, replicas=1))

    cluster.apply([an_app("late")])
    wait(cluster, 60)

    assert get_condition(cluster, "ReadyForProvisioning") == ("True", "Resolved")
    assert count_nodes(cluster) == 1


def test_restart_keeps_the_buffer_and_launches_nothing() -> None:
    cluster = a_cluster(a_buffer(replicas=2))
    wait(cluster, 600)

    cluster.restart()
    wait(cluster, 120)

    assert count_nodes(cluster) == 2
    assert cluster.ec2.billing.instance_count == 2


def test_buffer_with_another_strategy_is_ignored() -> None:
    cluster = a_cluster(a_buffer(replicas=2, provisioningStrategy="example.com/other"))

    assert count_nodes(cluster) == 0
    assert get_condition(cluster, "ReadyForProvisioning") == ("", "")


def test_controller_is_off_without_its_feature_gate() -> None:
    cluster = a_cluster(a_buffer(replicas=2), gates=FeatureGates())

    assert count_nodes(cluster) == 0
    assert get_condition(cluster, "ReadyForProvisioning") == ("", "")


def test_second_reconcile_changes_nothing() -> None:
    cluster = a_cluster(a_buffer(replicas=1))
    before = versions(cluster)

    wait(cluster, 60)

    assert versions(cluster) == before
