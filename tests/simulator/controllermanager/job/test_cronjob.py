"""CronJob controller."""

from typing import Any

from dovetail.ports.api_resources import CRON_JOBS, JOBS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from tests.support.simulator.api_server import names
from tests.support.simulator.controller_manager import WorkloadCluster, a_template, set_pod

MINUTE = 60


def every_five_minutes(**spec: Any) -> WorkloadCluster:
    """A CronJob that runs every five minutes; it is nine o'clock."""
    cluster = WorkloadCluster()
    job = {"spec": {"template": a_template("job", restartPolicy="Never")}}
    cluster.create(
        CRON_JOBS,
        {
            "metadata": {"name": "tidy", "namespace": "default"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": job, **spec},
        },
    )
    return cluster


def jobs(cluster: WorkloadCluster) -> list[Object]:
    return list(cluster.list(JOBS).items)


def status(cluster: WorkloadCluster) -> Object:
    written: Object = cluster.get(CRON_JOBS, "tidy", "default")["status"]
    return written


def finish(cluster: WorkloadCluster, phase: str = "Succeeded") -> None:
    """Complete the running pods."""
    cluster.wait(2)
    for pod in cluster.pods():
        if get_field(pod, "status", "phase") == "Running":
            set_pod(cluster, ("default", pod["metadata"]["name"]), phase=phase, ready=False)
    cluster.wait(2)


def test_a_job_starts_at_each_scheduled_time() -> None:
    cluster = every_five_minutes()

    cluster.wait(4 * MINUTE)
    early = jobs(cluster)
    cluster.wait(7 * MINUTE)

    assert early == []
    scheduled = [
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        for job in jobs(cluster)
    ]
    assert scheduled == ["2026-01-01T09:05:00Z", "2026-01-01T09:10:00Z"]
    assert status(cluster)["lastScheduleTime"] == "2026-01-01T09:10:00Z"
    assert [reference["name"] for reference in status(cluster)["active"]] == names(jobs(cluster))


def test_finished_jobs_are_kept_up_to_the_history_limits() -> None:
    cluster = every_five_minutes(successfulJobsHistoryLimit=2)
    cluster.wait(10)

    for _ in range(5):
        cluster.wait(5 * MINUTE - 4)
        finish(cluster)

    assert len(jobs(cluster)) == 2
    assert "active" not in status(cluster)
    assert status(cluster)["lastSuccessfulTime"] == "2026-01-01T09:25:08Z"


def test_forbid_delays_a_job_while_another_runs() -> None:
    cluster = every_five_minutes(concurrencyPolicy="Forbid")

    cluster.wait(12 * MINUTE)
    while_running = len(jobs(cluster))
    finish(cluster)

    assert while_running == 1
    assert len(jobs(cluster)) == 2


def test_replace_deletes_the_running_job() -> None:
    cluster = every_five_minutes(concurrencyPolicy="Replace")

    cluster.wait(11 * MINUTE)

    (only,) = jobs(cluster)
    assert [reference["name"] for reference in status(cluster)["active"]] == [only["metadata"]["name"]]
    assert status(cluster)["lastScheduleTime"] == "2026-01-01T09:10:00Z"


def test_a_suspended_cronjob_starts_nothing_and_catches_up_once() -> None:
    cluster = every_five_minutes(suspend=True)
    cluster.wait(60 * MINUTE)
    suspended = jobs(cluster)

    cluster.change(CRON_JOBS, "tidy", {"spec": {"suspend": False}})
    cluster.wait(0)

    assert suspended == []
    assert len(jobs(cluster)) == 1


def test_a_start_past_its_deadline_is_skipped() -> None:
    cluster = every_five_minutes(suspend=True, startingDeadlineSeconds=30)
    cluster.wait(62 * MINUTE)

    cluster.change(CRON_JOBS, "tidy", {"spec": {"suspend": False}})
    cluster.wait(0)

    assert jobs(cluster) == []


def test_a_deleted_cronjob_deletes_its_jobs_and_their_pods() -> None:
    cluster = every_five_minutes()
    cluster.wait(6 * MINUTE)

    cluster.delete(CRON_JOBS, "tidy", "default")
    cluster.wait(MINUTE)

    assert jobs(cluster) == []
    assert cluster.pods() == []
