"""Job controller: runs pods until enough of them have succeeded."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import JOBS, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.conditions import get_condition, get_conditions, set_condition
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType, PropagationPolicy
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import WorkloadController
from dovetail.simulator.controllermanager.owner_references import controller_of, is_deleting, owner_key
from dovetail.simulator.controllermanager.pods.pod_index import ACTIVE, OwnedPods, PodState, pod_state
from dovetail.simulator.controllermanager.pods.pod_template import pod_from
from dovetail.simulator.workqueue import WorkQueue

_INITIAL_BACKOFF: Final = timedelta(seconds=10)
_MAX_BACKOFF: Final = timedelta(minutes=10)
_RETRY_DELAY: Final = timedelta(seconds=5)
INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps a pod until the Job controller has counted it."""


class _JobCounts(NamedTuple):
    """Numbers of succeeded and failed pods, and the completed indexes."""

    succeeded: int
    failed: int
    done: frozenset[int]


class JobController(WorkloadController):
    """Syncs every Job, and deletes it after its TTL."""

    resource = JOBS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._orphan_queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, self._remove_finalizer)
        self._uncounted: dict[ObjectKey, dict[str, None]] = {}
        """Job → names of terminated or terminating pods that may not be counted yet."""
        self._backoff_until: dict[ObjectKey, datetime] = {}
        """When the next pod may start after failures; losing it shortens the backoff."""
        context.pods.add_orphan_handler(self._orphan_changed)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._backoff_until.pop(key, None)
        self._queue.add(key)  # Its pods still have finalizers.

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        owner = None if new is None else controller_of(new)
        if new is not None and owner is not None and is_tracked(new) and pod_state(new) not in ACTIVE:
            self._uncounted.setdefault(owner_key(new, owner), {})[new["metadata"]["name"]] = None
        super()._pod_changed(old, new)

    def _orphan_changed(self, pod: Object) -> None:
        if is_tracked(pod):
            self._orphan_queue.add(object_key(pod))

    def _sync(self, key: ObjectKey) -> None:
        job = self._context.find(JOBS, key)
        uncounted = self._uncounted.pop(key, {})
        if job is None:
            for name in uncounted:
                self._remove_finalizer((key[0], name))
            return
        self._ref_manager.claim_pods(job)
        count = self._count_pods(job, uncounted)
        if finished_at(job) is not None or is_deleting(job):
            self._clean_up(job)
        else:
            self._sync_active(job, count)
        for name in uncounted:
            self._remove_finalizer((key[0], name))

    def _count_pods(self, job: Object, uncounted: dict[str, None]) -> _JobCounts:
        status = job.get("status") or {}
        members = self._context.pods.owned_by(job).members
        new = [members[name] for name in uncounted if name in members]
        new = [member for member in new if is_tracked(member.pod)]
        succeeded = [member.pod for member in new if member.state is PodState.SUCCEEDED]
        failed = len(new) - len(succeeded)
        if failed:
            self._start_backoff(job, int(status.get("failed") or 0) + failed)
        done = decode_indexes(status.get("completedIndexes") or "")
        done |= {index for pod in succeeded if (index := index_of(pod)) is not None}
        before = int(status.get("succeeded") or 0)
        return _JobCounts(
            succeeded=len(done) if _is_indexed(job) else before + len(succeeded),
            failed=int(status.get("failed") or 0) + failed,
            done=frozenset(done),
        )

    def _start_backoff(self, job: Object, failures: int) -> None:
        wait = min(_MAX_BACKOFF, _INITIAL_BACKOFF * 2 ** min(failures - 1, 10))
        self._backoff_until[object_key(job)] = self._context.now() + wait

    def _sync_active(self, job: Object, count: _JobCounts) -> None:
        owned_pods = self._context.pods.owned_by(job)
        outcome = self._outcome(job, count, owned_pods)
        suspended = bool(job["spec"].get("suspend"))
        if outcome is not None or suspended:
            for pod in owned_pods.active_pods():
                self._context.delete(PODS, pod)
        else:
            self._start_pods(job, count, owned_pods)
        self._update_status(job, count, owned_pods, outcome)

    def _outcome(self, job: Object, count: _JobCounts, owned_pods: OwnedPods) -> tuple[str, str] | None:
        """Return the condition that ends a Job and its reason; None while it runs."""
        spec = job["spec"]
        completions = spec.get("completions")
        if count.failed > int(spec.get("backoffLimit", 6)):
            return "Failed", "BackoffLimitExceeded"
        if completions is None:
            done = count.succeeded > 0 and owned_pods.active == 0
        else:
            done = count.succeeded >= int(completions)
        if done:
            return "Complete", "CompletionsReached"
        limit, started = spec.get("activeDeadlineSeconds"), get_field(job, "status", "startTime")
        if limit is not None and started and not spec.get("suspend"):
            remaining = datetime.fromisoformat(started) + timedelta(seconds=limit) - self._context.now()
            if remaining <= timedelta():
                return "Failed", "DeadlineExceeded"
            self._queue.add(object_key(job), after=remaining)
        return None

    def _start_pods(self, job: Object, count: _JobCounts, owned_pods: OwnedPods) -> None:
        """Create or delete pods: as many run as parallelism and completions allow."""
        missing = self._desired_active(job, count, owned_pods) - owned_pods.active
        for pod in owned_pods.active_pods()[: max(0, -missing)] if missing < 0 else ():
            self._context.delete(PODS, pod)
        if missing <= 0:
            return
        wait = self._backoff_until.get(object_key(job), self._context.now()) - self._context.now()
        if wait > timedelta():
            self._queue.add(object_key(job), after=wait)
            return
        try:
            for index in self._free_indexes(job, count, owned_pods, missing):
                self._context.api.create(PODS, build_pod(job, index))
        except ApiError:
            self._queue.add(object_key(job), after=_RETRY_DELAY)

    def _desired_active(self, job: Object, count: _JobCounts, owned_pods: OwnedPods) -> int:
        parallelism = int(job["spec"].get("parallelism", 1))
        completions = job["spec"].get("completions")
        if completions is None:
            # Work queue Job: after the first success no more pods are started.
            return min(parallelism, owned_pods.active) if count.succeeded else parallelism
        return min(parallelism, int(completions) - count.succeeded)

    def _free_indexes(
        self, job: Object, count: _JobCounts, owned_pods: OwnedPods, missing: int
    ) -> list[int | None]:
        """Return the indexes to start pods for; None for each pod of a NonIndexed Job."""
        if not _is_indexed(job):
            return [None] * missing
        taken = {index_of(pod) for pod in owned_pods.active_pods()} | count.done
        free = (index for index in range(int(job["spec"]["completions"])) if index not in taken)
        return [index for index, _ in zip(free, range(missing), strict=False)]

    def _update_status(
        self, job: Object, count: _JobCounts, owned_pods: OwnedPods, outcome: tuple[str, str] | None
    ) -> None:
        now = self._context.timestamp()
        counts = {
            "active": 0 if outcome else owned_pods.active,
            "ready": owned_pods[PodState.READY],
            "succeeded": count.succeeded,
            "failed": count.failed,
            "terminating": owned_pods[PodState.TERMINATING],
        }
        before = job.get("status") or {}
        status: dict[str, Any] = {name: number for name, number in counts.items() if number}
        if count.done:
            status["completedIndexes"] = encode_indexes(count.done)
        if not job["spec"].get("suspend"):
            status["startTime"] = before.get("startTime", now)
        conditions = list(get_conditions(job))
        suspended = bool(job["spec"].get("suspend"))
        if suspended or get_condition(job, "Suspended") is not None:
            status_and_reason = ("True", "JobSuspended") if suspended else ("False", "JobResumed")
            condition = {"type": "Suspended", "status": status_and_reason[0], "reason": status_and_reason[1]}
            conditions = set_condition(conditions, condition, now=now)
        if outcome is not None:
            target = "SuccessCriteriaMet" if outcome[0] == "Complete" else "FailureTarget"
            for kind in (target, outcome[0]):
                condition = {"type": kind, "status": "True", "reason": outcome[1]}
                conditions = set_condition(conditions, condition, now=now)
            if outcome[0] == "Complete":
                status["completionTime"] = now
        if conditions:
            status["conditions"] = conditions
        self._context.update_status(JOBS, job, status)

    def _clean_up(self, job: Object) -> None:
        """Delete a finished Job after its TTL."""
        ttl, finished = job["spec"].get("ttlSecondsAfterFinished"), finished_at(job)
        if ttl is None or finished is None or is_deleting(job):
            return
        remaining = finished + timedelta(seconds=ttl) - self._context.now()
        if remaining > timedelta():
            self._queue.add(object_key(job), after=remaining)
            return
        namespace, name = object_key(job)
        foreground = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
        self._context.api.delete(JOBS, name, namespace, options=foreground)

    def _remove_finalizer(self, key: ObjectKey) -> None:
        """Remove the finalizer of a pod that is counted, or that has no Job."""
        pod = self._context.find(PODS, key)
        if pod is None or not is_tracked(pod):
            return
        remaining = [finalizer for finalizer in pod["metadata"]["finalizers"] if finalizer != JOB_TRACKING]
        patch = {"metadata": {"finalizers": remaining or None}}
        self._context.api.patch(PODS, key[1], patch, PatchType.MERGE, key[0])


