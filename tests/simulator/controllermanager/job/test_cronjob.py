"""CronJobs: Jobs on time, no more of them than wanted."""

from typing import Any

from dovetail.ports.api_resources import CRON_JOBS, JOBS
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from tests.support.cluster import names
from tests.support.workloads import Working, a_template, set_pod

MINUTE = 60


def every_five_minutes(**spec: Any) -> Working:
    """Starts at nine, with a Job each time the minute can be divided by five."""
    cluster = Working()
    job = {"spec": {"template": a_template("job", restartPolicy="Never")}}
    cluster.create(
        CRON_JOBS,
        {
            "metadata": {"name": "tidy", "namespace": "default"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": job, **spec},
        },
    )
    return cluster


def jobs(cluster: Working) -> list[Object]:
    return list(cluster.list(JOBS).items)


def status(cluster: Working) -> Object:
    found: Object = cluster.get(CRON_JOBS, "tidy", "default")["status"]
    return found


def finish(cluster: Working, phase: str = "Succeeded") -> None:
    """Let the pods that run come to their end."""
    cluster.wait(2)
    for pod in cluster.pods():
        if look(pod, "status", "phase") == "Running":
            set_pod(cluster, ("default", pod["metadata"]["name"]), phase=phase, ready=False)
    cluster.wait(2)


def test_a_job_starts_each_time_the_schedule_comes_round() -> None:
    cluster = every_five_minutes()

    cluster.wait(4 * MINUTE)
    early = jobs(cluster)
    cluster.wait(7 * MINUTE)

    assert early == []
    scheduled = [
        one["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        for one in jobs(cluster)
    ]
    assert scheduled == ["2026-01-01T09:05:00Z", "2026-01-01T09:10:00Z"]
    assert status(cluster)["lastScheduleTime"] == "2026-01-01T09:10:00Z"
    assert [one["name"] for one in status(cluster)["active"]] == names(jobs(cluster))


def test_finished_jobs_are_kept_as_far_as_the_history_goes() -> None:
    cluster = every_five_minutes(successfulJobsHistoryLimit=2)
    cluster.wait(10)

    for _ in range(5):
        cluster.wait(5 * MINUTE - 4)
        finish(cluster)

    assert len(jobs(cluster)) == 2
    assert "active" not in status(cluster)
    assert status(cluster)["lastSuccessfulTime"] == "2026-01-01T09:25:08Z"


def test_forbid_lets_no_job_start_while_one_runs_and_makes_up_for_it_after() -> None:
    cluster = every_five_minutes(concurrencyPolicy="Forbid")

    cluster.wait(12 * MINUTE)
    while_running = len(jobs(cluster))
    finish(cluster)

    assert while_running == 1
    assert len(jobs(cluster)) == 2


def test_replace_ends_the_job_that_runs() -> None:
    cluster = every_five_minutes(concurrencyPolicy="Replace")

    cluster.wait(11 * MINUTE)

    (only,) = jobs(cluster)
    assert [one["name"] for one in status(cluster)["active"]] == [only["metadata"]["name"]]
    assert status(cluster)["lastScheduleTime"] == "2026-01-01T09:10:00Z"


def test_a_suspended_cron_job_starts_nothing_and_catches_up_once() -> None:
    cluster = every_five_minutes(suspend=True)
    cluster.wait(60 * MINUTE)
    suspended = jobs(cluster)

    cluster.change(CRON_JOBS, "tidy", {"spec": {"suspend": False}})
    cluster.wait(0)

    assert suspended == []
    assert len(jobs(cluster)) == 1


def test_a_start_that_is_too_late_is_left_out() -> None:
    cluster = every_five_minutes(suspend=True, startingDeadlineSeconds=30)
    cluster.wait(62 * MINUTE)

    cluster.change(CRON_JOBS, "tidy", {"spec": {"suspend": False}})
    cluster.wait(0)

    assert jobs(cluster) == []


def test_a_deleted_cron_job_takes_its_jobs_and_their_pods_with_it() -> None:
    cluster = every_five_minutes()
    cluster.wait(6 * MINUTE)

    cluster.delete(CRON_JOBS, "tidy", "default")
    cluster.wait(MINUTE)

    assert jobs(cluster) == []
    assert cluster.pods() == []
