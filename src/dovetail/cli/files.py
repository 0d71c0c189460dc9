"""Read the files that a user names, or report all errors."""

import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO, TypeVar

from dovetail.errors import InvalidInputError, ValidationError

T = TypeVar("T")
STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
"""Files beside manifests that are not Kubernetes objects."""
CHART = "Chart.yaml"
LIMIT_VARIABLE: Final = "DOVETAIL_MAX_INPUT_MIB"
_DEFAULT_LIMIT_MIB: Final = 1024
"""A dump of 50,000 pods has some 500 MiB."""
_PIPE_TIMEOUT: Final = 120.0
"""Seconds without data from a pipe, such as ``-f <(kubectl get pods -o yaml)``."""
_CHUNK: Final = 1 << 20


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


def read_bytes(name: str, *, pipe_timeout: float = _PIPE_TIMEOUT) -> bytes:
    """Read one file, or stdin for ``-``; raise ``InvalidInputError`` if it is too large or cannot be read."""
    try:
        if name == STDIN:
            return _read_limited(name, _open_stdin())
        if stat.S_ISFIFO(os.stat(name).st_mode):
            return _read_pipe(name, pipe_timeout)
        with open(name, "rb") as file:
            return _read_limited(name, file)
    except FileNotFoundError:
        raise _unreadable(name, f"does not exist{_nearby(name)}") from None
    except OSError as error:
        raise _unreadable(name, f"cannot be read: {error.strerror or error}") from None


def _open_stdin() -> BinaryIO:
    stream: TextIO | None = sys.stdin
    if stream is None:  # Closed by the parent process.
        raise _unreadable(STDIN, "is closed")
    return stream.buffer


def _read_limited(name: str, stream: BinaryIO) -> bytes:
    limit = _limit()
    # In chunks: a read of the limit would reserve that much memory.
    content = bytearray()
    while chunk := stream.read(_CHUNK):
        content += chunk
        _check_size(name, len(content), limit)
    return bytes(content)


def _read_pipe(name: str, timeout: float) -> bytes:
    """Read a named pipe; unlike ``open`` this does not wait for ever for a writer."""
    limit = _limit()
    content = bytearray()
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            if not poll.poll(timeout * 1000):
                raise _unreadable(name, f"is a pipe that nothing was written to for {timeout:g}s")
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return bytes(content)
            content += chunk
            _check_size(name, len(content), limit)
    finally:
        os.close(descriptor)


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise _unreadable(
            name, f"is larger than {limit >> 20} MiB; set {LIMIT_VARIABLE} if it is meant to be read"
        )


def _limit() -> int:
    """Return the largest size of a file in bytes."""
    value = os.environ.get(LIMIT_VARIABLE, "")
    if not value:
        return _DEFAULT_LIMIT_MIB << 20
    if not value.isdecimal() or int(value) == 0:
        message = f"must be a number of MiB, not {value!r}"
        raise InvalidInputError([ValidationError(LIMIT_VARIABLE, 0, "", message)])
    return int(value) << 20


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
