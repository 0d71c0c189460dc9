"""Frames of a trace file: zstd-compressed; the last may be half written."""

import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

_CHUNK: Final = 1 << 16
_MAGIC: Final = b"\x28\xb5\x2f\xfd"


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a file."""

    complete_bytes: int
    """Length of the complete frames, compressed."""
    partial: bytes | None
    """Decompressed part of a last frame that is not complete; None: there is none."""


class DamagedFrameError(Exception):
    """Bytes that are not zstd, or whose checksum is wrong."""


def is_compressed(head: bytes) -> bool:
    """Return True if a file begins as zstd; the beginning of a truncated file counts."""
    return bool(head) and head[:4] == _MAGIC[: len(head[:4])]


def read_frames(data: bytes) -> Frames:
    """Find the end of the last complete frame; raise ``DamagedFrameError``."""
    complete = 0
    while complete < len(data):
        frame = zstd.ZstdDecompressor()
        try:
            partial = frame.decompress(data[complete:])
        except zstd.ZstdError as error:
            raise DamagedFrameError(str(error)) from error
        if not frame.eof:
            return Frames(complete_bytes=complete, partial=partial)
        complete = len(data) - len(frame.unused_data)
    return Frames(complete_bytes=complete, partial=None)


class FrameReader:
    """Yields the decompressed chunks of a file, streaming."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.truncated = False
        """Set at the end: the last frame is not complete."""

    def __iter__(self) -> Iterator[bytes]:
        frame = zstd.ZstdDecompressor()
        begun = False
        while data := self._file.read(_CHUNK):
            while data:
                try:
                    chunk = frame.decompress(data)
                except zstd.ZstdError as error:
                    raise DamagedFrameError(str(error)) from error
                if chunk:
                    yield chunk
                begun = not frame.eof
                data = frame.unused_data
                if frame.eof:
                    frame = zstd.ZstdDecompressor()
        self.truncated = begun
