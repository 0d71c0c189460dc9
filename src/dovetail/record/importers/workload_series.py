"""Series of kube-state-metrics become workloads, their scale, and tasks."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.record.importers.metrics import Series
from dovetail.trace.model import Delete, End, Event, Scale, Set, Tasks, Template

_FROM_WORKLOADS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Node")
_NO_REQUESTS: Final[dict[str, dict[str, str]]] = {}
_RANK: Final[Mapping[type, int]] = {Delete: 0, Set: 1, Template: 2}
"""Order of events of one time: an object can be replaced by another one of its name."""

Key = tuple[str, str]
"""Namespace and name."""


def build_events(
    metrics: Mapping[str, list[Series]], *, start: float, end: float, step: int
) -> Iterator[Event]:
    """Yield the events of a range in order of time."""
    pods = _Pods(metrics)
    events: list[Event] = [
        *_workload_events("Deployment", "deployment", metrics["deployments"], pods, (start, end, step)),
        *_workload_events("StatefulSet", "statefulset", metrics["statefulsets"], pods, (start, end, step)),
        *_task_events(metrics, pods, (start, end, step)),
    ]
    events.sort(key=lambda event: (event.t, _RANK.get(type(event), len(_RANK))))
    yield from events
    yield End(t=round(end - start, 3))


class _Pods:
    """Requests and controllers of pods."""

    def __init__(self, metrics: Mapping[str, list[Series]]) -> None:
        self.requests: dict[Key, dict[str, dict[str, str]]] = {}
        """Pod → container → requests."""
        for series in metrics["requests"]:
            labels = series.labels
            container = self.requests.setdefault(_key(labels, "pod"), {}).setdefault(
                labels.get("container") or "main", {}
            )
            name = labels.get("resource", "").replace("nvidia_com_gpu", "nvidia.com/gpu")
            if name:
                container[name] = _quantity(name, series.samples[0].value)
        self._deployments = {
            _key(series.labels, "replicaset"): series.labels.get("owner_name", "")
            for series in metrics["replicasets"]
            if series.labels.get("owner_kind") == "Deployment"
        }
        self.owners: dict[Key, tuple[str, str]] = {}
        """Pod → kind and name of what it belongs to."""
        self._first: dict[tuple[str, str, str], Key] = {}
        for series in sorted(metrics["owners"], key=lambda each: each.samples[0].at):
            labels = series.labels
            pod = _key(labels, "pod")
            kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
            deployment = self._deployments.get((pod[0], name), "") if kind == "ReplicaSet" else ""
            self.owners[pod] = (kind, name)
            if pod in self.requests:
                kind, name = ("Deployment", deployment) if deployment else (kind, name)
                self._first.setdefault((kind, pod[0], name), pod)

    def requests_of(self, kind: str, key: Key) -> dict[str, dict[str, str]]:
        """Return the requests of a workload's first pod, by container; none if it had no pod."""
        pod = self._first.get((kind, *key))
        return _NO_REQUESTS if pod is None else self.requests[pod]


def _workload_events(
    kind: str, label: str, series: list[Series], pods: _Pods, times: tuple[float, float, int]
) -> Iterator[Event]:
    start, end, step = times
    for workload in series:
        samples = workload.samples
        namespace, name = key = _key(workload.labels, label)
        current = int(samples[0].value)
        spec = _pod_spec(pods.requests_of(kind, key))
        labels = {"app": name}
        obj: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": current,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        if kind == "StatefulSet":
            obj["spec"]["serviceName"] = name
        yield Set(t=_offset(samples[0].at, start), object=obj)
        for sample in samples[1:]:
            if int(sample.value) != current:
                current = int(sample.value)
                t = _offset(sample.at, start)
                yield Scale(t=t, kind=kind, namespace=namespace, name=name, replicas=current)
        if end - samples[-1].at >= 2 * step:
            yield Delete(t=_offset(samples[-1].at + step, start), kind=kind, namespace=namespace, name=name)


def _task_events(
    metrics: Mapping[str, list[Series]], pods: _Pods, times: tuple[float, float, int]
) -> Iterator[Event]:
    start, end, step = times
    ends = {
        (*_key(series.labels, "pod"), series.labels.get("uid", "")): series.samples[-1].value
        for series in metrics["ends"]
    }
    templates: dict[str, Template] = {}
    tasks: list[Tasks] = []
    for series in metrics["starts"]:
        pod = _key(series.labels, "pod")
        kind, owner = pods.owners.get(pod, ("", ""))
        if kind in _FROM_WORKLOADS:
            continue
        began, seen = series.samples[0].value, series.samples[-1].at
        uid = series.labels.get("uid", "")
        finished = ends.get((*pod, uid), seen if end - seen >= 2 * step else None)
        if began < start - step and finished is not None and finished < start:
            continue
        template = _template(pod[0], kind, owner, pods.requests.get(pod, _NO_REQUESTS))
        t = _offset(began, start)
        seconds = None if finished is None else round(max(0.0, finished - max(began, start)), 3)
        if template.id not in templates or t < templates[template.id].t:
            templates[template.id] = msgspec.structs.replace(template, t=t)
        tasks.append(Tasks(t=t, template=template.id, seconds=seconds))
    yield from templates.values()
    yield from tasks


def _template(namespace: str, kind: str, owner: str, requests: dict[str, dict[str, str]]) -> Template:
    owned = kind not in ("", "<none>")
    content = {"metadata": {}, "spec": _pod_spec(requests)}
    workload = owner.rstrip("0123456789").rstrip("-") if owned else ""
    identity = msgspec.json.encode([namespace, workload, content], order="deterministic")
    return Template(
        t=0,
        id=blake2b(identity, digest_size=6).hexdigest(),
        namespace=namespace,
        owner="Job" if owned else "Pod",
        workload=workload,
        template=content,
    )


def _pod_spec(requests: dict[str, dict[str, str]]) -> dict[str, Any]:
    containers = [
        {"name": name, "resources": {"requests": amounts}} for name, amounts in sorted(requests.items())
    ]
    return {"containers": containers or [{"name": "main"}]}


def _quantity(resource: str, value: float) -> str:
    """Return a quantity of Kubernetes; CPU in millicores."""
    return f"{round(value * 1000)}m" if resource == "cpu" else str(round(value))


def _offset(at: float, start: float) -> float:
    return round(max(0.0, at - start), 3)


def _key(labels: Mapping[str, str], name: str) -> Key:
    return labels.get("namespace") or "default", labels.get(name, "")
