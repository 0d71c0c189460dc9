"""Pods of our own image: their container is a process on this machine."""

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
_PATIENCE = 30.0
"""Seconds that a process has to end after SIGTERM, as the kubelet gives it."""


class Program:
    """One container that runs; its environment is that of its pod, and nothing else."""

    def __init__(self, pod: Raw, kubeconfig: Path, log: Path, more: Mapping[str, str]) -> None:
        (container,) = pod["spec"]["containers"]
        told = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        # A pod has a network of its own; here all share one.
        metrics, self._probes = free_ports()
        ports = {"METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(self._probes)}
        here = {
            "PATH": os.environ["PATH"],
            "SYSTEM_NAMESPACE": pod["metadata"]["namespace"],
            "KUBECONFIG": str(kubeconfig),
        }
        with log.open("ab") as told_to:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dovetail", *container["args"]],
                env={**told, **more, **here, **ports},
                stdin=subprocess.DEVNULL,
                stdout=told_to,
                stderr=subprocess.STDOUT,
            )

    def is_ready(self) -> bool:
        address = f"http://127.0.0.1:{self._probes}/readyz"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except URLError:
            return False

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Programs:
    """Starts and ends the programs of one image, once a test says which."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.image = ""
        self.environment: Mapping[str, str] = {}
        self.identity: Callable[[str, str], Path] | None = None
        """Service account and namespace → a kubeconfig."""
        self._running: dict[str, Program] = {}

    def is_ours(self, pod: Raw) -> bool:
        return bool(self.image) and pod["spec"]["containers"][0]["image"] == self.image

    def is_ready(self, pod: Raw) -> bool:
        """Tell whether a pod's program is; it is started by that, if need be."""
        uid = pod["metadata"]["uid"]
        if uid not in self._running:
            assert self.identity is not None
            account = pod["spec"]["serviceAccountName"]
            kubeconfig = self.identity(account, pod["metadata"]["namespace"])
            self._running[uid] = Program(pod, kubeconfig, self.log, self.environment)
        return self._running[uid].is_ready()

    def end(self, pod: Raw) -> None:
        program = self._running.pop(pod["metadata"]["uid"], None)
        if program is not None:
            program.end()

    @contextmanager
    def running(self, image: str) -> Iterator[None]:
        """Have an image's pods be run for a while."""
        self.image = image
        with self.ended():
            yield

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Leave nothing running behind."""
        try:
            yield
        finally:
            self.image = ""
            for one in list(self._running.values()):
                one.end()
            self._running.clear()
