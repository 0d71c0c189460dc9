"""Telling text from bytes that are none, before anything parses them."""

import codecs

from dovetail.errors import Mistake

LARGEST = 1 << 30
"""No dump of a cluster comes near 1 GiB; a disk image given by accident does."""

_CHUNK = 1 << 20
_MAGIC = (
    (b"\x1f\x8b", "is compressed with gzip; unpack it first"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"),
    (b"\x7fELF", "is a program, not a manifest"),
)
_ALLOWED_CONTROLS = frozenset(b"\t\n\r")
_CONTROLS = bytes(code for code in range(32) if code not in _ALLOWED_CONTROLS)


def as_utf8(file: str, data: bytes) -> bytes | Mistake:
    """Return the text of a file as UTF-8 without byte order mark, or why it has none.

    UTF-16 is understood as well: PowerShell's ``>`` writes it.
    """
    if len(data) > LARGEST:
        return Mistake(file, 0, "", f"is {len(data) >> 20} MiB large; the limit is 1024 MiB")
    for magic, message in _MAGIC:
        if data.startswith(magic):
            return Mistake(file, 0, "", message)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError:
            return Mistake(file, 0, "", "starts as UTF-16 text but does not go on as such")
    return _checked(file, data.removeprefix(b"\xef\xbb\xbf"))


def _checked(file: str, data: bytes) -> bytes | Mistake:
    """Look at one chunk after the other, so that a large file is never there twice."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        if len(chunk.translate(None, delete=_CONTROLS)) != len(chunk):
            found = next(at for at, byte in enumerate(chunk) if byte in _CONTROLS)
            return _no_text(file, data, start + found)
        try:
            decoder.decode(chunk, final=start + _CHUNK >= len(data))
        except UnicodeDecodeError as error:
            return _no_text(file, data, start + max(0, error.start))
    return data


def _no_text(file: str, data: bytes, offset: int) -> Mistake:
    line = line_at(data, offset)
    return Mistake(file, line, "", f"is not text: byte 0x{data[offset]:02x} has no place in it")


def line_at(data: bytes, offset: int) -> int:
    """Return the line, counted from 1, in which a byte stands."""
    return data.count(b"\n", 0, max(0, offset)) + 1
