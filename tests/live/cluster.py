"""A cluster as tests use it: a kubeconfig, and kubectl."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dovetail.host.clock import RealClock
from dovetail.kube.auth.kubeconfig import Access, from_kubeconfig

_KUBECTL = Path(sys.executable).parent / "kubectl"


class Cluster:
    """Any cluster; ``--kubeconfig`` names one that is not ours to start or stop."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    @property
    def environment(self) -> dict[str, str]:
        """The environment for programs that read $KUBECONFIG."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def access(self) -> Access:
        """Return what ``kube.connection.Connection`` needs."""
        return from_kubeconfig([self.kubeconfig], environ=self.environment, clock=RealClock())

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Run kubectl; an AssertionError has what it said when it failed."""
        done = self.try_kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl where it may fail."""
        return subprocess.run(
            [_KUBECTL, f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def apply(self, *objects: dict[str, Any]) -> None:
        """Have kubectl apply objects on the server's side."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def read(self, *arguments: str) -> Any:
        """Return what ``kubectl get … -o json`` finds: an object, or the items of a list."""
        found = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found["items"] if found["kind"] == "List" else found


def wait_for(what: str, holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Look until something holds; fails, saying what, when it never does."""
    clock = RealClock()
    end = clock.seconds() + seconds
    while not holds():
        assert clock.seconds() < end, f"after {seconds:g} s it was not so: {what}"
        clock.sleep(0.1)
