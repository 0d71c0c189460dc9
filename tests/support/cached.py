"""Programs that tests need and that take long to make: made once, kept outside the tree."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def cached(name: str, version: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a program of the cache; ``make(target, scratch)`` makes it when it is missing.

    Two test runs that start at once make it once: the second waits. A run that
    is killed leaves nothing behind that looks finished.
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
                made = Path(scratch, name)
                make(made, Path(scratch))
                made.chmod(0o755)
                made.rename(program)
    return program


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dovetail"
