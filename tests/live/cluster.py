"""Access to a live cluster: a kubeconfig and kubectl."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import RestConfig, from_kubeconfig

_MIN_PAUSE, _MAX_PAUSE = 0.1, 1.0
"""Seconds between two checks of a condition."""
_PAUSE_RATIO = 3
"""Pause over the time that a check takes."""
_KUBECTL = Path(sys.executable).parent / "kubectl"


class Cluster:
    """A running cluster. With ``--kubeconfig``, the tests neither start nor stop it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    @property
    def environment(self) -> dict[str, str]:
        """The environment for commands that read $KUBECONFIG."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def access(self) -> RestConfig:
        """Return the connection settings of the kubeconfig."""
        return from_kubeconfig([self.kubeconfig], environ=self.environment, clock=SystemClock())

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Run kubectl and return its output; raise AssertionError if it fails."""
        result = self.try_kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl and return its result, also if it fails."""
        return subprocess.run(
            [_KUBECTL, f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects with server-side apply."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def read(self, *arguments: str) -> Any:
        """Return the object of ``kubectl get … -o json``, or the items of a list."""
        result = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return result["items"] if result["kind"] == "List" else result


def wait_for(what: str, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Poll until a condition is true; raise AssertionError naming it on timeout.

    A condition that starts kubectl or reads thousands of objects is checked less often: it takes
    the CPU from the processes that it waits for.
    """
    clock = SystemClock()
    deadline = clock.seconds() + seconds
    while True:
        began = clock.seconds()
        if condition():
            return
        now = clock.seconds()
        assert now < deadline, f"not true after {seconds:g} s: {what}"
        clock.sleep(min(_MAX_PAUSE, max(_MIN_PAUSE, _PAUSE_RATIO * (now - began))))
