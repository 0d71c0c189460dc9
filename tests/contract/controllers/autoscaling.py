"""Control planes with a HorizontalPodAutoscaler whose load a test sets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from dovetail.ports.api_resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from dovetail.ports.kube_errors import NotFound
from tests.contract.apiserver.live import connect
from tests.contract.apiserver.subject import Object
from tests.contract.controllers.subject import (
    ControlPlane,
    LiveControlPlane,
    SimulatedControlPlane,
    create_node,
)
from tests.live.chaos.api import Api
from tests.live.cluster import Cluster
from tests.live.control_plane import ControlPlane as RealControlPlane
from tests.live.metrics_api import serve_metrics

_STARTED = "2026-01-01T09:00:00Z"
"""Long ago: the autoscaler ignores the CPU of pods that have just started."""
_REQUEST = 500
"""Millicores that each pod requests."""


class Load(Protocol):
    """Sets the CPU that the pods of a Deployment use together; None means that nothing is known."""

    def __call__(self, millicores: int | None) -> None: ...


class AutoscaledPlane:
    """A control plane with a Deployment, its autoscaler, and pods that become ready at once."""

    def __init__(self, plane: ControlPlane, set_load: Load) -> None:
        self.plane = plane
        self.set_load = set_load
        self.replicas_seen: list[int] = []
        """Replicas of the Deployment, each change once."""
        self._node = create_node(plane, "pods", cpu="100")

    def create(self, *, replicas: int = 2, **spec: Any) -> None:
        """Create a Deployment ``web`` and an autoscaler with a CPU target of 50 %."""
        resources = {"requests": {"cpu": f"{_REQUEST}m"}}
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "nodeName": self._node,
                "tolerations": [{"operator": "Exists"}],
                "automountServiceAccountToken": False,
                "containers": [{"name": "main", "image": "app:1", "resources": resources}],
            },
        }
        selector = {"matchLabels": {"app": "web"}}
        deployment = {"replicas": replicas, "selector": selector, "template": template}
        self.plane.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": deployment})
        target = {"type": "Utilization", "averageUtilization": 50}
        hpa = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            **spec,
        }
        self.plane.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "web"}, "spec": hpa})

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait as the control plane does; pods become ready and terminating ones end."""

        def check() -> bool:
            self._run_pods()
            return condition()

        self.plane.wait_until(f"{what}; replicas were {self.replicas_seen}", check)

    def replicas(self) -> int:
        replicas = int(self.plane.get(DEPLOYMENTS, "web")["spec"]["replicas"])
        if self.replicas_seen[-1:] != [replicas]:
            self.replicas_seen.append(replicas)
        return replicas

    def status(self) -> Object:
        status: Object = self.plane.get(HORIZONTAL_POD_AUTOSCALERS, "web").get("status") or {}
        return status

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return status and reason of the autoscaler's conditions by type."""
        conditions = self.status().get("conditions") or ()
        return {item["type"]: (item["status"], item["reason"]) for item in conditions}

    def _run_pods(self) -> None:
        for pod in self.plane.list(PODS)["items"]:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self.plane.delete(PODS, name, grace_period_seconds=0)
            elif not _is_ready(pod):
                # New, or on a node whose missing heartbeats made it unready.
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": _STARTED}
                status = {"phase": "Running", "startTime": _STARTED, "conditions": [ready]}
                try:
                    self.plane.patch(PODS, name, {"status": status}, subresource="status")
                except NotFound:
                    continue


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def simulated() -> AutoscaledPlane:
    """Return a simulated control plane; annotations of the autoscaler have the load."""
    plane = SimulatedControlPlane()

    def set_load(millicores: int | None) -> None:
        load = None if millicores is None else f"{millicores}m"
        patch = {"metadata": {"annotations": {"load.dovetail.sh/cpu": load}}}
        plane.patch(HORIZONTAL_POD_AUTOSCALERS, "web", patch)

    return AutoscaledPlane(plane, set_load)


class LiveLoad:
    """CPU of the pods of each namespace, for a metrics API; divided among those that run."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._millicores: dict[str, int] = {}

    def usage(self, namespace: str) -> dict[str, str]:
        if namespace not in self._millicores:
            return {}
        running = [
            pod["metadata"]["name"]
            for pod in self._api.items(f"/api/v1/namespaces/{namespace}/pods")
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return {name: f"{self._millicores[namespace] // len(running)}m" for name in running}

    def set_in(self, namespace: str, millicores: int | None) -> None:
        if millicores is None:
            self._millicores.pop(namespace, None)
        else:
            self._millicores[namespace] = millicores


@contextmanager
def live_autoscaler(binary: Path, folder: Path) -> Iterator[tuple[Cluster, LiveLoad]]:
    """Run a control plane with the controller of autoscalers, and a metrics API with a load."""
    plane = RealControlPlane(binary, folder, pod_autoscaler=True)
    plane.start()
    api = Api(plane)
    try:
        load = LiveLoad(api)
        with serve_metrics(plane, folder, load.usage):
            yield plane, load
    finally:
        api.close()
        plane.stop()


@contextmanager
def live(cluster: Cluster, load: LiveLoad) -> Iterator[AutoscaledPlane]:
    """Return an empty namespace of a control plane with an autoscaler."""
    connection = connect(cluster)
    plane = LiveControlPlane(cluster, connection)
    yield AutoscaledPlane(plane, lambda millicores: load.set_in(plane.namespace, millicores))
    plane.clean_up()
    connection.close()
