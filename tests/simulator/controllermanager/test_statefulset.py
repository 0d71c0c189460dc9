"""StatefulSet controller: stable names, order, claims and updates."""

from typing import Any

from dovetail.ports.api_resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from tests.support.simulator.api_server import names
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, new_image, set_pod

CLAIM: Object = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful(replicas: int, *, wait: float = 30, boot: float = 1, **spec: Any) -> WorkloadCluster:
    cluster = WorkloadCluster(boot=boot)
    cluster.create(STATEFUL_SETS, a_workload("db", replicas=replicas, **spec))
    cluster.wait(wait)
    return cluster


def status(cluster: WorkloadCluster) -> Object:
    written: Object = cluster.get(STATEFUL_SETS, "db", "default")["status"]
    return written


def versions(cluster: WorkloadCluster) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: get_field(pod, "spec", "containers")[0]["image"] for pod in cluster.pods()
    }


def partitioned(at: int) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": at}}}


def test_pods_are_created_in_order_each_when_the_previous_one_is_ready() -> None:
    cluster = stateful(3, wait=0, boot=10)

    history = []
    for _ in range(4):
        history.append(names(cluster.pods()))
        cluster.wait(10)

    everyone = ["db-0", "db-1", "db-2"]
    assert history == [everyone[:1], everyone[:2], everyone, everyone]
    assert status(cluster)["readyReplicas"] == status(cluster)["availableReplicas"] == 3


def test_a_pod_has_its_name_and_ordinal() -> None:
    cluster = stateful(1, serviceName="db")

    (pod,) = cluster.pods()
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")


def test_parallel_creates_and_deletes_all_pods_at_once() -> None:
    cluster = stateful(3, wait=0, podManagementPolicy="Parallel")
    at_once = names(cluster.pods())
    cluster.wait(10)

    cluster.scale(STATEFUL_SETS, "db", 0)
    cluster.wait(1)

    assert at_once == ["db-0", "db-1", "db-2"]
    assert cluster.pods() == []


def test_scaling_down_deletes_the_highest_ordinal_and_waits_for_it() -> None:
    cluster = stateful(3)

    cluster.scale(STATEFUL_SETS, "db", 1)
    cluster.wait(1)
    between = names(cluster.pods())
    cluster.wait(5)

    assert between == ["db-0", "db-1"]
    assert names(cluster.pods()) == ["db-0"]
    assert status(cluster)["replicas"] == 1


def test_a_deleted_pod_is_recreated_with_its_name_and_claim() -> None:
    cluster = stateful(2, volumeClaimTemplates=[CLAIM])
    first = cluster.get(PODS, "db-1", "default")

    cluster.delete(PODS, "db-1", "default")
    cluster.wait(10)

    again = cluster.get(PODS, "db-1", "default")
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert again["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    claims = cluster.list(PERSISTENT_VOLUME_CLAIMS).items
    assert names(claims) == ["data-db-0", "data-db-1"]
    assert claims[0]["metadata"]["labels"] == {"app": "db"}


def test_claims_outlive_a_scale_down_and_the_statefulset() -> None:
    cluster = stateful(2, volumeClaimTemplates=[CLAIM])

    cluster.scale(STATEFUL_SETS, "db", 1)
    cluster.wait(10)
    cluster.delete(STATEFUL_SETS, "db", "default")
    cluster.wait(10)

    assert cluster.pods() == []
    kept = names(cluster.list(PERSISTENT_VOLUME_CLAIMS).items)
    assert kept == ["data-db-0", "data-db-1"]


def test_claims_are_deleted_with_the_statefulset_by_retention_policy() -> None:
    policy = {"whenDeleted": "Delete"}
    cluster = stateful(2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)

    cluster.delete(STATEFUL_SETS, "db", "default")
    cluster.wait(10)

    assert cluster.list(PERSISTENT_VOLUME_CLAIMS).items == []


def test_a_failed_pod_is_recreated() -> None:
    cluster = stateful(2)

    set_pod(cluster, ("default", "db-0"), phase="Failed", ready=False)
    cluster.wait(10)

    assert names(cluster.pods()) == ["db-0", "db-1"]
    assert status(cluster)["readyReplicas"] == 2


def test_an_update_starts_at_the_highest_ordinal_one_pod_at_a_time() -> None:
    cluster = stateful(3)

    cluster.change(STATEFUL_SETS, "db", new_image("app:2"))
    cluster.wait(2)
    between = versions(cluster)
    cluster.wait(30)

    assert between == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    assert set(versions(cluster).values()) == {"app:2"}
    now = status(cluster)
    assert now["currentRevision"] == now["updateRevision"]
    assert now["updatedReplicas"] == now["currentReplicas"] == 3


def test_an_update_stops_at_the_partition_and_pods_below_keep_their_revision() -> None:
    cluster = stateful(3, **partitioned(2))
    cluster.change(STATEFUL_SETS, "db", new_image("app:2"))
    cluster.wait(30)

    cluster.delete(PODS, "db-0", "default")
    cluster.wait(30)

    assert versions(cluster) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    now = status(cluster)
    assert now["currentRevision"] != now["updateRevision"]
    assert (now["updatedReplicas"], now["currentReplicas"]) == (1, 2)


def test_lowering_the_partition_continues_the_update() -> None:
    cluster = stateful(3, **partitioned(3))
    cluster.change(STATEFUL_SETS, "db", new_image("app:2"))
    cluster.wait(30)
    before = set(versions(cluster).values())

    cluster.change(STATEFUL_SETS, "db", {"spec": partitioned(0)})
    cluster.wait(30)

    assert before == {"app:1"}
    assert set(versions(cluster).values()) == {"app:2"}


def test_an_update_that_never_becomes_ready_stops_at_the_first_pod() -> None:
    cluster = stateful(3)
    cluster.kubelet.broken = "app:bad"

    cluster.change(STATEFUL_SETS, "db", new_image("app:bad"))
    cluster.wait(60)

    assert versions(cluster) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:bad"}


def test_on_delete_updates_deleted_pods() -> None:
    cluster = stateful(2, updateStrategy={"type": "OnDelete"})
    cluster.change(STATEFUL_SETS, "db", new_image("app:2"))
    cluster.wait(10)

    cluster.delete(PODS, "db-0", "default")
    cluster.wait(10)

    assert versions(cluster) == {"db-0": "app:2", "db-1": "app:1"}


def test_ordinals_can_start_at_another_number() -> None:
    cluster = stateful(2, ordinals={"start": 5})

    assert names(cluster.pods()) == ["db-5", "db-6"]


def test_revisions_are_kept_up_to_the_history_limit() -> None:
    cluster = stateful(1, revisionHistoryLimit=1)

    for version in range(2, 6):
        cluster.change(STATEFUL_SETS, "db", new_image(f"app:{version}"))
        cluster.wait(10)

    kept = cluster.list(CONTROLLER_REVISIONS, ListOptions(namespace="default")).items
    assert sorted(revision["revision"] for revision in kept) == [4, 5]


def test_a_second_sync_writes_nothing() -> None:
    cluster = stateful(3)
    before = cluster.resource_version

    cluster.wait(3600)

    assert cluster.resource_version == before
