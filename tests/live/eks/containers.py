"""Containers of one image, run as local processes."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

from tests.observability.test_health import free_ports

Raw = dict[str, Any]
_STOP_TIMEOUT = 30.0
"""Seconds from SIGTERM to SIGKILL, as in the kubelet."""


class ContainerProcess:
    """A container's process; its environment is that of the pod only."""

    def __init__(self, pod: Raw, kubeconfig: Path, log: Path, more: Mapping[str, str]) -> None:
        (container,) = pod["spec"]["containers"]
        variables = {env["name"]: env["value"] for env in container["env"] if "value" in env}
        # All processes share the host network, so each needs its own ports.
        metrics, self._probes = free_ports()
        ports = {"METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(self._probes)}
        local = {
            "PATH": os.environ["PATH"],
            "SYSTEM_NAMESPACE": pod["metadata"]["namespace"],
            "KUBECONFIG": str(kubeconfig),
        }
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dovetail", *container["args"]],
                env={**variables, **more, **local, **ports},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def is_ready(self) -> bool:
        address = f"http://127.0.0.1:{self._probes}/readyz"
        try:
            with urllib.request.urlopen(address, timeout=5) as response:
                return bool(response.status == 200)
        except URLError:
            return False

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after a timeout."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Containers:
    """Starts and stops the containers of one image; a test sets the image."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.image = ""
        self.environment: Mapping[str, str] = {}
        self.identity: Callable[[str, str], Path] | None = None
        """Maps service account and namespace to a kubeconfig."""
        self._running: dict[str, ContainerProcess] = {}

    def is_selected(self, pod: Raw) -> bool:
        """Return True if a pod runs the image."""
        return bool(self.image) and pod["spec"]["containers"][0]["image"] == self.image

    def is_ready(self, pod: Raw) -> bool:
        """Return True if a pod's process is ready; start it if it is not running."""
        uid = pod["metadata"]["uid"]
        if uid not in self._running:
            assert self.identity is not None
            account = pod["spec"]["serviceAccountName"]
            kubeconfig = self.identity(account, pod["metadata"]["namespace"])
            self._running[uid] = ContainerProcess(pod, kubeconfig, self.log, self.environment)
        return self._running[uid].is_ready()

    def stop(self, pod: Raw) -> None:
        process = self._running.pop(pod["metadata"]["uid"], None)
        if process is not None:
            process.stop()

    @contextmanager
    def running(self, image: str) -> Iterator[None]:
        """Run the pods of an image for the duration of the block."""
        self.image = image
        with self.stop_at_exit():
            yield

    @contextmanager
    def stop_at_exit(self) -> Iterator[None]:
        """Stop all processes at the end of the block."""
        try:
            yield
        finally:
            self.image = ""
            for process in list(self._running.values()):
                process.stop()
            self._running.clear()
