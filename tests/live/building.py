"""The control plane's program, built from the Go module beside this file."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.cached import cached

_MODULE = Path(__file__).parent / "controlplane"
_VERSION = "k8s.io/component-base/version"


def controlplane_binary() -> Path:
    """Return the program; the first time on a machine this takes many minutes."""
    sources = [*sorted(_MODULE.glob("*.go")), _MODULE / "go.mod", _MODULE / "go.sum"]
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in sources)).hexdigest()
    return cached("controlplane", f"{kubernetes_version()}-{digest[:12]}", _build)


def kubernetes_version() -> str:
    """Return the version that the module requires, such as v1.36.3."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (_MODULE / "go.mod").read_text())
    assert found is not None
    return found[1]


def _build(target: Path, _: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(
            "the live tests build a control plane and found no Go on the PATH;"
            " install Go, or name a cluster of yours with --kubeconfig"
        )
    version = kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".")
    # Without these the components would take themselves for version 0.0.
    named = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X {_VERSION}.{name}={value}" for name, value in named.items())])
    message = f"building the control plane ({version}), once for this machine: many minutes"
    sys.stderr.write(f"\n{message}\n")
    command = ["nice", "-n", "5", go, "build", "-trimpath", "-ldflags", flags, "-o", target, "."]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    subprocess.run(command, cwd=_MODULE, check=True, stdin=subprocess.DEVNULL, env=environment)
