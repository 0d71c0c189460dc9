"""The application of ``examples/fargate.yaml``, live: 4 pods, 100, and 4 again.

Its HorizontalPodAutoscaler decides the number of pods, from load that a metrics API divides among
the ready ones; Dovetail launches and deletes the nodes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dovetail.eks.desired.desired_state import desired_state
from dovetail.host.clock import SystemClock
from tests.live.chaos.api import NODE_CLAIMS, NODES, Api
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.controlplane_binary import controlplane_binary
from tests.live.metrics_api import serve_metrics
from tests.live.replicas import Installation, run_installation
from tests.support.eks.configs import an_example

_PODS = "/api/v1/namespaces/chip/pods"
_REQUEST, _TARGET = 250, 0.6
"""Millicores that a pod requests, and the share of it that the autoscaler aims at."""


class ChipReport(msgspec.Struct, kw_only=True):
    """Result of a run; lists have a value for 4 pods, for 100, and for 4 again."""

    nodes: list[int]
    usd_per_hour: list[float]
    instance_types: dict[str, int]
    """Number of instances of each type for 100 pods."""
    seconds_up: float
    """From the load for 100 pods until all are ready."""
    seconds_down: float
    """From the load for 4 pods until every other pod and every empty node is gone."""
    usd: float
    """Cost of all instances of the run."""


def run_chip(folder: Path, progress: Callable[[str], None]) -> ChipReport:
    """Start a control plane, run, and stop it."""
    plane_folder = folder / "controlplane"
    plane_folder.mkdir()
    plane = ControlPlane(controlplane_binary(), plane_folder, pod_autoscaler=True)
    plane.start()
    progress("the control plane is ready")
    api = Api(plane)
    load = _Load(api)
    try:
        with run_installation(plane, folder) as installation, serve_metrics(plane, folder, load.usage):
            return _Run(plane, api, load, installation, progress).report()
    finally:
        api.close()
        plane.stop()


class _Load:
    """CPU that chip needs in total, divided among its ready pods."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.pods_needed = 0

    def usage(self, namespace: str) -> dict[str, str]:
        pods = [pod for pod in self._api.items(f"/api/v1/namespaces/{namespace}/pods") if _is_ready(pod)]
        millicores = self.pods_needed * _REQUEST * _TARGET / max(len(pods), 1)
        return {pod["metadata"]["name"]: f"{round(millicores)}m" for pod in pods}


class _Run:
    def __init__(
        self,
        plane: ControlPlane,
        api: Api,
        load: _Load,
        installation: Installation,
        progress: Callable[[str], None],
    ) -> None:
        self._plane = plane
        self._api = api
        self._load = load
        self._installation = installation
        self._progress = progress
        self._clock = SystemClock()

    def report(self) -> ChipReport:
        self._plane.apply(_pool(), *an_example("fargate").objects)
        self._installation.start_replica()
        self._scale_to(4)
        few = self._prices()
        seconds_up = self._scale_to(100)
        many = self._prices()
        began = self._clock.seconds()
        self._scale_to(4)
        wait_for("every empty node is gone", lambda: not self._empty_nodes(), seconds=120)
        seconds_down = self._clock.seconds() - began
        end = self._prices()
        self._progress(f"{len(few)}, {len(many)} and {len(end)} nodes")
        types = [launch_type for launch_type, _ in many]
        return ChipReport(
            nodes=[len(few), len(many), len(end)],
            usd_per_hour=[round(sum(price for _, price in prices), 3) for prices in (few, many, end)],
            instance_types={name: types.count(name) for name in sorted(set(types))},
            seconds_up=round(seconds_up, 1),
            seconds_down=round(seconds_down, 1),
            usd=round(self._spent(), 4),
        )

    def _scale_to(self, pods: int) -> float:
        """Set the load for a number of pods; return the seconds until they are ready."""
        began, self._load.pods_needed = self._clock.seconds(), pods
        wait_for(f"{pods} pods are ready", lambda: self._ready_and_all() == (pods, pods), seconds=180)
        self._progress(f"{pods} pods are ready")
        return self._clock.seconds() - began

    def _ready_and_all(self) -> tuple[int, int]:
        pods = self._api.items(_PODS)
        return sum(map(_is_ready, pods)), len(pods)

    def _empty_nodes(self) -> list[str]:
        """Return nodes without pods, also those that are not there yet or no longer."""
        used = {pod["spec"].get("nodeName") for pod in self._api.items(_PODS)}
        nodes = [node["metadata"]["name"] for node in self._api.items(NODES)]
        claimed = [claim["status"].get("nodeName", "") for claim in self._api.items(NODE_CLAIMS)]
        return [name for name in {*nodes, *claimed} if name not in used]

    def _prices(self) -> list[tuple[str, float]]:
        """Return type and price per hour of each running instance."""
        running = self._installation.running_instances()
        return [(launch.instance_type, launch.price) for launch in running]

    def _spent(self) -> float:
        now = self._clock.now()
        return sum(
            launch.price * ((launch.shutting_down or now) - launch.running).total_seconds() / 3600
            for launch in self._installation.launches()
            if launch.running is not None
        )


def _pool() -> dict[str, Any]:
    """Return the NodePool of the example, but delete empty nodes after a second."""
    [pool] = [
        dict(resource.properties)
        for resource in desired_state(an_example("fargate"))
        if resource.address == "kubernetes-object/NodePool/default"
    ]
    disruption = {**pool["spec"]["disruption"], "consolidateAfter": "1s"}
    return {**pool, "spec": {**pool["spec"], "disruption": disruption}}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
