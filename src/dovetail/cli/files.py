"""The files a user names: read all of them, or say what is wrong with each."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

from dovetail.errors import BadInput, Mistake

T = TypeVar("T")
STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
RECIPES = ("kustomization.yaml", "kustomization.yml")
"""These lie among manifests, say how to change them, and need not be objects."""
CHART = "Chart.yaml"


Source = tuple[str, bytes]
"""The name by which a file's mistakes are reported, and what is in it."""


def read_sources(paths: Iterable[str]) -> list[Source]:
    """Read files, directories (recursively, sorted) and ``-``; each file once.

    Raises ``BadInput`` with every path that cannot be read.
    """
    sources: dict[str, Source] = {}
    mistakes: list[Mistake] = []
    for path in paths:
        try:
            for name in _files_of(path):
                if name not in sources:
                    sources[name] = (_shown(name), read_bytes(name))
        except BadInput as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise BadInput(mistakes)
    return list(sources.values())


def attempt(mistakes: list[Mistake], read: Callable[[], T]) -> T | None:
    """Read something; what is wrong with it joins the mistakes, and None comes back."""
    try:
        return read()
    except BadInput as error:
        mistakes.extend(error.mistakes)
        return None


def _files_of(path: str) -> Iterator[str]:
    if path == STDIN or not Path(path).is_dir():
        yield path
        return
    found = sorted(_manifests_below(path))
    charts = [file.parent for file in found if file.name == CHART]
    if charts:
        raise BadInput([_chart(folder) for folder in charts])
    if not found:
        raise _unreadable(path, "holds no manifests (*.yaml, *.yml, *.json)")
    yield from (str(file) for file in found)


def _manifests_below(folder: str) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        # Not into .git, .venv and the like: slow, and nobody's manifests.
        folders[:] = [one for one in folders if not one.startswith(".")]
        for name in files:
            if name.endswith(SUFFIXES) and not name.startswith(".") and name not in RECIPES:
                yield Path(here, name)


def read_bytes(name: str) -> bytes:
    """Read one file, or stdin for ``-``; raises ``BadInput`` if that fails."""
    try:
        return _read_stdin() if name == STDIN else Path(name).read_bytes()
    except FileNotFoundError:
        raise _unreadable(name, f"there is no such file{_nearby(name)}") from None
    except OSError as error:
        raise _unreadable(name, f"cannot be read: {error.strerror or error}") from None


def _read_stdin() -> bytes:
    stream: TextIO | None = sys.stdin
    if stream is None:  # Whoever started us closed it.
        raise _unreadable(STDIN, "is closed")
    return stream.buffer.read()


def _nearby(name: str) -> str:
    """Suggest the file that the user may have meant."""
    # Imported here: only a mistake needs it, and it costs each start 5 ms.
    from difflib import get_close_matches

    path = Path(name)
    try:
        there = [one.name for one in path.parent.iterdir()]
    except OSError:
        return ""
    close = get_close_matches(path.name, there, n=1)
    return f"; did you mean {str(path.with_name(close[0]))!r}?" if close else ""


def _chart(folder: Path) -> Mistake:
    recipe = f"helm template {folder} | dovetail simulate -f -"
    return Mistake(str(folder), 0, "", f"is a Helm chart; render it first: {recipe}")


def _unreadable(name: str, why: str) -> BadInput:
    return BadInput([Mistake(_shown(name), 0, "", why)])


def _shown(name: str) -> str:
    return "<stdin>" if name == STDIN else name
