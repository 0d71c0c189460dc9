"""Workloads of a fork: owners, revisions and run times, so that controllers adopt the pods."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from dovetail.ports.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    JOBS,
    NODE_CLAIMS,
    PODS,
    STATEFUL_SETS,
    find_resource,
)
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, template_hash
from dovetail.simulator.fork.records import Records
from dovetail.simulator.fork.report import ReportBuilder
from dovetail.simulator.kubelet.pod_workers import RUN_SECONDS
from dovetail.simulator.workqueue import start_watch

MISSING: Final = "dovetail.sh/recorded"
"""apiVersion in references to controllers that were not recorded: nothing collects their pods."""
_TEMPLATE_GENERATION: Final = "pod-template-generation"
_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
_MIN_RUN: Final = timedelta(seconds=30)
_RECREATE_DELAY: Final = timedelta(seconds=1)
_NOT_RECREATED: Final = ("DaemonSet", "Node")
"""Kinds whose pods end with their node."""


def prepare_workloads(records: Records, report: ReportBuilder) -> None:
    """Complete owners, revisions and run times of all workloads, in place."""
    _set_run_times(records, report)
    _drop_missing_owners(records, report)
    _set_revisions(records)
    _set_pod_events(records)


def _set_pod_events(records: Records) -> None:
    """Record the newest pod of each node on its NodeClaim, as running controllers do.

    Otherwise they would take it for a new one, and the time to consolidation would begin again.
    """
    newest: dict[str, str] = {}
    for pod in records[PODS].values():
        node = pod["spec"].get("nodeName")
        times = (pod["metadata"]["creationTimestamp"], get_field(pod, "status", "startTime") or "")
        if node:
            newest[node] = max(newest.get(node, ""), *times)
    for claim in tuple(records[NODE_CLAIMS].values()):
        status = claim.get("status") or {}
        latest = newest.get(status.get("nodeName") or "", "")
        if latest > (status.get("lastPodEventTime") or ""):
            records.put(NODE_CLAIMS, {**claim, "status": {**status, "lastPodEventTime": latest}})


def _drop_missing_owners(records: Records, report: ReportBuilder) -> None:
    """Remove references to owners that were not recorded.

    The API server's garbage collection would delete such objects. A pod keeps its controller
    under another apiVersion: it is still not a bare pod.
    """
    for resource, by_key in records.by_resource.items():
        for obj in tuple(by_key.values()):
            references = obj["metadata"].get("ownerReferences") or ()
            missing = [reference for reference in references if _is_missing(reference, records)]
            if not missing:
                continue
            kept = [reference for reference in references if reference not in missing]
            if resource is PODS:
                kept += [{**ref, "apiVersion": MISSING} for ref in missing if ref.get("controller")]
            meta = {**obj["metadata"], "ownerReferences": kept or None}
            records.put(resource, {**obj, "metadata": meta})
    for key, pod in records[PODS].items():
        owner = controller_of(pod)
        if owner is not None and not _is_served(owner):
            described = f"{owner.get('kind')} {key[0]}/{owner.get('name')}"
            recreated = owner.get("kind") not in _NOT_RECREATED
            what = "recreate evicted pods" if recreated else "are not started on new nodes"
            report.assume_of("pod", described, f"of controllers that were not recorded; they {what}")


def _is_served(reference: Mapping[str, Any]) -> bool:
    return find_resource(str(reference.get("apiVersion")), str(reference.get("kind"))) is not None


def _is_missing(reference: Mapping[str, Any], records: Records) -> bool:
    return _is_served(reference) and reference.get("uid") not in records.uids


def _set_revisions(records: Records) -> None:
    """Set the simulated revision of pods of the newest template.

    The hashes of the simulation are not those of Kubernetes; it would replace every pod.
    """
    pods_of: dict[str, list[Object]] = {}
    for pod in records[PODS].values():
        owner = controller_of(pod)
        if owner is not None and owner.get("kind") in ("DaemonSet", "StatefulSet"):
            pods_of.setdefault(owner.get("uid", ""), []).append(pod)
    for daemon_set in tuple(records[DAEMON_SETS].values()):
        pods = pods_of.get(daemon_set["metadata"]["uid"], [])
        newest = _newest_daemon_revision(daemon_set, pods)
        _relabel(records, pods, newest, template_hash(get_field(daemon_set, "spec", "template") or {}))
    for key, stateful_set in tuple(records[STATEFUL_SETS].items()):
        pods = pods_of.get(stateful_set["metadata"]["uid"], [])
        name = f"{key[1]}-{template_hash(get_field(stateful_set, 'spec', 'template') or {})}"
        status = stateful_set.get("status") or {}
        newest = status.get("updateRevision") or _most_common_revision(pods)
        _relabel(records, pods, newest, name)
        if newest:
            current = status.get("currentRevision")
            renamed = {**status, "updateRevision": name}
            renamed["currentRevision"] = name if current in (None, newest) else current
            records.put(STATEFUL_SETS, {**stateful_set, "status": renamed})


def _newest_daemon_revision(daemon_set: Object, pods: list[Object]) -> str:
    """Return the revision hash of the newest template: that of pods of its generation."""
    annotations = daemon_set["metadata"].get("annotations") or {}
    generation = annotations.get(_GENERATION_ANNOTATION)
    current = [pod for pod in pods if _label(pod, _TEMPLATE_GENERATION) == generation] if generation else []
    return _most_common_revision(current or pods)


def _most_common_revision(pods: list[Object]) -> str:
    counts = Counter(revision for pod in pods if (revision := _label(pod, REVISION_HASH)))
    return max(counts, key=lambda revision: (counts[revision], revision), default="")


def _label(pod: Object, label: str) -> str:
    value: str = (pod["metadata"].get("labels") or {}).get(label, "")
    return value


def _relabel(records: Records, pods: list[Object], old: str, new: str) -> None:
    for pod in pods:
        # A pod without the label is of an unknown template; it is kept as it is.
        if _label(pod, REVISION_HASH) in (old, ""):
            meta = pod["metadata"]
            labels = {**(meta.get("labels") or {}), REVISION_HASH: new}
            records.put(PODS, {**pod, "metadata": {**meta, "labels": labels}})


def _set_run_times(records: Records, report: ReportBuilder) -> None:
    """Set the run time of pods of Jobs to that of earlier Jobs."""
    now, durations = records.now, _job_durations(records)
    known = {name: median(values) for name, values in durations.items()}
    for key, cron_job in tuple(records[CRON_JOBS].items()):
        seconds = known.get(("CronJob", *key))
        if seconds is not None:
            spec = cron_job["spec"]
            job_template = spec.get("jobTemplate") or {}
            job_spec = _with_run_seconds(job_template.get("spec") or {}, seconds)
            template = {**job_template, "spec": job_spec}
            records.put(CRON_JOBS, {**cron_job, "spec": {**spec, "jobTemplate": template}})
    for key, job in tuple(records[JOBS].items()):
        seconds = known.get(_job_family(job)) or known.get(("Job", *key))
        if seconds is not None and not get_field(job, "status", "completionTime"):
            records.put(JOBS, {**job, "spec": _with_run_seconds(job["spec"], seconds)})
    for key, pod in tuple(records[PODS].items()):
        owner = controller_of(pod)
        started = parse_time(get_field(pod, "status", "startTime"))
        if owner is None or owner.get("kind") != "Job" or started is None:
            continue
        if get_field(pod, "status", "phase") != "Running":
            continue
        of_pod = records[JOBS].get((key[0], owner.get("name", "")))
        usual = None if of_pod is None else known.get(_job_family(of_pod))
        elapsed = now - started
        if usual is not None and timedelta(seconds=usual) > elapsed:
            remaining = timedelta(seconds=usual) - elapsed
        else:
            remaining = elapsed
            report.assume_of("pod", f"{key[0]}/{key[1]}", "of Jobs run as long again as they have run so far")
        meta = pod["metadata"]
        seconds = max(remaining, _MIN_RUN).total_seconds()
        annotations = {**(meta.get("annotations") or {}), RUN_SECONDS: f"{seconds:.0f}"}
        records.put(PODS, {**pod, "metadata": {**meta, "annotations": annotations}})


def _job_durations(records: Records) -> dict[tuple[str, str, str], list[float]]:
    durations: dict[tuple[str, str, str], list[float]] = {}
    for job in records[JOBS].values():
        start = parse_time(get_field(job, "status", "startTime"))
        end = parse_time(get_field(job, "status", "completionTime"))
        if start is not None and end is not None and end > start:
            durations.setdefault(_job_family(job), []).append((end - start).total_seconds())
    return durations


def _job_family(job: Object) -> tuple[str, str, str]:
    """Return what Jobs of one CronJob have in common."""
    owner = controller_of(job)
    namespace, name = object_key(job)
    if owner is not None and owner.get("kind") == "CronJob":
        return "CronJob", namespace, owner.get("name", "")
    return "Job", namespace, name


def _with_run_seconds(spec: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    template = spec.get("template") or {}
    meta = template.get("metadata") or {}
    annotations = {RUN_SECONDS: f"{seconds:.0f}", **(meta.get("annotations") or {})}
    return {**spec, "template": {**template, "metadata": {**meta, "annotations": annotations}}}


def parse_time(text: Any) -> datetime | None:
    """Return a time of the API; None if it is missing or not a time."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


