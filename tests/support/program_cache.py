"""Programs that take long to build, cached outside the repository."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def cached(name: str, version: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a cached program; ``make(target, scratch)`` builds a missing one.

    Of two concurrent test runs one builds and the other waits. A killed run
    leaves no incomplete program.
    """
    folder = _root() / name / version
    program = folder / name
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            with TemporaryDirectory(dir=folder) as scratch:
                built = Path(scratch, name)
                make(built, Path(scratch))
                built.chmod(0o755)
                built.rename(program)
    return program


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dovetail"
