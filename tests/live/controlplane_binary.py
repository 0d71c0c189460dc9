"""Build of the control plane binary from the Go module in ``controlplane``."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.program_cache import cached

_MODULE = Path(__file__).parent / "controlplane"
_VERSION = "k8s.io/component-base/version"


def controlplane_binary() -> Path:
    """Return the path of the binary; the first build on a host takes many minutes."""
    sources = [*sorted(_MODULE.glob("*.go")), _MODULE / "go.mod", _MODULE / "go.sum"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return cached("controlplane", f"{kubernetes_version()}-{digest[:12]}", _build)


def kubernetes_version() -> str:
    """Return the version that the module requires, such as v1.36.3."""
    match = re.search(r"k8s\.io/kubernetes (v\S+)", (_MODULE / "go.mod").read_text())
    assert match is not None
    return match[1]


def _build(target: Path, _: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(
            "the live tests build a control plane, but Go is not on the PATH;"
            " install Go, or use an existing cluster with --kubeconfig"
        )
    version = kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".")
    # Without these the components report version 0.0.
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X {_VERSION}.{name}={value}" for name, value in variables.items())])
    message = f"building the control plane ({version}), once for this host: many minutes"
    sys.stderr.write(f"\n{message}\n")
    command = ["nice", "-n", "5", go, "build", "-trimpath", "-ldflags", flags, "-o", target, "."]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    subprocess.run(command, cwd=_MODULE, check=True, stdin=subprocess.DEVNULL, env=environment)
