"""CronJobs: a Job each time that a schedule comes round."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dovetail.core.disruption.cron import Schedule, next_after, parse_schedule
from dovetail.ports.api_resources import CRON_JOBS, JOBS
from dovetail.ports.kube_errors import AlreadyExists, ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.apiserver.timestamps import timestamp
from dovetail.simulator.controllermanager.conditions import condition
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.job.controller import finished_at
from dovetail.simulator.controllermanager.owner_references import find, is_leaving, reference_to
from dovetail.simulator.controllermanager.ownership.owned_index import Child, Offspring
from dovetail.simulator.workqueue import Desk, follow

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_KEPT: Final = (
    ("Complete", "successfulJobsHistoryLimit", 3),
    ("Failed", "failedJobsHistoryLimit", 1),
)


class CronJobs:
    """Starts Jobs on time, in UTC, and removes those that are history."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._jobs = Offspring(site, JOBS, self._child_changed)
        follow(site.api, site.engine, CRON_JOBS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._desk.forget(key)
        else:
            self._desk.ask(key)

    def _child_changed(self, child: Child) -> None:
        for kind, key in child.owners:
            if kind == "CronJob":
                self._desk.ask(key)

    def _sync(self, key: Key) -> None:
        cron_job = find(self._site.api, CRON_JOBS, key)
        if cron_job is None or is_leaving(cron_job):
            return
        try:
            schedule = parse_schedule(cron_job["spec"].get("schedule", ""))
        except ValueError:
            return  # The real API server refuses such a schedule.
        jobs = self._children(cron_job)
        last = look(cron_job, "status", "lastScheduleTime")
        if not cron_job["spec"].get("suspend"):
            last = self._start(cron_job, schedule, jobs) or last
            upcoming = next_after(schedule, self._site.now())
            if upcoming is not None:
                self._desk.ask(key, after=upcoming - self._site.now())
        self._forget_old(cron_job, jobs)
        self._tell(cron_job, self._children(cron_job), last)

    def _start(self, cron_job: Object, schedule: Schedule, jobs: Sequence[Object]) -> str | None:
        """Create the Job that is due, if one is; returns for when it was scheduled."""
        due = self._due(cron_job, schedule)
        if due is None:
            return None
        running = [one for one in jobs if finished_at(one) is None]
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if running and policy == "Forbid":
            return None  # The end of the one that runs brings us back.
        if policy == "Replace":
            for one in running:
                self._site.delete(JOBS, one)
        try:
            self._site.api.create(JOBS, _job(cron_job, due))
        except AlreadyExists:
            return timestamp(due)
        except ApiError:
            return None  # The namespace ends, or the template is refused.
        return timestamp(due)

    def _due(self, cron_job: Object, schedule: Schedule) -> datetime | None:
        """Return the latest time that has come round and has had no Job yet."""
        now = self._site.now()
        since = look(cron_job, "status", "lastScheduleTime")
        begin = datetime.fromisoformat(since or cron_job["metadata"]["creationTimestamp"])
        due, following = None, next_after(schedule, begin)
        while following is not None and following <= now:
            due, following = following, next_after(schedule, following)
        limit = cron_job["spec"].get("startingDeadlineSeconds")
        if due is not None and limit is not None and (now - due).total_seconds() > limit:
            return None
        return due

    def _forget_old(self, cron_job: Object, jobs: Sequence[Object]) -> None:
        for kind, field, usual in _KEPT:
            ended = [one for one in jobs if (condition(one, kind) or {}).get("status") == "True"]
            limit = cron_job["spec"].get(field)
            surplus = len(ended) - (usual if limit is None else int(limit))
            for one in sorted(ended, key=_age)[: max(0, surplus)]:
                self._site.delete(JOBS, one)

    def _tell(self, cron_job: Object, jobs: Sequence[Object], last: str | None) -> None:
        status: dict[str, Any] = {}
        running = [one for one in jobs if finished_at(one) is None]
        if running:
            status["active"] = [_mention(one) for one in running]
        if last is not None:
            status["lastScheduleTime"] = last
        succeeded = [end for one in jobs if (end := look(one, "status", "completionTime"))]
        before = look(cron_job, "status", "lastSuccessfulTime")
        latest = max([*succeeded, *([before] if before else [])], default=None)
        if latest is not None:
            status["lastSuccessfulTime"] = latest
        self._site.write_status(CRON_JOBS, cron_job, status)

    def _children(self, cron_job: Object) -> list[Object]:
        keys = self._jobs.of(cron_job["metadata"]["uid"])
        found = (find(self._site.api, JOBS, key) for key in keys)
        return [one for one in found if one is not None and not is_leaving(one)]


def _job(cron_job: Object, due: datetime) -> dict[str, Any]:
    template = cron_job["spec"].get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    own = cron_job["metadata"]
    return {
        "metadata": {
            # Named after the minute, so that one time never has two Jobs.
            "name": f"{own['name']}-{int(due.timestamp()) // 60}",
            "namespace": own["namespace"],
            "labels": meta.get("labels"),
            "annotations": {**(meta.get("annotations") or {}), _SCHEDULED: timestamp(due)},
            "ownerReferences": [reference_to(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _mention(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    kind = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    return {**kind, **{name: meta[name] for name in ("name", "namespace", "uid")}}


def _age(job: Object) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]