class UnknownControllers:
    """Recreates deleted pods of controllers that the simulation does not have."""

    def __init__(self, api: ApiServer, clock: VirtualClock) -> None:
        self._api = api
        self._clock = clock
        start_watch(api, clock, PODS, self._handle_event)

    @staticmethod
    def find_pods(records: Records) -> Iterator[ObjectKey]:
        """Yield the pods that such controllers own."""
        for key, pod in records[PODS].items():
            if _is_recreated(pod):
                yield key

    def _handle_event(self, event: WatchEvent) -> None:
        pod = event.object
        if event.type is EventType.DELETED and _is_recreated(pod):
            self._clock.call_later(_RECREATE_DELAY, self._recreate(pod))

    def _recreate(self, pod: Object) -> Callable[[], None]:
        kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
        meta = {name: pod["metadata"][name] for name in kept if name in pod["metadata"]}
        spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}

        def create() -> None:
            try:
                self._api.create(PODS, {"metadata": meta, "spec": spec})
            except ApiError:
                return  # The namespace is terminating, or the name was taken meanwhile.

        return create


def _is_recreated(pod: Object) -> bool:
    owner = controller_of(pod)
    if owner is None or owner.get("kind") in _NOT_RECREATED or _is_served(owner):
        return False
    return bool(get_field(pod, "status", "phase") != "Succeeded")
