"""CronJob controller: creates Jobs on a schedule."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dovetail.core.disruption.cron import Schedule, find_next_run, parse_schedule
from dovetail.ports.api_resources import CRON_JOBS, JOBS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.conditions import get_condition
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller
from dovetail.simulator.controllermanager.job.controller import finished_at
from dovetail.simulator.controllermanager.owner_references import controller_reference, is_deleting
from dovetail.simulator.controllermanager.ownership.owned_index import OwnedIndex

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_HISTORY_LIMITS: Final = (
    ("Complete", "successfulJobsHistoryLimit", 3),
    ("Failed", "failedJobsHistoryLimit", 1),
)


class CronJobController(Controller):
    """Starts Jobs on schedule, in UTC, and deletes those beyond the history limits."""

    resource = CRON_JOBS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._jobs = OwnedIndex(context, JOBS, self._enqueue_owners)

    def _sync(self, key: ObjectKey) -> None:
        cron_job = self._context.find(CRON_JOBS, key)
        if cron_job is None or is_deleting(cron_job):
            return
        try:
            schedule = parse_schedule(cron_job["spec"].get("schedule", ""))
        except ValueError:
            return  # The real API server rejects such a schedule.
        jobs = self._list_jobs(cron_job)
        last = get_field(cron_job, "status", "lastScheduleTime")
        if not cron_job["spec"].get("suspend"):
            last = self._start(cron_job, schedule, jobs) or last
            upcoming = find_next_run(schedule, self._context.now())
            if upcoming is not None:
                self._queue.add(key, after=upcoming - self._context.now())
        self._truncate_history(cron_job, jobs)
        self._update_status(cron_job, self._list_jobs(cron_job), last)

    def _start(self, cron_job: Object, schedule: Schedule, jobs: Sequence[Object]) -> str | None:
        """Create the Job that is due, if any; return its scheduled time."""
        due = self._due(cron_job, schedule)
        if due is None:
            return None
        running = [job for job in jobs if finished_at(job) is None]
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if running and policy == "Forbid":
            return None  # The end of the running Job requeues the CronJob.
        if policy == "Replace":
            for job in running:
                self._context.delete(JOBS, job)
        try:
            self._context.api.create(JOBS, _build_job(cron_job, due))
        except AlreadyExists:
            return format_timestamp(due)
        except ApiError:
            return None  # The namespace is terminating, or the template was rejected.
        return format_timestamp(due)

    def _due(self, cron_job: Object, schedule: Schedule) -> datetime | None:
        """Return the latest scheduled time that has passed and has no Job."""
        now = self._context.now()
        since = get_field(cron_job, "status", "lastScheduleTime")
        start = datetime.fromisoformat(since or cron_job["metadata"]["creationTimestamp"])
        due, following = None, find_next_run(schedule, start)
        while following is not None and following <= now:
            due, following = following, find_next_run(schedule, following)
        limit = cron_job["spec"].get("startingDeadlineSeconds")
        if due is not None and limit is not None and (now - due).total_seconds() > limit:
            return None
        return due

    def _truncate_history(self, cron_job: Object, jobs: Sequence[Object]) -> None:
        for kind, field, default in _HISTORY_LIMITS:
            finished = [job for job in jobs if (get_condition(job, kind) or {}).get("status") == "True"]
            limit = cron_job["spec"].get(field)
            surplus = len(finished) - (default if limit is None else int(limit))
            finished.sort(key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
            for job in finished[: max(0, surplus)]:
                self._context.delete(JOBS, job)

    def _update_status(self, cron_job: Object, jobs: Sequence[Object], last: str | None) -> None:
        status: dict[str, Any] = {}
        running = [job for job in jobs if finished_at(job) is None]
        if running:
            status["active"] = [_reference(job) for job in running]
        if last is not None:
            status["lastScheduleTime"] = last
        succeeded = [end for job in jobs if (end := get_field(job, "status", "completionTime"))]
        before = get_field(cron_job, "status", "lastSuccessfulTime")
        latest = max([*succeeded, *([before] if before else [])], default=None)
        if latest is not None:
            status["lastSuccessfulTime"] = latest
        self._context.update_status(CRON_JOBS, cron_job, status)

    def _list_jobs(self, cron_job: Object) -> list[Object]:
        jobs = self._jobs.owned_by(cron_job["metadata"]["uid"])
        return [job for job in jobs if not is_deleting(job)]


def _build_job(cron_job: Object, due: datetime) -> dict[str, Any]:
    template = cron_job["spec"].get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    own = cron_job["metadata"]
    return {
        "metadata": {
            # Named after the minute, so that a scheduled time never gets two Jobs.
            "name": f"{own['name']}-{int(due.timestamp()) // 60}",
            "namespace": own["namespace"],
            "labels": meta.get("labels"),
            "annotations": {**(meta.get("annotations") or {}), _SCHEDULED: format_timestamp(due)},
            "ownerReferences": [controller_reference(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _reference(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    kind = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    return {**kind, **{name: meta[name] for name in ("name", "namespace", "uid")}}
