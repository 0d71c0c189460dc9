"""Tasks: pods of Jobs and pods of no workload, and how long they ran.

A pod of a Job, of a controller that traces do not have (Argo, Spark, Ray), or of no
controller at all becomes a task. A pod that was evicted is not finished: the pod that its
controller creates in its place continues the same task.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.record.fields import Object, parse_time
from dovetail.trace.model import Event, Finish, Tasks, Template

_FROM_WORKLOADS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Node")
"""Controllers whose pods follow from recorded objects, and kubelets with static pods."""
_UNIQUE_LABELS: Final = re.compile(
    r"controller-uid|job-name|batch\.kubernetes\.io/.*|pod-template-hash|workflows\.argoproj\.io/.*"
)
"""Labels and annotations that differ in each pod of one template."""
_CRON_SUFFIX: Final = re.compile(r"-[0-9]{8,10}$")
_ORPHAN_SECONDS: Final = 600.0
"""An evicted task that no pod continues within this time has ended."""
_PLACED: Final = ("nodeName", "priority")

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Running(msgspec.Struct):
    """A pod that has not ended."""

    id: str
    owner: str
    """UID of its controller; empty: a bare pod."""
    started: datetime | None
    """Start of its containers."""


class TaskTracker:
    """Turns pods into templates, tasks and their ends."""

    def __init__(self, write: Callable[[Event], None]) -> None:
        self._write = write
        self._templates: set[str] = set()
        self._running: dict[str, _Running] = {}
        """UID of a pod → its task."""
        self._orphans: dict[str, list[tuple[float, str, float]]] = {}
        """UID of a controller → (time of the eviction, task, seconds it ran)."""

    def begin(self, pods: Mapping[str, Object]) -> None:
        """Begin a file: ``pods`` are its initial pods by UID, whose tasks have their UID."""
        self._templates.clear()
        self._orphans.clear()
        self._running = {}
        for uid, pod in pods.items():
            if is_task(pod) and not _has_ended(pod):
                self._running[uid] = _Running(uid, _owner_uid(pod), _started_at(pod))

    def resume(self, templates: set[str], running: Iterable[str]) -> None:
        """Continue a file with its templates and the IDs of its tasks that have not finished."""
        self._templates = templates
        self._running = {id: _Running(id, "", None) for id in running}

    def observe(self, pod: Object, raw: Mapping[str, Any], t: float, now: datetime) -> None:
        """Record a pod that was added or changed; ``raw`` has the status of its containers."""
        if not is_task(pod):
            return
        self._expire_orphans(t)
        uid = pod["metadata"].get("uid", "")
        known = self._running.get(uid)
        if known is None:
            if not _has_ended(pod) and not pod["metadata"].get("deletionTimestamp"):
                self._start(uid, pod, t)
            return
        known.started = known.started or _started_at(raw)
        known.owner = known.owner or _owner_uid(pod)
        if _has_ended(pod):
            self._end(uid, raw, t, now)

    def observe_deletion(self, pod: Object, raw: Mapping[str, Any], t: float, now: datetime) -> None:
        """Record a pod that is gone."""
        uid = pod["metadata"].get("uid", "")
        if uid in self._running:
            self._end(uid, raw, t, now)

    def finish_missing(self, present: set[str], seconds: Mapping[str, float], t: float) -> None:
        """End the tasks whose pods are gone after a gap; ``seconds`` is how long they ran at least."""
        for uid in [uid for uid in self._running if uid not in present]:
            task = self._running.pop(uid)
            self._write(Finish(t=t, id=task.id, seconds=seconds[task.id]))

    def _start(self, uid: str, pod: Object, t: float) -> None:
        owner = _owner_uid(pod)
        waiting = self._orphans.get(owner)
        if waiting:
            _, id, _ = waiting.pop(0)
        else:
            template = _template_of(pod)
            if template.id not in self._templates:
                self._templates.add(template.id)
                self._write(msgspec.structs.replace(template, t=t))
            id = uid
            self._write(Tasks(t=t, template=template.id, id=id))
        self._running[uid] = _Running(id, owner, None)

    def _end(self, uid: str, raw: Mapping[str, Any], t: float, now: datetime) -> None:
        task = self._running.pop(uid)
        seconds = _run_seconds(raw, task.started, now)
        if task.owner and _was_disrupted(raw):
            self._orphans.setdefault(task.owner, []).append((t, task.id, seconds))
        else:
            self._write(Finish(t=t, id=task.id, seconds=seconds))

    def _expire_orphans(self, t: float) -> None:
        for owner, waiting in list(self._orphans.items()):
            while waiting and t - waiting[0][0] > _ORPHAN_SECONDS:
                _, id, seconds = waiting.pop(0)
                self._write(Finish(t=t, id=id, seconds=seconds))
            if not waiting:
                del self._orphans[owner]


def is_task(pod: Object) -> bool:
    """Return True if the pod is not created by a recorded workload or a kubelet."""
    controller = _controller(pod)
    return controller is None or controller.get("kind") not in _FROM_WORKLOADS


def _controller(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = pod["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def _owner_uid(pod: Mapping[str, Any]) -> str:
    return str((_controller(pod) or {}).get("uid", ""))


def _template_of(pod: Object) -> Template:
    meta = pod["metadata"]
    kept = {
        name: values
        for name in ("labels", "annotations")
        if (values := {k: v for k, v in (meta.get(name) or {}).items() if not _UNIQUE_LABELS.fullmatch(k)})
    }
    spec = {key: value for key, value in pod["spec"].items() if key not in _PLACED}
    controller = _controller(pod)
    content: Object = {"metadata": kept, "spec": spec}
    namespace = str(meta.get("namespace") or "default")
    owner = "Pod" if controller is None else "Job"
    workload = "" if controller is None else _CRON_SUFFIX.sub("", str(controller.get("name", "")))
    identity = _encode([namespace, owner, workload, content])
    return Template(
        t=0,
        id=blake2b(identity, digest_size=6).hexdigest(),
        namespace=namespace,
        owner=owner,
        workload=workload,
        template=content,
    )


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _was_disrupted(pod: Mapping[str, Any]) -> bool:
    """Return True if the pod was evicted or lost its node, and did not end by itself."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return False
    return any(
        condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _states(pod: Mapping[str, Any], state: str) -> list[Mapping[str, Any]]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [(status.get("state") or {}).get(state) for status in statuses]
    return [details for details in states if details]


def _started_at(pod: Mapping[str, Any]) -> datetime | None:
    """Return when the first container started; else when the kubelet accepted the pod."""
    times = [
        moment
        for state in (*_states(pod, "running"), *_states(pod, "terminated"))
        if (moment := parse_time(state.get("startedAt"))) is not None
    ]
    return min(times, default=None) or parse_time((pod.get("status") or {}).get("startTime"))


def _run_seconds(pod: Mapping[str, Any], started: datetime | None, now: datetime) -> float:
    begin = _started_at(pod) or started
    ends = [
        moment
        for state in _states(pod, "terminated")
        if (moment := parse_time(state.get("finishedAt"))) is not None
    ]
    return _elapsed(begin, max(ends, default=now))


def _elapsed(started: datetime | None, end: datetime) -> float:
    """Return seconds; 0 if the pod never started."""
    return 0.0 if started is None else round(max(0.0, (end - started).total_seconds()), 1)
