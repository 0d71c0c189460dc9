"""Programs for tests: from the PATH, else from Debian's package."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program_cache import cached


def debian_program(name: str, *, package: str) -> Path:
    """Return a program; skip the test where it can not be had."""
    program = shutil.which(name)
    if program:
        return Path(program)
    try:
        return cached(name, "debian", lambda target, scratch: _extract(name, package, target, scratch))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{name} is not installed, and Debian's package can not be downloaded: {error}")


def _extract(name: str, package: str, target: Path, scratch: Path) -> None:
    download = ["/usr/bin/apt-get", "download", package]
    subprocess.run(download, cwd=scratch, check=True, capture_output=True)
    (archive,) = scratch.glob("*.deb")
    subprocess.run(["/usr/bin/dpkg", "-x", archive, scratch / "package"], check=True, capture_output=True)
    shutil.copy(scratch / "package" / "usr" / "bin" / name, target)
