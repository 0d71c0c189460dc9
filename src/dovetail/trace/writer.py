"""Writer of traces: zstd-compressed JSON lines, flushed and appended safely.

A trace is one or more zstd frames. ``flush`` ends a block within a frame: everything before
it can be read even if the process is killed and the frame never ends.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from dovetail.trace.frames import read_frames, zstd
from dovetail.trace.model import Event, Header

_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 9,
    zstd.CompressionParameter.checksum_flag: 1,
}
_MAX_FRAME_LINES: Final = 50_000
"""Lines after which a frame ends: what follows a damaged frame stays readable."""
_OFFSET_BYTES: Final = 8


class TraceWriter:
    """Appends a header and events to a file; not safe for several processes."""

    def __init__(self, path: Path, header: Header) -> None:
        """Create a trace; an existing file is replaced."""
        _get_recovery(path).unlink(missing_ok=True)  # Of the file that is replaced.
        self._open(path.open("wb"))
        self._write(header)

    @classmethod
    def append(cls, path: Path) -> Self:
        """Continue a trace; the half-written frame of a killed writer is kept up to its last line."""
        _recover(path)
        writer = cls.__new__(cls)
        file = path.open("r+b")
        file.seek(0, os.SEEK_END)
        writer._open(file)
        return writer

    @property
    def size(self) -> int:
        """Bytes in the file, without what is buffered."""
        return self._file.tell()

    def write(self, event: Event) -> None:
        """Write an event; it reaches the disk with the next flush."""
        self._write(event)

    def flush(self) -> None:
        """Make everything written so far readable, also after a crash of the host."""
        if self._lines:
            self._file.write(self._frame.flush(zstd.ZstdCompressor.FLUSH_BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the frame and close the file."""
        if not self._file.closed:
            self._end_frame()
            self._file.close()

    def abandon(self) -> None:
        """Close the file as it is, also if it cannot be written; what was flushed stays readable."""
        with suppress(OSError):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, file: BinaryIO) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._start_frame()

    def _start_frame(self) -> None:
        self._frame = zstd.ZstdCompressor(options=_OPTIONS)
        self._lines = 0

    def _end_frame(self) -> None:
        if self._lines:
            self._file.write(self._frame.flush())
        self._start_frame()

    def _write(self, value: Header | Event) -> None:
        self._file.write(self._frame.compress(self._encoder.encode(value) + b"\n"))
        self._lines += 1
        if self._lines >= _MAX_FRAME_LINES:
            self._end_frame()


def _recover(path: Path) -> None:
    """Rewrite a half-written last frame as a complete one.

    No frame can follow half of one. The new frame is first written beside the file, with the
    place where it belongs. A process that is killed meanwhile loses nothing: the next one writes
    that frame again.
    """
    finish_recovery(path)
    frames = read_frames(path.read_bytes())
    if frames.partial is None:
        return
    lines = frames.partial[: frames.partial.rfind(b"\n") + 1]
    frame = zstd.compress(lines, options=_OPTIONS) if lines else b""
    unfinished = path.with_name(f"{path.name}.recovery.tmp")
    with unfinished.open("wb") as file:
        _write_to_disk(file, frames.complete_bytes.to_bytes(_OFFSET_BYTES) + frame)
    unfinished.replace(_get_recovery(path))
    finish_recovery(path)


def finish_recovery(path: Path) -> None:
    """Write the frame again that a killed process may not have written.

    Needed before the file is read: it may lack its last frame, which is the whole of a young file.
    """
    record = _get_recovery(path)
    if not record.exists():
        return
    content = record.read_bytes()
    offset = int.from_bytes(content[:_OFFSET_BYTES])
    with path.open("r+b") as file:
        # A shorter file is another one, which replaced the file of this record.
        if offset <= file.seek(0, os.SEEK_END):
            file.truncate(offset)
            file.seek(offset)
            _write_to_disk(file, content[_OFFSET_BYTES:])
    record.unlink()


def _get_recovery(path: Path) -> Path:
    return path.with_name(f"{path.name}.recovery")


def _write_to_disk(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
