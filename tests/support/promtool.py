"""Prometheus' programs for tests: from the PATH, else from Debian's package."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program_cache import cached


def promtool() -> Path:
    """Return promtool; skip the test where it can not be had."""
    return _program("promtool")


def prometheus() -> Path:
    """Return the server; skip the test where it can not be had."""
    return _program("prometheus")


def _program(name: str) -> Path:
    program = shutil.which(name)
    if program:
        return Path(program)
    try:
        return cached(name, "debian", lambda target, scratch: _extract(name, target, scratch))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{name} is not installed, and Debian's package can not be downloaded: {error}")


def _extract(name: str, target: Path, scratch: Path) -> None:
    download = ["/usr/bin/apt-get", "download", "prometheus"]
    subprocess.run(download, cwd=scratch, check=True, capture_output=True)
    (package,) = scratch.glob("*.deb")
    subprocess.run(["/usr/bin/dpkg", "-x", package, scratch / "package"], check=True, capture_output=True)
    shutil.copy(scratch / "package" / "usr" / "bin" / name, target)
