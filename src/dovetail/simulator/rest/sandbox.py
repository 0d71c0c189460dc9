"""Sandbox: a simulated cluster, served to kubectl in real time."""

import asyncio
import traceback
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.logs import LogLine
from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.rest.real_time import MAX_SLEEP, RealTimeRunner
from dovetail.simulator.rest.server import Server
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import ScenarioRunner

CONTROLLER_LABEL: Final = ("karpenter", "controller")
"""Label of the pod whose log is the log of the controllers."""
CONTROLLER_NAMESPACE: Final = "karpenter"
"""Namespace of that pod; kube-system is free for what users install there."""
_CRD_RELEASE: Final = {"name": "dovetail-crd", "namespace": "kube-system"}
"""Release and namespace of the CustomResourceDefinitions in the guide of the installation."""
CONTEXT: Final = "dovetail-sandbox"


class SandboxEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """URL of the cluster, and a kubeconfig for it."""

    url: str
    kubeconfig: dict[str, Any]


class Sandbox:
    """Serves a simulated cluster on a local port."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        token: str,
        clock: Callable[[], float],
        scenario: Scenario,
        speed: float = 1.0,
    ) -> None:
        """Prepare to serve a cluster created from ``scenario``, and to run its phases.

        ``clock`` returns seconds, and ``speed`` is in virtual seconds per second.
        """
        cluster.kubelets.heartbeats.write_all()  # Clients see them.
        for definition in DEFINITIONS:
            cluster.api.create(CUSTOM_RESOURCE_DEFINITIONS, _encode_installed(definition))
        steps = ScenarioRunner(cluster, scenario).steps(every=timedelta(seconds=MAX_SLEEP * speed))
        self._runner = RealTimeRunner(cluster.clock, speed=speed, clock=clock, scenario_steps=steps)
        self._token = token
        self._controller_log: list[str] = []
        cluster.log.listeners.append(self._record_log_line)
        self._log = cluster.log
        cluster.clock.on_error = self._log_failure
        self._server = Server(
            cluster.api, token=token, now=cluster.clock.now, on_write=self._runner.wake, logs=self._pod_log
        )

    async def run(self, *, port: int, ready: Callable[[SandboxEndpoint], None], stop: asyncio.Event) -> None:
        """Serve until ``stop``; ``ready`` is called once the server listens."""
        actual_port = await self._server.start(port)
        url = f"https://127.0.0.1:{actual_port}"
        kubeconfig = encode_kubeconfig(url, self._token, self._server.certificate)
        try:
            ready(SandboxEndpoint(url=url, kubeconfig=kubeconfig))
            await self._runner.run(stop)
        finally:
            await self._server.stop()

    def _log_failure(self, error: Exception) -> None:
        """Log a component that failed on an object; the others go on, as separate processes do."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        self._log.error(
            "a simulated component failed",
            object=next(filter(None, getattr(error, "__notes__", ())), ""),
            error=f"{type(error).__name__}: {error}",
            at=f"{Path(frame.filename).name}:{frame.lineno}",
        )

    def _record_log_line(self, line: LogLine) -> None:
        if line.level != "DEBUG":
            self._controller_log.append(line.as_json())

    def _pod_log(self, pod: Object) -> list[str] | None:
        key, value = CONTROLLER_LABEL
        is_controller = get_field(pod, "metadata", "labels", key) == value
        return self._controller_log if is_controller else None


def _encode_installed(definition: Definition) -> dict[str, Any]:
    """Return a CustomResourceDefinition as helm installs it from ``dovetail-crd``.

    Without its marks, helm refuses to install the chart: the objects would belong to no release.
    """
    encoded = definition.encode()
    meta = encoded["metadata"]
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    annotations = {f"meta.helm.sh/release-{key}": value for key, value in _CRD_RELEASE.items()}
    encoded["metadata"] = {**meta, "labels": labels, "annotations": {**meta["annotations"], **annotations}}
    return encoded


def encode_kubeconfig(url: str, token: str, certificate: str) -> dict[str, Any]:
    """Return a kubeconfig with one context.

    ``certificate`` is the server's own, in PEM: the only certificate authority.
    """
    authority = b64encode(certificate.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}
        ],
        "current-context": CONTEXT,
    }
