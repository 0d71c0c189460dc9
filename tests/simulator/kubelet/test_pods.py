"""Pods on a node: admission, start, completion and stop."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import JOBS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.latencies import KubeletLatencies, LatencySampler
from tests.support.simulator.api_server import a_pod, owned_by, with_finalizer
from tests.support.simulator.kubelets import KubeletCluster, booted_instance, condition

INSTANCE = booted_instance()


def a_ready_node(latencies: KubeletLatencies | None = None) -> KubeletCluster:
    cluster = KubeletCluster(latencies)
    cluster.boot(INSTANCE)
    cluster.wait(10)
    return cluster


def annotated(pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    keys = {f"dovetail.sh/{name.replace('_', '-')}": value for name, value in notes.items()}
    return {**pod, "metadata": {**pod["metadata"], "annotations": keys}}


def of_a_job(cluster: KubeletCluster, pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    template = {"spec": a_pod("job", restartPolicy="Never")["spec"]}
    job = cluster.create(
        JOBS, {"metadata": {"name": "job", "namespace": "default"}, "spec": {"template": template}}
    )
    owned = owned_by(pod, job)
    return annotated(owned, **notes) if notes else owned


def asking(name: str, **requests: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]
    return a_pod(name, containers=containers)


def phase(cluster: KubeletCluster, name: str) -> str:
    return str(cluster.pod(name)["status"]["phase"])


def is_gone(cluster: KubeletCluster, name: str) -> bool:
    try:
        cluster.pod(name)
    except NotFound:
        return True
    return False


def test_a_pod_runs_once_its_image_is_pulled_and_its_container_started() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)

    cluster.wait(2.4)
    on_its_way = cluster.pod("web")
    cluster.wait(0.2)

    assert on_its_way["status"]["phase"] == "Pending"
    assert on_its_way["status"]["startTime"] == "2026-01-01T09:00:10Z"
    assert condition(on_its_way, "Ready") == "False ContainersNotReady"
    pod = cluster.pod("web")
    assert pod["status"]["phase"] == "Running"
    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
        assert condition(pod, kind) == "True"
    assert pod["status"]["hostIP"] == INSTANCE.address
    assert pod["status"]["podIP"] != INSTANCE.address
    (container,) = pod["status"]["containerStatuses"]
    assert container["ready"] is True
    assert "running" in container["state"]


def test_an_image_is_pulled_once_per_node() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("first"), INSTANCE)
    cluster.wait(1)
    cluster.run(a_pod("during"), INSTANCE)
    cluster.wait(2)
    cluster.run(a_pod("after"), INSTANCE)
    other = a_pod("other", containers=[{"name": "main", "image": "other:1"}])
    cluster.run(other, INSTANCE)

    during = phase(cluster, "during")
    cluster.wait(0.6)

    assert during == "Running"
    assert phase(cluster, "after") == "Running"
    assert phase(cluster, "other") == "Pending"


def test_an_image_can_have_its_own_pull_time() -> None:
    heavy = KubeletLatencies(images=FrozenDict({"app:1": timedelta(minutes=2)}))
    cluster = a_ready_node(heavy)
    cluster.run(a_pod("web"), INSTANCE)

    cluster.wait(119)
    before = phase(cluster, "web")
    cluster.wait(2)

    assert (before, phase(cluster, "web")) == ("Pending", "Running")


def test_pods_wait_for_the_network_unless_they_use_the_hosts() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)
    cluster.run(a_pod("web"), INSTANCE)
    cluster.run(a_pod("proxy", hostNetwork=True), INSTANCE)

    cluster.wait(4)

    assert phase(cluster, "web") == "Pending"
    assert phase(cluster, "proxy") == "Running"
    assert cluster.pod("proxy")["status"]["podIP"] == INSTANCE.address


def test_init_containers_start_one_after_the_other_before_the_pod_is_initialized() -> None:
    cluster = a_ready_node()
    steps = [{"name": "one", "image": "app:1"}, {"name": "two", "image": "app:1"}]
    cluster.run(a_pod("web", initContainers=steps), INSTANCE)

    cluster.wait(3)
    before = cluster.pod("web")
    cluster.wait(0.6)

    assert condition(before, "Initialized") == "False ContainersNotInitialized"
    pod = cluster.pod("web")
    assert condition(pod, "Initialized") == "True"
    done = [
        container_status["state"]["terminated"]["reason"]
        for container_status in pod["status"]["initContainerStatuses"]
    ]
    assert done == ["Completed", "Completed"]


def test_a_readiness_probe_keeps_a_running_pod_unready_for_its_delay() -> None:
    cluster = a_ready_node()
    probe = {"initialDelaySeconds": 20}
    containers = [{"name": "main", "image": "app:1", "readinessProbe": probe}]
    cluster.run(a_pod("web", containers=containers), INSTANCE)

    cluster.wait(10)
    early = cluster.pod("web")
    cluster.wait(15)

    assert early["status"]["phase"] == "Running"
    assert condition(early, "Ready") == "False ContainersNotReady"
    assert condition(cluster.pod("web"), "Ready") == "True"


def test_a_pod_that_does_not_fit_is_rejected() -> None:
    cluster = a_ready_node()
    cluster.run(asking("large", cpu="3"), INSTANCE)
    cluster.wait(1)

    cluster.run(asking("too-much", cpu="1500m"), INSTANCE)
    cluster.wait(1)

    status = cluster.pod("too-much")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert "requested: 1500m, used: 3000m, capacity: 4000m" in status["message"]


def test_resources_are_released_when_a_pod_is_deleted() -> None:
    cluster = a_ready_node()
    cluster.run(asking("large", cpu="3"), INSTANCE)
    cluster.wait(5)
    cluster.delete_pod("large")
    cluster.wait(1)

    cluster.run(asking("next", cpu="3"), INSTANCE)
    cluster.wait(5)

    assert phase(cluster, "next") == "Running"


def test_a_deleted_pod_stops_after_the_stop_latency_and_is_then_removed() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(5)
    cluster.delete_pod("web")

    cluster.wait(0.9)
    stopping = is_gone(cluster, "web")
    cluster.wait(0.2)

    assert (stopping, is_gone(cluster, "web")) == (False, True)


@pytest.mark.parametrize(("asks", "grace", "gone_after"), [(10, 30, 10), (100, 30, 30)])
def test_a_pod_may_stop_slowly_but_only_within_its_grace_period(
    asks: int, grace: int, gone_after: int
) -> None:
    cluster = a_ready_node()
    pod = annotated(a_pod("web", terminationGracePeriodSeconds=grace), stop_seconds=str(asks))
    cluster.run(pod, INSTANCE)
    cluster.wait(5)
    cluster.delete_pod("web")

    cluster.wait(gone_after - 0.5)
    before = is_gone(cluster, "web")
    cluster.wait(1)

    assert (before, is_gone(cluster, "web")) == (False, True)


def test_a_second_deletion_with_a_shorter_grace_period_stops_the_pod_sooner() -> None:
    cluster = a_ready_node()
    cluster.run(annotated(a_pod("web"), stop_seconds="25"), INSTANCE)
    cluster.wait(5)
    cluster.delete_pod("web")
    cluster.wait(2)

    cluster.delete_pod("web", grace=3)
    cluster.wait(3.5)

    assert is_gone(cluster, "web")


def test_a_pod_that_has_not_started_is_removed_at_once() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(1)

    cluster.delete_pod("web")
    cluster.wait(0)

    assert is_gone(cluster, "web")


def test_a_pod_evicted_at_the_instant_it_was_bound_is_removed() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.evict("web", "default")

    cluster.wait(0)

    assert is_gone(cluster, "web")


def test_a_pod_removed_at_the_instant_it_was_deleted_causes_no_error() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(5)
    cluster.delete_pod("web")
    cluster.delete_pod("web", grace=0)
    cluster.run(a_pod("web"), INSTANCE)

    cluster.wait(5)

    assert phase(cluster, "web") == "Running"


def test_a_pod_that_is_force_deleted_and_recreated_is_a_new_one() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(1)
    cluster.delete_pod("web", grace=0)
    cluster.run(a_pod("web"), INSTANCE)

    cluster.wait(5)

    assert phase(cluster, "web") == "Running"
    assert cluster.pod("web")["status"]["startTime"] == "2026-01-01T09:00:11Z"


def test_a_pod_of_a_job_succeeds_after_half_a_minute() -> None:
    cluster = a_ready_node()
    cluster.run(of_a_job(cluster, a_pod("work", restartPolicy="Never")), INSTANCE)

    cluster.wait(32)
    before = phase(cluster, "work")
    cluster.wait(1)

    pod = cluster.pod("work")
    assert (before, pod["status"]["phase"]) == ("Running", "Succeeded")
    assert condition(pod, "Ready") == "False PodCompleted"
    (container,) = pod["status"]["containerStatuses"]
    assert get_field(container, "state", "terminated", "exitCode") == 0


def test_a_pod_that_helm_test_waits_for_succeeds_after_half_a_minute() -> None:
    cluster = a_ready_node()
    pod = a_pod("web-test-connection", restartPolicy="Never")
    pod["metadata"]["annotations"] = {"helm.sh/hook": "test"}
    cluster.run(pod, INSTANCE)

    cluster.wait(33)

    assert phase(cluster, "web-test-connection") == "Succeeded"


def test_annotations_set_run_time_and_exit_code() -> None:
    cluster = a_ready_node()
    pod = a_pod("work", restartPolicy="Never")
    cluster.run(annotated(pod, run_seconds="5", exit_code="3"), INSTANCE)

    cluster.wait(8)

    assert phase(cluster, "work") == "Failed"


def test_a_failed_container_is_restarted_with_restart_policy_on_failure() -> None:
    cluster = a_ready_node()
    pod = a_pod("work", restartPolicy="OnFailure")
    cluster.run(annotated(pod, run_seconds="5", exit_code="3"), INSTANCE)

    cluster.wait(60)

    (container,) = cluster.pod("work")["status"]["containerStatuses"]
    assert phase(cluster, "work") == "Running"
    assert container["restartCount"] == 2


def test_a_pod_with_restart_policy_always_does_not_complete() -> None:
    cluster = a_ready_node()
    cluster.run(annotated(a_pod("web"), run_seconds="5"), INSTANCE)

    cluster.wait(3600)

    assert phase(cluster, "web") == "Running"


def test_a_completed_pod_uses_no_resources_and_is_removed_at_once_when_deleted() -> None:
    cluster = a_ready_node()
    done = annotated(a_pod("work", restartPolicy="Never"), run_seconds="1")
    containers = asking("x", cpu="4")["spec"]["containers"]
    cluster.run({**done, "spec": {**done["spec"], "containers": containers}}, INSTANCE)
    cluster.wait(10)
    cluster.run(asking("next", cpu="4"), INSTANCE)

    cluster.delete_pod("work")
    cluster.wait(0)

    assert is_gone(cluster, "work")
    cluster.wait(5)
    assert phase(cluster, "next") == "Running"


def test_a_pod_with_a_finalizer_gets_its_final_status_before_it_is_removed() -> None:
    cluster = a_ready_node()
    pod = with_finalizer(of_a_job(cluster, a_pod("work", restartPolicy="Never")), "example.com/x")
    cluster.run(pod, INSTANCE)
    cluster.wait(5)

    cluster.delete_pod("work")
    cluster.wait(60)

    left = cluster.pod("work")
    assert left["status"]["phase"] == "Failed"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0


def test_conditions_of_other_writers_stay() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(5)
    cluster.evict("web", "default")

    cluster.wait(0.5)

    assert condition(cluster.pod("web"), "DisruptionTarget") == "True EvictionByEvictionAPI"


def test_pods_bound_before_the_instance_booted_start_with_it() -> None:
    cluster = KubeletCluster()
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(60)

    cluster.boot(INSTANCE)
    cluster.wait(10)

    assert phase(cluster, "web") == "Running"
    assert cluster.pod("web")["status"]["startTime"] == "2026-01-01T09:01:00Z"


class ConstantRandom:
    """Random source that always returns one half."""

    def random(self) -> float:
        return 0.5

    def alphanumeric(self, count: int) -> str:
        return "x" * count


def test_jitter_lengthens_latencies_by_up_to_a_fraction() -> None:
    sampler = LatencySampler(KubeletLatencies(jitter=0.2), ConstantRandom())

    assert sampler.sample(timedelta(seconds=10)) == timedelta(seconds=11)
