"""Conversion of files to UTF-8; archives, programs and binary files are rejected."""

import codecs

from dovetail.errors import ValidationError

MAX_FILE_BYTES = 1 << 30
"""1 GiB: far above any dump of a cluster, below a disk image given by mistake."""

_CHUNK = 1 << 20
_MAGIC = (
    (b"\x1f\x8b", "is compressed with gzip; unpack it first"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"),
    (b"\x7fELF", "is a program, not a manifest"),
)
_ALLOWED_CONTROLS = frozenset(b"\t\n\r")
_CONTROLS = bytes(code for code in range(32) if code not in _ALLOWED_CONTROLS)


def to_utf8(file: str, data: bytes) -> bytes | ValidationError:
    """Return a file as UTF-8 without byte order mark, or the error.

    UTF-16 is accepted: ``>`` in PowerShell writes it.
    """
    if len(data) > MAX_FILE_BYTES:
        return ValidationError(file, 0, "", f"is {len(data) >> 20} MiB large; the limit is 1024 MiB")
    for magic, message in _MAGIC:
        if data.startswith(magic):
            return ValidationError(file, 0, "", message)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError:
            return ValidationError(file, 0, "", "starts as UTF-16 but is not valid UTF-16")
    return _check_utf8(file, data.removeprefix(b"\xef\xbb\xbf"))


def _check_utf8(file: str, data: bytes) -> bytes | ValidationError:
    """Check UTF-8 in chunks, so that a large file is not copied."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        if len(chunk.translate(None, delete=_CONTROLS)) != len(chunk):
            position = next(at for at, byte in enumerate(chunk) if byte in _CONTROLS)
            return _not_text_error(file, data, start + position)
        try:
            decoder.decode(chunk, final=start + _CHUNK >= len(data))
        except UnicodeDecodeError as error:
            return _not_text_error(file, data, start + max(0, error.start))
    return data


def _not_text_error(file: str, data: bytes, offset: int) -> ValidationError:
    line = line_number(data, offset)
    return ValidationError(file, line, "", f"is not text: invalid byte 0x{data[offset]:02x}")


def line_number(data: bytes, offset: int) -> int:
    """Return the line number, from 1, of a byte offset."""
    return data.count(b"\n", 0, max(0, offset)) + 1
