"""Jobs: pods that run to an end, again until enough of them have succeeded."""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import JOBS, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.delete import DeleteOptions, Propagation
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import condition, conditions_of, replaced
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.job.indexed import index_of, read_indexes, write_indexes
from dovetail.simulator.controllermanager.job.pods import TRACKED, is_tracked, job_pod
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controlling_key,
    find,
    is_leaving,
)
from dovetail.simulator.controllermanager.ownership.adoption import Belonging
from dovetail.simulator.controllermanager.pods.pod_index import ACTIVE, Crew, Standing, standing_of
from dovetail.simulator.workqueue import Desk, follow

_FIRST_WAIT: Final = timedelta(seconds=10)
_LONGEST_WAIT: Final = timedelta(minutes=10)
_TRY_AGAIN: Final = timedelta(seconds=5)


class _Count(NamedTuple):
    """How many pods have ended which way, and the indexes that are done."""

    succeeded: int
    failed: int
    done: frozenset[int]


class Jobs:
    """Runs every Job to its end, and removes it some time after if it says so."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._loose: Desk[Key] = Desk(site.engine, self._untrack)
        self._belonging = Belonging(site, self._desk.ask)
        self._ended: dict[Key, dict[str, None]] = {}
        """Names of pods that ended, or are ending, and may not be counted yet."""
        self._not_before: dict[Key, datetime] = {}
        """When the next pod may start after failures. Forgotten, it would start sooner."""
        site.pods.tell_of_pods("Job", self._pod_changed)
        site.pods.tell_of_orphans(self._orphan)
        follow(site.api, site.engine, JOBS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._belonging.forget(key)
            self._not_before.pop(key, None)
        else:
            self._belonging.learn(event.object)
        self._desk.ask(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is None or owner is None:
            return
        key = controlling_key(pod, owner)
        if new is not None and is_tracked(new) and standing_of(new) not in ACTIVE:
            self._ended.setdefault(key, {})[new["metadata"]["name"]] = None
        self._desk.ask(key)

    def _orphan(self, pod: Object) -> None:
        if is_tracked(pod):
            self._loose.ask(key_of(pod))

    def _sync(self, key: Key) -> None:
        job = find(self._site.api, JOBS, key)
        ended = self._ended.pop(key, {})
        if job is None:
            for name in ended:
                self._untrack((key[0], name))
            return
        self._belonging.settle(job)
        count = self._counted(job, ended)
        if finished_at(job) is not None or is_leaving(job):
            self._clean_up(job)
        else:
            self._go_on(job, count)
        for name in ended:
            self._untrack((key[0], name))

    def _counted(self, job: Object, ended: dict[str, None]) -> _Count:
        status = job.get("status") or {}
        members = self._site.pods.crew(job).members
        fresh = [members[name] for name in ended if name in members]
        fresh = [one for one in fresh if is_tracked(one.pod)]
        won = [one.pod for one in fresh if one.standing is Standing.SUCCEEDED]
        lost = len(fresh) - len(won)
        if lost:
            self._back_off(job, int(status.get("failed") or 0) + lost)
        done = read_indexes(status.get("completedIndexes") or "")
        done |= {index for one in won if (index := index_of(one)) is not None}
        before = int(status.get("succeeded") or 0)
        return _Count(
            succeeded=len(done) if _is_indexed(job) else before + len(won),
            failed=int(status.get("failed") or 0) + lost,
            done=frozenset(done),
        )

    def _back_off(self, job: Object, failures: int) -> None:
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(failures - 1, 10))
        self._not_before[key_of(job)] = self._site.now() + wait

    def _go_on(self, job: Object, count: _Count) -> None:
        crew = self._site.pods.crew(job)
        verdict = self._verdict(job, count, crew)
        suspended = bool(job["spec"].get("suspend"))
        if verdict is not None or suspended:
            for pod in crew.active_pods():
                self._site.delete(PODS, pod)
        else:
            self._start(job, count, crew)
        self._tell(job, count, crew, verdict)

    def _verdict(self, job: Object, count: _Count, crew: Crew) -> tuple[str, str] | None:
        """Return the condition that ends a Job and why; None while it goes on."""
        spec = job["spec"]
        completions = spec.get("completions")
        if count.failed > int(spec.get("backoffLimit", 6)):
            return "Failed", "BackoffLimitExceeded"
        if completions is None:
            done = count.succeeded > 0 and crew.active == 0
        else:
            done = count.succeeded >= int(completions)
        if done:
            return "Complete", "CompletionsReached"
        limit, started = spec.get("activeDeadlineSeconds"), look(job, "status", "startTime")
        if limit is not None and started and not spec.get("suspend"):
            left = datetime.fromisoformat(started) + timedelta(seconds=limit) - self._site.now()
            if left <= timedelta():
                return "Failed", "DeadlineExceeded"
            self._desk.ask(key_of(job), after=left)
        return None

    def _start(self, job: Object, count: _Count, crew: Crew) -> None:
        """Start or stop pods so that as many run as may and are still needed."""
        missing = self._wanted(job, count, crew) - crew.active
        for pod in crew.active_pods()[: max(0, -missing)] if missing < 0 else ():
            self._site.delete(PODS, pod)
        if missing <= 0:
            return
        wait = self._not_before.get(key_of(job), self._site.now()) - self._site.now()
        if wait > timedelta():
            self._desk.ask(key_of(job), after=wait)
            return
        try:
            for index in self._free_indexes(job, count, crew, missing):
                self._site.api.create(PODS, job_pod(job, index))
        except ApiError:
            self._desk.ask(key_of(job), after=_TRY_AGAIN)

    def _wanted(self, job: Object, count: _Count, crew: Crew) -> int:
        parallelism = int(job["spec"].get("parallelism", 1))
        completions = job["spec"].get("completions")
        if completions is None:
            # A work queue: once one pod found it empty, no more are started.
            return min(parallelism, crew.active) if count.succeeded else parallelism
        return min(parallelism, int(completions) - count.succeeded)

    def _free_indexes(
        self, job: Object, count: _Count, crew: Crew, missing: int
    ) -> list[int | None]:
        """Return the indexes to start pods for; None for each pod of a Job without."""
        if not _is_indexed(job):
            return [None] * missing
        taken = {index_of(one) for one in crew.active_pods()} | count.done
        free = (one for one in range(int(job["spec"]["completions"])) if one not in taken)
        return [index for index, _ in zip(free, range(missing), strict=False)]

    def _tell(
        self, job: Object, count: _Count, crew: Crew, verdict: tuple[str, str] | None
    ) -> None:
        now = self._site.timestamp()
        counts = {
            "active": 0 if verdict else crew.active,
            "ready": crew[Standing.READY],
            "succeeded": count.succeeded,
            "failed": count.failed,
            "terminating": crew[Standing.LEAVING],
        }
        before = job.get("status") or {}
        status: dict[str, Any] = {name: many for name, many in counts.items() if many}
        if count.done:
            status["completedIndexes"] = write_indexes(count.done)
        if not job["spec"].get("suspend"):
            status["startTime"] = before.get("startTime", now)
        conditions = list(conditions_of(job))
        suspended = bool(job["spec"].get("suspend"))
        if suspended or condition(job, "Suspended") is not None:
            word = ("True", "JobSuspended") if suspended else ("False", "JobResumed")
            said = {"type": "Suspended", "status": word[0], "reason": word[1]}
            conditions = replaced(conditions, said, now=now)
        if verdict is not None:
            first = "SuccessCriteriaMet" if verdict[0] == "Complete" else "FailureTarget"
            for kind in (first, verdict[0]):
                said = {"type": kind, "status": "True", "reason": verdict[1]}
                conditions = replaced(conditions, said, now=now)
            if verdict[0] == "Complete":
                status["completionTime"] = now
        if conditions:
            status["conditions"] = conditions
        self._site.write_status(JOBS, job, status)

    def _clean_up(self, job: Object) -> None:
        """Remove a finished Job when it has been kept for as long as it wants."""
        ttl, finished = job["spec"].get("ttlSecondsAfterFinished"), finished_at(job)
        if ttl is None or finished is None or is_leaving(job):
            return
        left = finished + timedelta(seconds=ttl) - self._site.now()
        if left > timedelta():
            self._desk.ask(key_of(job), after=left)
            return
        namespace, name = key_of(job)
        in_front = DeleteOptions(propagation=Propagation.FOREGROUND)
        self._site.api.delete(JOBS, name, namespace, options=in_front)

    def _untrack(self, key: Key) -> None:
        """Let a pod that is counted, or that no Job will count, go when it is deleted."""
        pod = find(self._site.api, PODS, key)
        if pod is None or not is_tracked(pod):
            return
        left = [one for one in pod["metadata"]["finalizers"] if one != TRACKED]
        patch = {"metadata": {"finalizers": left or None}}
        self._site.api.patch(PODS, key[1], patch, PatchType.MERGE, key[0])


def finished_at(job: Object) -> datetime | None:
    """Tell when a Job ended, well or badly; None while it goes on."""
    for kind in ("Complete", "Failed"):
        said = condition(job, kind)
        if said is not None and said["status"] == "True":
            return datetime.fromisoformat(said["lastTransitionTime"])
    return None


def _is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")
