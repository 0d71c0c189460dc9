"""Deployment controller: scaling, rolling updates, status."""

from collections import Counter
from datetime import timedelta

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.workqueue import start_watch
from tests.support.simulator.api_server import names
from tests.support.simulator.controller_manager import (
    WorkloadCluster,
    a_workload,
    condition_of,
    images,
    new_image,
)


def a_running_deployment(
    replicas: int, *, boot: float = 1, stop: float = 1, **spec: object
) -> WorkloadCluster:
    cluster = WorkloadCluster(boot=boot, stop=stop)
    cluster.create(DEPLOYMENTS, a_workload(replicas=replicas, **spec))
    cluster.wait(5)
    return cluster


def status(cluster: WorkloadCluster) -> Object:
    written: Object = cluster.get(DEPLOYMENTS, "web", "default")["status"]
    return written


def rolling(surge: int | str, unavailable: int | str) -> dict[str, object]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


class Extremes:
    """Maximum number of pods and minimum of ready ones, at the end of every instant."""

    def __init__(self, cluster: WorkloadCluster) -> None:
        self._clock = cluster.clock
        self.most, self.fewest_ready = 0, 10**6
        self._pods: dict[str, Object] = {}
        start_watch(cluster, cluster.clock, PODS, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._pods.pop(name, None)
        else:
            self._pods[name] = event.object
        self._clock.call_later(timedelta(), self._count, priority=9)

    def _count(self) -> None:
        living = [pod for pod in self._pods.values() if not pod["metadata"].get("deletionTimestamp")]
        ready = [pod for pod in living if condition_of(pod, "Ready")[0] == "True"]
        self.most = max(self.most, len(living))
        self.fewest_ready = min(self.fewest_ready, len(ready))


def test_a_deployment_creates_a_replicaset_named_after_its_template_hash_which_creates_pods() -> None:
    cluster = a_running_deployment(3)

    (replica_set,) = cluster.list(REPLICA_SETS).items
    mark = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{mark}"
    assert [pod["metadata"]["labels"] for pod in cluster.pods()] == [
        {"app": "web", "pod-template-hash": mark}
    ] * 3
    assert all(pod["metadata"]["name"].startswith(f"web-{mark}-") for pod in cluster.pods())


def test_a_complete_rollout_satisfies_kubectl_rollout_status() -> None:
    cluster = a_running_deployment(3)

    deployment = cluster.get(DEPLOYMENTS, "web", "default")
    counts = {name: count for name, count in deployment["status"].items() if name != "conditions"}
    assert counts == {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert condition_of(deployment, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition_of(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_scaling_changes_the_replicaset_and_no_revision() -> None:
    cluster = a_running_deployment(3)

    cluster.scale(DEPLOYMENTS, "web", 7)
    cluster.wait(5)
    most = len(cluster.pods())
    cluster.scale(DEPLOYMENTS, "web", 2)
    cluster.wait(5)

    assert most == 7
    assert len(cluster.pods()) == 2
    assert status(cluster)["availableReplicas"] == 2
    assert len(cluster.list(REPLICA_SETS).items) == 1
    annotations = cluster.get(DEPLOYMENTS, "web", "default")["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "1"


def test_scaling_to_zero_leaves_no_pods_and_a_complete_deployment() -> None:
    cluster = a_running_deployment(3)

    cluster.scale(DEPLOYMENTS, "web", 0)
    cluster.wait(5)

    assert cluster.pods() == []
    assert "replicas" not in status(cluster)


def test_a_deployment_without_replicas_is_complete_with_its_replicaset() -> None:
    cluster = a_running_deployment(0)

    (replica_set,) = cluster.list(REPLICA_SETS).items
    (progressing,) = [
        condition for condition in status(cluster)["conditions"] if condition["type"] == "Progressing"
    ]
    name = replica_set["metadata"]["name"]
    assert progressing["message"] == f'ReplicaSet "{name}" has successfully progressed.'


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "fewest_ready"),
    [
        (1, 0, 11, 10),
        (0, 1, 10, 9),
        ("25%", "25%", 13, 8),
        ("100%", 0, 20, 10),
        (0, "100%", 10, 0),
        (0, 0, 10, 9),
    ],
)
def test_a_rolling_update_respects_max_surge_and_max_unavailable(
    surge: int | str, unavailable: int | str, most: int, fewest_ready: int
) -> None:
    cluster = a_running_deployment(10, strategy=rolling(surge, unavailable))
    extremes = Extremes(cluster)
    cluster.wait(0)
    extremes.fewest_ready = 10

    cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
    cluster.wait(120)

    assert images(cluster.pods()) == ["app:2"] * 10
    assert status(cluster)["updatedReplicas"] == status(cluster)["replicas"] == 10
    assert extremes.most == most
    assert extremes.fewest_ready == fewest_ready


def test_an_update_whose_pods_never_become_ready_stops_and_exceeds_its_deadline() -> None:
    cluster = a_running_deployment(10, strategy=rolling(2, 0), progressDeadlineSeconds=60)
    cluster.kubelet.broken = "app:bad"

    cluster.change(DEPLOYMENTS, "web", new_image("app:bad"))
    cluster.wait(30)
    early = condition_of(cluster.get(DEPLOYMENTS, "web", "default"), "Progressing")
    cluster.wait(60)

    assert Counter(images(cluster.pods())) == {"app:1": 10, "app:bad": 2}
    assert early[0] == "True"
    late = condition_of(cluster.get(DEPLOYMENTS, "web", "default"), "Progressing")
    assert late == ("False", "ProgressDeadlineExceeded")


def test_a_failing_update_is_replaced_by_the_next_and_unavailable_pods_go_first() -> None:
    cluster = a_running_deployment(4, strategy=rolling(1, 1))
    cluster.kubelet.broken = "app:bad"
    cluster.change(DEPLOYMENTS, "web", new_image("app:bad"))
    cluster.wait(30)

    cluster.change(DEPLOYMENTS, "web", new_image("app:3"))
    cluster.wait(30)

    assert images(cluster.pods()) == ["app:3"] * 4
    assert condition_of(cluster.get(DEPLOYMENTS, "web", "default"), "Progressing")[0] == "True"


def test_a_rollback_reuses_the_replicaset_with_a_new_revision() -> None:
    cluster = a_running_deployment(2)
    (first,) = names(cluster.list(REPLICA_SETS).items)
    cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
    cluster.wait(20)

    cluster.change(DEPLOYMENTS, "web", new_image("app:1"))
    cluster.wait(20)

    assert images(cluster.pods()) == ["app:1"] * 2
    back = cluster.get(REPLICA_SETS, first, "default")["metadata"]["annotations"]
    assert back["deployment.kubernetes.io/revision"] == "3"
    assert back["deployment.kubernetes.io/revision-history"] == "1"
    assert len(cluster.list(REPLICA_SETS).items) == 2


def test_rollout_restart_replaces_every_pod() -> None:
    cluster = a_running_deployment(4)
    before = set(names(cluster.pods()))

    stamp = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T09:00:05Z"}
    cluster.change(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": stamp}}}})
    cluster.wait(30)

    after = cluster.pods()
    assert len(after) == 4
    assert before.isdisjoint(names(after))
    assert all(pod["metadata"]["annotations"] == stamp for pod in after)


def test_recreate_deletes_the_last_old_pod_before_the_first_new_one() -> None:
    cluster = a_running_deployment(3, stop=10, strategy={"type": "Recreate"})

    cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
    cluster.wait(9)
    while_stopping = images(cluster.pods())
    cluster.wait(5)

    assert while_stopping == ["app:1"] * 3
    assert images(cluster.pods()) == ["app:2"] * 3
    assert status(cluster)["availableReplicas"] == 3


def test_a_paused_deployment_scales_but_does_not_update_until_it_is_resumed() -> None:
    cluster = a_running_deployment(2)
    cluster.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
    cluster.scale(DEPLOYMENTS, "web", 4)
    cluster.wait(10)
    while_paused = images(cluster.pods())

    cluster.change(DEPLOYMENTS, "web", {"spec": {"paused": None}})
    cluster.wait(30)

    assert while_paused == ["app:1"] * 4
    assert images(cluster.pods()) == ["app:2"] * 4


def test_scaling_during_an_update_is_proportional() -> None:
    cluster = a_running_deployment(10, strategy=rolling(5, 0))
    cluster.kubelet.broken = "app:bad"
    cluster.change(DEPLOYMENTS, "web", new_image("app:bad"))
    cluster.wait(10)

    cluster.scale(DEPLOYMENTS, "web", 20)
    cluster.wait(1)

    counts = Counter(images(cluster.pods()))
    assert counts == {"app:1": 17, "app:bad": 8}


def test_old_replicasets_are_kept_up_to_the_history_limit() -> None:
    cluster = a_running_deployment(1, revisionHistoryLimit=2)

    for version in range(2, 7):
        cluster.change(DEPLOYMENTS, "web", new_image(f"app:{version}"))
        cluster.wait(20)

    kept = [
        replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        for replica_set in cluster.list(REPLICA_SETS).items
    ]
    assert sorted(kept) == ["4", "5", "6"]


def test_min_ready_seconds_delay_an_update() -> None:
    cluster = a_running_deployment(2, strategy=rolling(1, 0), minReadySeconds=30)
    cluster.wait(60)

    cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
    cluster.wait(20)
    early = images(cluster.pods())
    cluster.wait(100)

    assert early == ["app:1", "app:1", "app:2"]
    assert images(cluster.pods()) == ["app:2", "app:2"]


def test_a_deleted_deployment_deletes_everything_it_owns() -> None:
    cluster = a_running_deployment(3)

    cluster.delete(DEPLOYMENTS, "web", "default")
    cluster.wait(5)

    assert cluster.list(REPLICA_SETS).items == []
    assert cluster.pods() == []


def test_a_new_deployment_adopts_an_orphaned_replicaset() -> None:
    cluster = a_running_deployment(3)
    before = names(cluster.pods())
    (replica_set,) = cluster.list(REPLICA_SETS).items
    free = {"metadata": {"ownerReferences": None}}
    cluster.change(REPLICA_SETS, replica_set["metadata"]["name"], free)
    cluster.delete(DEPLOYMENTS, "web", "default")

    cluster.create(DEPLOYMENTS, a_workload(replicas=3))
    cluster.wait(5)

    assert names(cluster.pods()) == before
    assert get_field(cluster.get(DEPLOYMENTS, "web", "default"), "status", "availableReplicas") == 3


def test_a_second_sync_writes_nothing() -> None:
    cluster = a_running_deployment(3)
    before = cluster.resource_version

    cluster.wait(3600)

    assert cluster.resource_version == before


def test_two_equal_runs_generate_the_same_names() -> None:
    def scenario() -> list[str]:
        cluster = a_running_deployment(5)
        cluster.change(DEPLOYMENTS, "web", new_image("app:2"))
        cluster.wait(30)
        return names(cluster.pods())

    assert scenario() == scenario()
