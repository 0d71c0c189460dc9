"""Output of a recorder: a trace file, continued after a restart, and rotated."""

import fcntl
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.record.resumption import Resumption, read_resumption
from dovetail.trace.model import VERSION, End, Event, Header
from dovetail.trace.reader import UnreadableBeginError, read_header
from dovetail.trace.writer import TraceWriter, finish_recovery

SUFFIX: Final = ".jsonl.zst"
WRITER: Final = "dovetail record"
"""Begin of ``Header.written_by``, before the release."""


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """Size and age at which a file is complete, and how many are kept."""

    size: int = 256 << 20
    """Bytes."""
    every: timedelta = timedelta(hours=24)
    keep: int = 0
    """Files beside the current one; 0: all."""


class TraceOutput:
    """The current file and its rotation; every error names the file."""

    def __init__(self, path: Path, rotation: Rotation) -> None:
        """Lock the file; raise ``DovetailError`` if another recorder writes it."""
        self.path = path
        self._rotation = rotation
        self._writer: TraceWriter | None = None
        self._lock: BinaryIO | None = None
        self.header: Header | None = None
        self.events = 0
        """Events written by this process."""
        self.kept: Path | None = None
        """New name of a file that could not be continued."""
        self.kept_reason = ""
        self._acquire()

    def read_header(self) -> Header | None:
        """Return the header of a file to continue; None: a new one begins.

        A file of an earlier format is complete: it is renamed as by a rotation. One that
        cannot be read is renamed, too. Raises ``DovetailError`` if no recorder wrote the file.
        """
        try:
            finish_recovery(self.path)
        except OSError as error:
            raise self._failed(error) from error
        if not self.path.stat().st_size:
            return None
        try:
            header = read_header(self.path)
        except UnreadableBeginError:
            # The recorder was killed, or the disk full, while the beginning was written.
            self.kept_reason = "ends before its first line does"
            self.kept = self._move(self.path.with_name(f"{self.path.name}.unreadable"))
            return None
        if not header.written_by.startswith(f"{WRITER} "):
            raise DovetailError(
                f"{self.path} was written by {header.written_by!r} and cannot be continued; name another file"
            )
        if header.version < VERSION:
            self.kept_reason = "has the format of an earlier release"
            self.kept = self._rename(header.start)
            return None
        return header

    def read_existing(self) -> tuple[Header, Resumption, list[str]] | None:
        """Return the state at the end of an existing file; None: there is none to continue."""
        return read_resumption(self.path) if self.path.stat().st_size else None

    def begin(self, header: Header) -> None:
        """Begin the file with a header."""
        self.header = header
        try:
            self._writer = TraceWriter(self.path, header)
        except OSError as error:
            raise self._failed(error) from error

    def resume(self, header: Header) -> None:
        """Continue the file behind its last complete line."""
        self.header = header
        try:
            self._writer = TraceWriter.append(self.path)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, event: Event) -> None:
        """Write an event; ``write`` makes it durable."""
        try:
            self._get_writer().write(event)
        except OSError as error:
            raise self._failed(error) from error
        self.events += 1

    def write(self, events: list[Event]) -> None:
        """Write events and make them durable."""
        for event in events:
            self.append(event)
        try:
            self._get_writer().flush()
        except OSError as error:
            raise self._failed(error) from error

    def is_full(self, now: datetime) -> bool:
        """Return True if the file is to be rotated."""
        if self.header is None:
            return False
        return (
            self._get_writer().size >= self._rotation.size or now - self.header.start >= self._rotation.every
        )

    def rotate(self, t: float) -> None:
        """End the file and rename it after its start; ``begin`` must follow."""
        if self.header is None:
            return
        self.end(t)
        self._rename(self.header.start)

    def end(self, t: float) -> None:
        """Write the end and close the file."""
        if self._writer is None:
            return
        try:
            self._writer.write(End(t=t))
            self._writer.close()
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self._writer = None

    def close(self) -> None:
        """Release the file; one that nothing was written to is deleted. Later calls do nothing."""
        if self._lock is None:
            return
        if self._writer is not None:
            self._writer.abandon()
        if self.header is None and self.path.is_file() and not self.size:
            self.path.unlink(missing_ok=True)
        self._release()

    @property
    def size(self) -> int:
        """Bytes of the current file."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _get_writer(self) -> TraceWriter:
        if self._writer is None:
            raise RuntimeError("no file was begun")
        return self._writer

    def _rename(self, start: datetime) -> Path:
        """Name the file after its start, and open a new one; delete those beyond the rotation."""
        stem = self.path.name.removesuffix(SUFFIX)
        suffix = self.path.name[len(stem) :]
        done = self._move(self.path.with_name(f"{stem}-{start:%Y%m%dT%H%M%SZ}{suffix}"))
        try:
            self._delete_old(stem, suffix)
        except OSError as error:
            raise self._failed(error) from error
        return done

    def _move(self, new_path: Path) -> Path:
        """Rename the file, and open a new one; return the path of the former."""
        try:
            os.replace(self.path, new_path)
            self._release()
            self._acquire()
        except OSError as error:
            raise self._failed(error) from error
        return new_path

    def _delete_old(self, stem: str, suffix: str) -> None:
        if not self._rotation.keep:
            return
        pattern = f"{stem}-[0-9]*T[0-9]*Z{suffix}"
        for path in sorted(self.path.parent.glob(pattern))[: -self._rotation.keep]:
            path.unlink(missing_ok=True)

    def _acquire(self) -> None:
        """Open the file and lock it; the kernel releases the lock of a killed process."""
        try:
            lock = self.path.open("ab")
        except OSError as error:
            raise self._failed(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise DovetailError(f"{self.path} is being written by another recorder") from error
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _failed(self, error: OSError) -> DovetailError:
        return DovetailError(f"{self.path} cannot be written: {error.strerror or error}")
