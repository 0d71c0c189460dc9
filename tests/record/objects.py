"""Objects as an API server sends them, with everything that a trace leaves out."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.record.demand import Demand
from dovetail.trace.model import Event

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
Object = dict[str, Any]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = START

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Recording:
    """A demand with its clock and the events that it wrote since the start."""

    def __init__(self, *listed: tuple[Any, Object], clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.all: list[Event] = []
        self.demand = Demand(self.all.append, now=lambda: self.clock.now)
        self._begun = 0
        for resource, obj in listed:
            self.demand.apply(resource, obj)

    def begin(self) -> "Recording":
        self.demand.begin(self.clock.now)
        self._begun = len(self.all)
        return self

    @property
    def initial(self) -> list[Event]:
        return self.all[: self._begun]

    @property
    def events(self) -> list[Event]:
        return self.all[self._begun :]


def pod_spec() -> Object:
    return {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/secret-project:1",
                "command": ["run", "--password=hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "ports": [{"containerPort": 8080}],
            }
        ],
        "serviceAccountName": "jane-doe",
        "nodeSelector": {"team": "shop"},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "gpu", "operator": "Exists"},
        ],
        "volumes": [{"name": "kube-api-access-x2x9c", "projected": {}}],
        "schedulerName": "default-scheduler",
        "dnsPolicy": "ClusterFirst",
    }


def deployment(name: str = "web", *, replicas: int = 3) -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": {"owner": "jane.doe@example.com", "deployment.kubernetes.io/revision": "1"},
            "managedFields": [{"manager": "jane"}],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
        "status": {"replicas": replicas},
    }


def pod(name: str, *, owner: str = "", kind: str = "Job", **status: Any) -> Object:
    meta: Object = {"name": name, "namespace": "batch", "uid": f"uid-{name}", "labels": {"app": "etl"}}
    if owner:
        meta["labels"] |= {"job-name": owner, "controller-uid": f"uid-{owner}"}
        reference = {"apiVersion": "batch/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}"}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    return {"metadata": meta, "spec": {**pod_spec(), "restartPolicy": "Never"}, "status": status}


def ran(seconds: float, *, phase: str = "Succeeded") -> Object:
    """Return the status of a pod whose container ran for a time."""
    state = {"startedAt": _text(START), "finishedAt": _text(START + timedelta(seconds=seconds))}
    return {
        "phase": phase,
        "startTime": _text(START - timedelta(seconds=20)),
        "containerStatuses": [{"name": "main", "state": {"terminated": state}}],
    }


def evicted() -> Object:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    return {"phase": "Failed", "startTime": _text(START), "conditions": [condition]}


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
