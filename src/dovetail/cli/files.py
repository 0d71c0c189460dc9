"""Read the files that a user names, or report all errors."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

from dovetail.errors import InvalidInputError, ValidationError

T = TypeVar("T")
STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
"""Files beside manifests that are not Kubernetes objects."""
CHART = "Chart.yaml"


Source = tuple[str, bytes]
"""Name of a file in error messages, and its content."""


def read_sources(paths: Iterable[str]) -> list[Source]:
    """Read files, directories (recursively, sorted) and ``-``; each file once.

    Raises ``InvalidInputError`` with every path that cannot be read.
    """
    sources: dict[str, Source] = {}
    errors: list[ValidationError] = []
    for path in paths:
        try:
            for name in _files_of(path):
                if name not in sources:
                    sources[name] = (_shown(name), read_bytes(name))
        except InvalidInputError as error:
            errors.extend(error.errors)
    if errors:
        raise InvalidInputError(errors)
    return list(sources.values())


def attempt(errors: list[ValidationError], read: Callable[[], T]) -> T | None:
    """Call ``read``; on invalid input add its errors to ``errors`` and return None."""
    try:
        return read()
    except InvalidInputError as error:
        errors.extend(error.errors)
        return None


def _files_of(path: str) -> Iterator[str]:
    if path == STDIN or not Path(path).is_dir():
        yield path
        return
    manifests = sorted(_manifests_below(path))
    charts = [file.parent for file in manifests if file.name == CHART]
    if charts:
        raise InvalidInputError([_chart(folder) for folder in charts])
    if not manifests:
        raise _unreadable(path, "has no manifests (*.yaml, *.yml, *.json)")
    yield from (str(file) for file in manifests)


def _manifests_below(folder: str) -> Iterator[Path]:
    for directory, folders, files in os.walk(folder):
        # Skip .git, .venv and the like.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.endswith(SUFFIXES) and not name.startswith(".") and name not in KUSTOMIZATIONS:
                yield Path(directory, name)


def read_bytes(name: str) -> bytes:
    """Read one file, or stdin for ``-``."""
    try:
        return _read_stdin() if name == STDIN else Path(name).read_bytes()
    except FileNotFoundError:
        raise _unreadable(name, f"file not found{_nearby(name)}") from None
    except OSError as error:
        raise _unreadable(name, f"cannot be read: {error.strerror or error}") from None


def _read_stdin() -> bytes:
    stream: TextIO | None = sys.stdin
    if stream is None:  # Closed by the parent process.
        raise _unreadable(STDIN, "is closed")
    return stream.buffer.read()


def _nearby(name: str) -> str:
    """Return a suggestion for a mistyped file name."""
    # Imported late: only an error needs it, and it takes 5 ms.
    from difflib import get_close_matches

    path = Path(name)
    try:
        siblings = [sibling.name for sibling in path.parent.iterdir()]
    except OSError:
        return ""
    close = get_close_matches(path.name, siblings, n=1)
    return f"; did you mean {str(path.with_name(close[0]))!r}?" if close else ""


def _chart(folder: Path) -> ValidationError:
    recipe = f"helm template {folder} | dovetail simulate -f -"
    return ValidationError(str(folder), 0, "", f"is a Helm chart; render it first: {recipe}")


def _unreadable(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError([ValidationError(_shown(name), 0, "", reason)])


def _shown(name: str) -> str:
    return "<stdin>" if name == STDIN else name
