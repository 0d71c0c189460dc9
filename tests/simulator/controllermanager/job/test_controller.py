"""Job controller."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ports.api_resources import JOBS, PODS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import DeleteOptions, PropagationPolicy
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.controllermanager.job.controller import decode_indexes, encode_indexes
from tests.support.simulator.api_server import names
from tests.support.simulator.controller_manager import WorkloadCluster, a_template, condition_of, set_pod

ORPHAN = DeleteOptions(propagation_policy=PropagationPolicy.ORPHAN)


def a_job(**spec: Any) -> WorkloadCluster:
    cluster = WorkloadCluster()
    template = a_template("job", restartPolicy="Never")
    meta = {"name": "job", "namespace": "default"}
    cluster.create(JOBS, {"metadata": meta, "spec": {"template": template, **spec}})
    cluster.wait(5)
    return cluster


def job(cluster: WorkloadCluster) -> Object:
    return cluster.get(JOBS, "job", "default")


def running(cluster: WorkloadCluster) -> list[Object]:
    return [pod for pod in cluster.pods() if get_field(pod, "status", "phase") == "Running"]


def end(cluster: WorkloadCluster, pod: Object, phase: str = "Succeeded") -> None:
    set_pod(cluster, ("default", pod["metadata"]["name"]), phase=phase, ready=False)
    cluster.wait(5)


def test_a_job_runs_one_pod_and_is_complete_when_it_has_succeeded() -> None:
    cluster = a_job()
    (pod,) = running(cluster)

    end(cluster, pod)
    cluster.wait(60)

    assert condition_of(job(cluster), "Complete") == ("True", "CompletionsReached")
    assert job(cluster)["status"]["succeeded"] == 1
    assert "active" not in job(cluster)["status"]
    assert names(cluster.pods()) == [pod["metadata"]["name"]]


def test_parallelism_limits_running_pods_until_completions_are_reached() -> None:
    cluster = a_job(completions=5, parallelism=2)

    at_once = []
    while running(cluster):
        at_once.append(len(running(cluster)))
        for pod in running(cluster):
            end(cluster, pod)

    assert max(at_once) == 2
    assert job(cluster)["status"]["succeeded"] == 5
    assert condition_of(job(cluster), "Complete")[0] == "True"


def test_without_completions_no_pods_are_started_after_the_first_success() -> None:
    cluster = a_job(parallelism=3)
    first, second, third = running(cluster)

    end(cluster, first)
    still = len(running(cluster))
    for pod in (second, third):
        end(cluster, pod)

    assert still == 2
    assert len(cluster.pods()) == 3
    assert condition_of(job(cluster), "Complete")[0] == "True"


def test_a_failed_pod_is_replaced_with_exponential_backoff() -> None:
    cluster = a_job(backoffLimit=3)

    end(cluster, running(cluster)[0], "Failed")
    soon = len(running(cluster))
    cluster.wait(6)
    second = running(cluster)
    end(cluster, second[0], "Failed")
    cluster.wait(10)
    still_waiting = len(running(cluster))
    cluster.wait(10)

    assert (soon, len(second), still_waiting) == (0, 1, 0)
    assert len(running(cluster)) == 1
    assert job(cluster)["status"]["failed"] == 2


def test_a_job_fails_after_its_backoff_limit() -> None:
    cluster = a_job(backoffLimit=1)

    for _ in range(2):
        end(cluster, running(cluster)[0], "Failed")
        cluster.wait(60)

    assert condition_of(job(cluster), "Failed") == ("True", "BackoffLimitExceeded")
    assert running(cluster) == []


def test_a_deleted_pod_counts_as_failed_is_replaced_and_is_removed() -> None:
    cluster = a_job()
    (pod,) = running(cluster)

    cluster.delete(PODS, pod["metadata"]["name"], "default")
    cluster.wait(30)

    assert job(cluster)["status"]["failed"] == 1
    assert len(running(cluster)) == 1
    assert pod["metadata"]["name"] not in names(cluster.pods())


def test_terminated_pods_stay_counted_after_their_deletion() -> None:
    cluster = a_job(completions=2)
    (pod,) = running(cluster)
    end(cluster, pod)

    cluster.delete(PODS, pod["metadata"]["name"], "default")
    cluster.wait(5)
    (other,) = running(cluster)
    end(cluster, other)

    assert job(cluster)["status"]["succeeded"] == 2
    assert condition_of(job(cluster), "Complete")[0] == "True"


def test_a_job_past_its_active_deadline_fails_and_its_pods_are_deleted() -> None:
    cluster = a_job(activeDeadlineSeconds=60)

    cluster.wait(65)

    assert condition_of(job(cluster), "Failed") == ("True", "DeadlineExceeded")
    assert cluster.pods() == []


def test_a_finished_job_is_deleted_with_its_pods_after_its_ttl() -> None:
    cluster = a_job(ttlSecondsAfterFinished=100)
    end(cluster, running(cluster)[0])

    cluster.wait(90)
    before = condition_of(job(cluster), "Complete")[0]
    cluster.wait(10)

    assert before == "True"
    with pytest.raises(NotFound):
        job(cluster)
    assert cluster.pods() == []


def test_a_suspended_job_deletes_its_pods_and_continues_when_resumed() -> None:
    cluster = a_job()

    cluster.change(JOBS, "job", {"spec": {"suspend": True}})
    cluster.wait(5)
    stopped, said = cluster.pods(), condition_of(job(cluster), "Suspended")
    cluster.change(JOBS, "job", {"spec": {"suspend": False}})
    cluster.wait(30)

    assert stopped == []
    assert said == ("True", "JobSuspended")
    assert len(running(cluster)) == 1
    assert condition_of(job(cluster), "Suspended") == ("False", "JobResumed")


def test_an_indexed_job_has_one_success_for_every_index() -> None:
    cluster = a_job(completions=3, parallelism=2, completionMode="Indexed")

    history = []
    while running(cluster):
        pod = running(cluster)[0]
        history.append(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        end(cluster, pod)

    assert sorted(history) == ["0", "1", "2"]
    assert job(cluster)["status"]["completedIndexes"] == "0-2"
    assert condition_of(job(cluster), "Complete")[0] == "True"


def test_a_failed_index_is_retried_by_another_pod() -> None:
    cluster = a_job(completions=2, parallelism=2, completionMode="Indexed")
    first = running(cluster)[0]

    end(cluster, first, "Failed")
    cluster.wait(20)

    held = [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in running(cluster)]
    assert sorted(held) == ["0", "1"]


def test_a_deleted_job_leaves_nothing_behind() -> None:
    cluster = a_job(completions=4, parallelism=4)
    end(cluster, running(cluster)[0])

    cluster.delete(JOBS, "job", "default")
    cluster.wait(10)

    assert cluster.pods() == []


def test_pods_orphaned_by_a_deleted_job_can_be_deleted() -> None:
    cluster = a_job()
    cluster.delete(JOBS, "job", "default", options=ORPHAN)
    cluster.wait(1)
    (pod,) = names(cluster.pods())

    cluster.delete(PODS, pod, "default")
    cluster.wait(5)

    assert cluster.pods() == []


def test_two_jobs_from_one_manifest_do_not_adopt_each_others_pods() -> None:
    cluster = a_job()
    cluster.create(
        JOBS,
        {
            "metadata": {"name": "twin", "namespace": "default"},
            "spec": {"template": a_template("job", restartPolicy="Never")},
        },
    )
    cluster.wait(5)

    owners = sorted(pod["metadata"]["ownerReferences"][0]["name"] for pod in cluster.pods())
    assert owners == ["job", "twin"]


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_indexes_survive_encoding_and_decoding(indexes: set[int]) -> None:
    assert decode_indexes(encode_indexes(indexes)) == indexes
