"""CapacityBuffers: CB1–CB7, X4, X5, EM14–EM18 of the checklists."""

from datetime import timedelta
from typing import Any

import msgspec
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
    Resource,
)
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import Unavailable
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.checks.invariants import CheckedKubeClient, Invariants
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.latencies import CloudLatencies
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


class WorkloadReads:
    """Requests of the operator for single Deployments; they can be made to fail."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_failing = False

    def client(self, api: ApiServer, invariants: Invariants) -> KubeClient:
        reads = self

        class Client(CheckedKubeClient):
            async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
                if resource is DEPLOYMENTS:
                    reads.names.append(name)
                    if reads.is_failing:
                        raise Unavailable("the API server does not answer")
                return await super().get(resource, name, namespace)

        return Client(api, invariants)


def a_cluster(
    *more: dict[str, Any],
    replicas: int = 0,
    gates: FeatureGates = ON,
    reads: WorkloadReads | None = None,
    **pool: Any,
) -> SimulatedCluster:
    objects = (a_node_class(), a_pool(**pool), an_app(replicas=replicas), *more)
    client = {} if reads is None else {"kube": reads.client}
    cluster = build_cluster(build_scenario(objects=objects, node_group=0), gates=gates, **client)
    wait(cluster, 60)
    return cluster


def a_template(cpu: str = "1") -> dict[str, Any]:
    """Return a PodTemplate like that of ``web``."""
    template = an_app()["spec"]["template"]
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "web", "namespace": "default"},
        "template": template,
    }


def a_template_buffer(**spec: Any) -> dict[str, Any]:
    buffer = a_buffer(podTemplateRef={"name": "web"}, **spec)
    del buffer["spec"]["scalableRef"]
    return buffer


def get_status(cluster: SimulatedCluster) -> dict[str, Any]:
    status: dict[str, Any] = cluster.api.get(CAPACITY_BUFFERS, "buffer", "default").get("status", {})
    return status


def count_nodes(cluster: SimulatedCluster) -> int:
    return len(cluster.api.list(NODES).items)


def get_condition(cluster: SimulatedCluster, kind: str) -> tuple[str, str]:
    for condition in get_status(cluster).get("conditions", ()):
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


@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized"])
@pytest.mark.parametrize("boot_seconds", [5, 32, 50])
def test_nodes_are_needed_from_launch_to_initialization_and_after(policy: str, boot_seconds: int) -> None:
    disruption = {"consolidationPolicy": policy, "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    objects = (a_node_class(), a_pool(disruption=disruption), an_app(), a_buffer(replicas=2))
    scenario = msgspec.structs.replace(
        build_scenario(objects=objects, node_group=0),
        cloud=CloudLatencies(start=timedelta(seconds=2), boot=timedelta(seconds=boot_seconds)),
    )
    cluster = build_cluster(scenario, gates=ON)

    wait(cluster, 600)

    assert len(cluster.ec2.billing.launches) == 2
    assert count_nodes(cluster) == 2
    assert get_condition(cluster, "Provisioning") == ("True", "FitsExistingCapacity")


def test_consolidation_does_not_move_pods_to_capacity_that_a_buffer_needs() -> None:
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    cluster = a_cluster(a_buffer(replicas=2), replicas=3, disruption=disruption)

    wait(cluster, 1800)

    assert len(cluster.ec2.billing.launches) == 5
    assert count_nodes(cluster) == 5


def test_empty_nodes_are_deleted_after_a_restart_without_buffers_or_pods() -> None:
    cluster = a_cluster(replicas=1)
    wait(cluster, 60)

    cluster.restart()
    scale(cluster, 0)
    wait(cluster, 120)

    assert count_nodes(cluster) == 0


def test_empty_nodes_are_deleted_beside_a_buffer_that_cannot_be_resolved() -> None:
    gone = {"apiGroup": "apps", "kind": "Deployment", "name": "gone"}
    cluster = a_cluster(a_buffer(scalableRef=gone, replicas=2), replicas=1)
    wait(cluster, 60)

    cluster.restart()
    scale(cluster, 0)
    wait(cluster, 120)

    assert count_nodes(cluster) == 0


def test_pending_nodeclaims_are_not_duplicated() -> None:
    cluster = a_cluster(a_buffer(replicas=2))

    assert len(cluster.ec2.billing.launches) == 2
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
    cluster = a_cluster(a_template(), a_template_buffer(replicas=2))

    assert count_nodes(cluster) == 2
    cluster.api.delete(POD_TEMPLATES, "web", "default")
    wait(cluster, 120)
    assert get_condition(cluster, "ReadyForProvisioning") == ("False", "PodTemplateNotFound")
    assert count_nodes(cluster) == 0


def test_status_names_the_pod_template_in_use_and_its_generation() -> None:
    cluster = a_cluster(a_template(), a_template_buffer(replicas=1))
    before = get_status(cluster)

    cluster.apply([a_template(cpu="1500m")])
    wait(cluster, 5)
    after = get_status(cluster)
    cluster.api.delete(POD_TEMPLATES, "web", "default")
    wait(cluster, 5)

    assert before["podTemplateRef"] == after["podTemplateRef"] == {"name": "web"}
    assert (before["podTemplateGeneration"], after["podTemplateGeneration"]) == (1, 2)
    assert before["provisioningStrategy"] == "buffer.x-k8s.io/active-capacity"
    assert get_status(cluster).keys() == {"conditions", "provisioningStrategy"}


def test_status_of_a_workload_buffer_names_no_pod_template() -> None:
    cluster = a_cluster(a_buffer(replicas=1))

    assert get_status(cluster).keys() == {"conditions", "provisioningStrategy", "replicas"}


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


def test_workload_created_later_is_resolved_at_once() -> None:
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "late"}
    cluster = a_cluster(a_buffer(scalableRef=ref, replicas=1))

    cluster.apply([an_app("late")])
    wait(cluster, 2)

    assert get_condition(cluster, "ReadyForProvisioning") == ("True", "Resolved")
    assert len(cluster.api.list(NODE_CLAIMS).items) == 1


def test_workload_is_read_when_it_changes_and_not_otherwise() -> None:
    reads = WorkloadReads()
    cluster = a_cluster(a_buffer(percentage=100), replicas=1, reads=reads)
    wait(cluster, 60)
    reads.names.clear()

    wait(cluster, 300)
    unchanged = len(reads.names)
    scale(cluster, 2)
    wait(cluster, 2)
    replicas = get_status(cluster)["replicas"]
    wait(cluster, 300)

    assert unchanged == 0
    assert replicas == 2
    assert reads.names == ["web"]


def test_failed_read_of_the_workload_releases_no_nodes() -> None:
    reads = WorkloadReads()
    cluster = a_cluster(a_buffer(replicas=2), reads=reads)

    reads.is_failing = True
    cluster.apply([an_app() | {"spec": an_app()["spec"] | {"minReadySeconds": 1}}])
    wait(cluster, 120)
    failed = get_condition(cluster, "ReadyForProvisioning"), count_nodes(cluster)
    reads.is_failing = False
    wait(cluster, 600)

    assert failed == (("False", "ResolutionFailed"), 2)
    assert get_condition(cluster, "ReadyForProvisioning") == ("True", "Resolved")
    assert len(cluster.ec2.billing.launches) == 2


def test_restart_keeps_the_buffer_and_launches_nothing() -> None:
    cluster = a_cluster(a_buffer(replicas=2))
    wait(cluster, 600)

    cluster.restart()
    wait(cluster, 120)

    assert count_nodes(cluster) == 2
    assert len(cluster.ec2.billing.launches) == 2


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