def finished_at(job: Object) -> datetime | None:
    """Return when a Job completed or failed; None while it runs."""
    for kind in ("Complete", "Failed"):
        condition = get_condition(job, kind)
        if condition is not None and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return None


def _is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_tracked(pod: Object) -> bool:
    """Return True if a pod has the finalizer of the Job controller."""
    return JOB_TRACKING in (pod["metadata"].get("finalizers") or ())


def build_pod(job: Object, index: int | None) -> Object:
    """Return a pod to create, with a completion index if the Job is Indexed."""
    pod = pod_from(job["spec"]["template"], job)
    meta: dict[str, Any] = {
        **pod["metadata"],
        "finalizers": [*(pod["metadata"].get("finalizers") or ()), JOB_TRACKING],
    }
    spec = pod["spec"]
    if index is not None:
        name = f"{job['metadata']['name']}-{index}"
        meta["generateName"] = f"{name}-"
        meta["annotations"] = {**(meta.get("annotations") or {}), INDEX: str(index)}
        meta["labels"] = {**meta["labels"], INDEX: str(index)}
        spec = {**spec, "hostname": name}
    job_pod: Object = freeze({"metadata": meta, "spec": spec})
    return job_pod


def decode_indexes(text: str) -> set[int]:
    """Decode a list of indexes and ranges."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def encode_indexes(indexes: Iterable[int]) -> str:
    """Encode indexes as the shortest list of ranges."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(indexes))


def _ranges(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for index in sorted(indexes):
        if first is None or last is None:
            first = last = index
        elif index == last + 1:
            last = index
        else:
            yield first, last
            first = last = index
    if first is not None and last is not None:
        yield first, last


def index_of(pod: Object) -> int | None:
    """Return the completion index of a pod; None if the Job is not Indexed."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None
