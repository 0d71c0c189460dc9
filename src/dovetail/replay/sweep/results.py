"""Results of a sweep on disk: one line for each point, so that a sweep can be resumed."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from dovetail import __version__
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.policies.hash import hash_plugin
from dovetail.replay.play import ReplayOptions
from dovetail.replay.sweep.worker import Outcome, Point


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    values: dict[str, str]
    outcome: Outcome


def hash_sweep(trace: Path, options: ReplayOptions, files: Iterable[str | None]) -> str:
    """Return a hash of everything that all points of a sweep share.

    ``files`` are those of catalogue, prices and discounts; None: the bundled ones, which
    belong to the release.
    """
    shared = {
        "version": __version__,
        "contents": [_hash_file(file) for file in (str(trace), *files)],
        "seed": options.seed,
        "limit": options.limit,
        "region": options.region,
        "empty": options.empty,
        "manifests": options.manifests,
    }
    return _hash(msgspec.json.encode(shared, order="sorted"))


def hash_points(shared: str, points: Iterable[Point]) -> list[str]:
    """Return the keys of points: equal for equal replays. A plug-in counts with its code."""
    swept = tuple(points)
    plugins = {policy: hash_plugin(policy) for policy in {point.policy for point in swept}}
    return [
        _hash(
            msgspec.json.encode(
                [shared, point.settings, point.pools, (point.policy, plugins[point.policy])], order="sorted"
            )
        )
        for point in swept
    ]


def _hash_file(file: str | None) -> str:
    return "" if file is None else _hash(Path(file).read_bytes())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class ResultFile:
    """Appends outcomes; each is on disk before the next point is reported."""

    def __init__(self, path: Path) -> None:
        """Read what is there; raise ``InvalidInputError`` if it is another kind of file."""
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        end = self._read()
        self._file = self._open(end)

    def add(self, key: str, point: Point, outcome: Outcome) -> None:
        """Append an outcome."""
        line = _Line(key=key, values=dict(point.values), outcome=outcome)
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.outcomes[key] = outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _read(self) -> int:
        """Read all complete lines; return where they end."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self._fail(0, error.strerror or str(error)) from None
        end = data.rfind(b"\n") + 1  # A killed sweep leaves half a line.
        decoder = msgspec.json.Decoder(_Line)
        for number, line in enumerate(data[:end].splitlines(), start=1):
            try:
                decoded = decoder.decode(line)
            except msgspec.MsgspecError as error:
                message = f"this is not a result of a sweep ({error}); name another file with --results"
                raise self._fail(number, message) from None
            self.outcomes[decoded.key] = decoded.outcome
        if data and not end:
            raise self._fail(1, "this is not a result of a sweep; name another file with --results")
        return end

    def _open(self, end: int) -> BinaryIO:
        try:
            file = self.path.open("r+b" if self.path.exists() else "w+b")
            file.truncate(end)
            file.seek(end)
        except OSError as error:
            raise DovetailError(f"{self.path} cannot be written: {error.strerror}; use --results") from None
        return file

    def _fail(self, line: int, message: str) -> InvalidInputError:
        return InvalidInputError([ValidationError(str(self.path), line, "", message)])
