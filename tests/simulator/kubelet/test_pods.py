"""Pods on a node: admission, start, end and stop."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import JOBS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.kubelet.latencies import Latencies, Waits
from tests.support.cluster import a_pod, owned_by, with_finalizer
from tests.support.machines import Hosted, a_machine, condition

MACHINE = a_machine()


def a_ready_node(latencies: Latencies | None = None) -> Hosted:
    cluster = Hosted(latencies)
    cluster.boot(MACHINE)
    cluster.wait(10)
    return cluster


def annotated(pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    keys = {f"sandbox.dovetail/{name.replace('_', '-')}": value for name, value in notes.items()}
    return {**pod, "metadata": {**pod["metadata"], "annotations": keys}}


def of_a_job(cluster: Hosted, pod: dict[str, Any], **notes: str) -> dict[str, Any]:
    template = {"spec": a_pod("job", restartPolicy="Never")["spec"]}
    job = cluster.create(
        JOBS,
        {"metadata": {"name": "job", "namespace": "default"}, "spec": {"template": template}},
    )
    owned = owned_by(pod, job)
    return annotated(owned, **notes) if notes else owned


def asking(name: str, **requests: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]
    return a_pod(name, containers=containers)


def phase(cluster: Hosted, name: str) -> str:
    return str(cluster.pod(name)["status"]["phase"])


def is_gone(cluster: Hosted, name: str) -> bool:
    try:
        cluster.pod(name)
    except NotFound:
        return True
    return False


def test_a_pod_runs_once_its_image_is_pulled_and_its_container_started() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)

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
    assert pod["status"]["hostIP"] == MACHINE.address
    assert pod["status"]["podIP"] != MACHINE.address
    (container,) = pod["status"]["containerStatuses"]
    assert container["ready"] is True
    assert "running" in container["state"]


def test_an_image_is_pulled_once_per_node() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("first"), MACHINE)
    cluster.wait(1)
    cluster.run(a_pod("during"), MACHINE)
    cluster.wait(2)
    cluster.run(a_pod("after"), MACHINE)
    other = a_pod("other", containers=[{"name": "main", "image": "other:1"}])
    cluster.run(other, MACHINE)

    during = phase(cluster, "during")
    cluster.wait(0.6)

    assert during == "Running"
    assert phase(cluster, "after") == "Running"
    assert phase(cluster, "other") == "Pending"


def test_an_image_can_have_a_pull_time_of_its_own() -> None:
    heavy = Latencies(images=FrozenDict({"app:1": timedelta(minutes=2)}))
    cluster = a_ready_node(heavy)
    cluster.run(a_pod("web"), MACHINE)

    cluster.wait(119)
    before = phase(cluster, "web")
    cluster.wait(2)

    assert (before, phase(cluster, "web")) == ("Pending", "Running")


def test_pods_wait_for_the_network_unless_they_use_the_hosts() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)
    cluster.run(a_pod("web"), MACHINE)
    cluster.run(a_pod("proxy", hostNetwork=True), MACHINE)

    cluster.wait(4)

    assert phase(cluster, "web") == "Pending"
    assert phase(cluster, "proxy") == "Running"
    assert cluster.pod("proxy")["status"]["podIP"] == MACHINE.address


def test_init_containers_start_one_after_the_other_before_the_pod_is_initialized() -> None:
    cluster = a_ready_node()
    steps = [{"name": "one", "image": "app:1"}, {"name": "two", "image": "app:1"}]
    cluster.run(a_pod("web", initContainers=steps), MACHINE)

    cluster.wait(3)
    before = cluster.pod("web")
    cluster.wait(0.6)

    assert condition(before, "Initialized") == "False ContainersNotInitialized"
    pod = cluster.pod("web")
    assert condition(pod, "Initialized") == "True"
    done = [one["state"]["terminated"]["reason"] for one in pod["status"]["initContainerStatuses"]]
    assert done == ["Completed", "Completed"]


def test_a_readiness_probe_keeps_a_running_pod_unready_for_its_delay() -> None:
    cluster = a_ready_node()
    probe = {"initialDelaySeconds": 20}
    containers = [{"name": "main", "image": "app:1", "readinessProbe": probe}]
    cluster.run(a_pod("web", containers=containers), MACHINE)

    cluster.wait(10)
    early = cluster.pod("web")
    cluster.wait(15)

    assert early["status"]["phase"] == "Running"
    assert condition(early, "Ready") == "False ContainersNotReady"
    assert condition(cluster.pod("web"), "Ready") == "True"


def test_a_pod_that_does_not_fit_beside_the_others_is_refused() -> None:
    cluster = a_ready_node()
    cluster.run(asking("large", cpu="3"), MACHINE)
    cluster.wait(1)

    cluster.run(asking("too-much", cpu="1500m"), MACHINE)
    cluster.wait(1)

    status = cluster.pod("too-much")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert "requested: 1500m, used: 3000m, capacity: 4000m" in status["message"]


def test_room_is_free_again_as_soon_as_a_pod_is_gone() -> None:
    cluster = a_ready_node()
    cluster.run(asking("large", cpu="3"), MACHINE)
    cluster.wait(5)
    cluster.delete_pod("large")
    cluster.wait(1)

    cluster.run(asking("next", cpu="3"), MACHINE)
    cluster.wait(5)

    assert phase(cluster, "next") == "Running"


def test_a_deleted_pod_takes_its_time_to_stop_and_is_then_removed() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(5)
    cluster.delete_pod("web")

    cluster.wait(0.9)
    stopping = is_gone(cluster, "web")
    cluster.wait(0.2)

    assert (stopping, is_gone(cluster, "web")) == (False, True)


@pytest.mark.parametrize(("asks", "grace", "gone_after"), [(10, 30, 10), (100, 30, 30)])
def test_a_pod_may_ask_for_longer_but_gets_no_more_than_its_grace(
    asks: int, grace: int, gone_after: int
) -> None:
    cluster = a_ready_node()
    pod = annotated(a_pod("web", terminationGracePeriodSeconds=grace), stop_seconds=str(asks))
    cluster.run(pod, MACHINE)
    cluster.wait(5)
    cluster.delete_pod("web")

    cluster.wait(gone_after - 0.5)
    before = is_gone(cluster, "web")
    cluster.wait(1)

    assert (before, is_gone(cluster, "web")) == (False, True)


def test_a_second_deletion_with_less_grace_ends_the_wait_sooner() -> None:
    cluster = a_ready_node()
    cluster.run(annotated(a_pod("web"), stop_seconds="25"), MACHINE)
    cluster.wait(5)
    cluster.delete_pod("web")
    cluster.wait(2)

    cluster.delete_pod("web", grace=3)
    cluster.wait(3.5)

    assert is_gone(cluster, "web")


def test_a_pod_that_has_not_started_is_removed_at_once() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(1)

    cluster.delete_pod("web")
    cluster.wait(0)

    assert is_gone(cluster, "web")


def test_a_pod_that_is_evicted_at_the_instant_it_was_bound_just_goes() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.evict("web", "default")

    cluster.wait(0)

    assert is_gone(cluster, "web")


def test_a_pod_that_is_removed_at_the_instant_it_was_deleted_is_no_trouble() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(5)
    cluster.delete_pod("web")
    cluster.delete_pod("web", grace=0)
    cluster.run(a_pod("web"), MACHINE)

    cluster.wait(5)

    assert phase(cluster, "web") == "Running"


def test_a_pod_deleted_by_force_and_made_again_is_a_new_one() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(1)
    cluster.delete_pod("web", grace=0)
    cluster.run(a_pod("web"), MACHINE)

    cluster.wait(5)

    assert phase(cluster, "web") == "Running"
    assert cluster.pod("web")["status"]["startTime"] == "2026-01-01T09:00:11Z"


def test_a_pod_of_a_job_succeeds_after_half_a_minute() -> None:
    cluster = a_ready_node()
    cluster.run(of_a_job(cluster, a_pod("work", restartPolicy="Never")), MACHINE)

    cluster.wait(32)
    before = phase(cluster, "work")
    cluster.wait(1)

    pod = cluster.pod("work")
    assert (before, pod["status"]["phase"]) == ("Running", "Succeeded")
    assert condition(pod, "Ready") == "False PodCompleted"
    (container,) = pod["status"]["containerStatuses"]
    assert look(container, "state", "terminated", "exitCode") == 0


def test_annotations_say_how_long_a_pod_runs_and_how_it_ends() -> None:
    cluster = a_ready_node()
    pod = a_pod("work", restartPolicy="Never")
    cluster.run(annotated(pod, run_seconds="5", exit_code="3"), MACHINE)

    cluster.wait(8)

    assert phase(cluster, "work") == "Failed"


def test_a_failing_container_is_started_again_where_its_policy_says_so() -> None:
    cluster = a_ready_node()
    pod = a_pod("work", restartPolicy="OnFailure")
    cluster.run(annotated(pod, run_seconds="5", exit_code="3"), MACHINE)

    cluster.wait(60)

    (container,) = cluster.pod("work")["status"]["containerStatuses"]
    assert phase(cluster, "work") == "Running"
    assert container["restartCount"] == 2


def test_a_pod_that_always_runs_does_not_end_by_itself() -> None:
    cluster = a_ready_node()
    cluster.run(annotated(a_pod("web"), run_seconds="5"), MACHINE)

    cluster.wait(3600)

    assert phase(cluster, "web") == "Running"


def test_a_completed_pod_is_removed_at_once_when_deleted_and_needs_no_room() -> None:
    cluster = a_ready_node()
    done = annotated(a_pod("work", restartPolicy="Never"), run_seconds="1")
    containers = asking("x", cpu="4")["spec"]["containers"]
    cluster.run({**done, "spec": {**done["spec"], "containers": containers}}, MACHINE)
    cluster.wait(10)
    cluster.run(asking("next", cpu="4"), MACHINE)

    cluster.delete_pod("work")
    cluster.wait(0)

    assert is_gone(cluster, "work")
    cluster.wait(5)
    assert phase(cluster, "next") == "Running"


def test_a_pod_with_a_finalizer_shows_how_it_ended_before_it_goes() -> None:
    cluster = a_ready_node()
    pod = with_finalizer(of_a_job(cluster, a_pod("work", restartPolicy="Never")), "example.com/x")
    cluster.run(pod, MACHINE)
    cluster.wait(5)

    cluster.delete_pod("work")
    cluster.wait(60)

    left = cluster.pod("work")
    assert left["status"]["phase"] == "Failed"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0


def test_conditions_that_others_wrote_stay() -> None:
    cluster = a_ready_node()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(5)
    cluster.evict("web", "default")

    cluster.wait(0.5)

    assert condition(cluster.pod("web"), "DisruptionTarget") == "True EvictionByEvictionAPI"


def test_pods_bound_before_the_machine_booted_start_with_it() -> None:
    cluster = Hosted()
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(60)

    cluster.boot(MACHINE)
    cluster.wait(10)

    assert phase(cluster, "web") == "Running"
    assert cluster.pod("web")["status"]["startTime"] == "2026-01-01T09:01:00Z"


class Dice:
    """Half of the way, always."""

    def fraction(self) -> float:
        return 0.5

    def letters(self, count: int) -> str:
        return "x" * count


def test_jitter_makes_waits_longer_by_up_to_a_fraction() -> None:
    waits = Waits(Latencies(jitter=0.2), Dice())

    assert waits.of(timedelta(seconds=10)) == timedelta(seconds=11)
