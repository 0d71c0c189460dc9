"""JSON reader: decodes a List item by item to bound memory."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from dovetail.codec.text.encoding import line_number
from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.yaml_reader import ParsedObject, ParseError
from dovetail.errors import ValidationError

MAX_OBJECT_BYTES = 16 << 20
"""Ten times the limit of etcd; a larger value is not a Kubernetes object."""
MAX_DUPLICATE_CHECK_BYTES = 4 << 20
"""Files up to this size are checked for duplicate keys; larger ones are generated."""

JSON_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for a text that is no JSON, no UTF-8, or nested too deeply."""

_NEXT_OBJECT = re.compile(rb"^\}\s*^\{", re.MULTILINE)
_BYTE = re.compile(r" \(byte ([0-9]+)\)$")


class _Envelope(msgspec.Struct):
    """Top level of a List; items stay undecoded slices of the file."""

    apiVersion: Any = None  # noqa: N815 - the wire's name
    kind: Any = None
    items: list[msgspec.Raw] | None = None


def read_objects(file: str, data: bytes) -> Iterator[ParsedObject]:
    """Yield every object of a file; raises ``ParseError``."""
    envelope = _decode_envelope(file, data)
    if isinstance(envelope, list):
        for index, item in enumerate(envelope):
            yield ParsedObject(0, (index,), _decode_object(file, data, item))
    elif envelope is not None and envelope.items:
        header = {"apiVersion": envelope.apiVersion, "kind": envelope.kind}
        for index, item in enumerate(envelope.items):
            yield ParsedObject(0, ("items", index), _decode_object(file, data, item), header)
    else:
        yield ParsedObject(0, (), _decode_object(file, data, data))


def _decode_envelope(file: str, data: bytes) -> _Envelope | list[msgspec.Raw] | None:
    kind = {b"{": _Envelope, b"[": list[msgspec.Raw]}.get(data[:4096].lstrip()[:1])
    if kind is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return None  # An object with an ``items`` field that is not a list.
    except JSON_ERRORS as error:
        raise _parse_error(file, data, error) from None


def _decode_object(file: str, data: bytes, part: bytes | msgspec.Raw) -> Any:
    size = memoryview(part).nbytes
    if size > MAX_OBJECT_BYTES:
        limit = f"the limit is {MAX_OBJECT_BYTES >> 20} MiB"
        message = f"contains an object of {size >> 20} MiB; {limit}"
        raise ParseError(ValidationError(file, 1, "", message))
    try:
        return msgspec.json.decode(part)
    except JSON_ERRORS as error:
        raise _parse_error(file, data, error) from None


def _parse_error(file: str, data: bytes, error: Exception) -> ParseError:
    if isinstance(error, RecursionError):
        return ParseError(ValidationError(file, 1, "", "is nested too deeply"))
    problem = str(error)
    match = _BYTE.search(problem)
    offset = int(match[1]) if match else len(data)
    problem = _BYTE.sub("", problem).removeprefix("JSON is malformed: ")
    if "trailing" in problem:
        problem += "; put several objects into a List or into separate files"
    if "truncated" in problem:
        offset, problem = len(data.rstrip()), "unexpected end of file"
    return ParseError(ValidationError(file, line_number(data, offset), "", f"is not valid JSON: {problem}"))


def is_concatenated(data: bytes) -> bool:
    """Return True for concatenated JSON, as of several ``kubectl get -o json``."""
    return _NEXT_OBJECT.search(data) is not None and b"\n---" not in data


def find_duplicate_keys(data: bytes) -> list[str]:
    """Return keys that occur twice in an object; empty for large files."""
    duplicates: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                duplicates.append(key)
            keys.add(key)

    if len(data) <= MAX_DUPLICATE_CHECK_BYTES:
        with suppress(ValueError, RecursionError):
            json.loads(data, object_pairs_hook=check)
    return sorted(set(duplicates))


class JsonLocator:
    """Finds the line of a path; decodes only the containers along the path."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._children: dict[FieldPath, dict[str | int, tuple[int, int]]] = {}

    def line(self, path: FieldPath) -> int:
        """Return the line of a value, or of the innermost thing around it."""
        start, end = 0, len(self._data)
        for depth, step in enumerate(path):
            inside = self._inside(path[:depth], start, end)
            if step not in inside:
                break
            start, end = inside[step]
        first = self._data[start:end].lstrip()
        return line_number(self._data, end - len(first) if first else start)

    def _inside(self, path: FieldPath, start: int, end: int) -> dict[str | int, tuple[int, int]]:
        if path not in self._children:
            self._children[path] = self._spans(start, end)
        return self._children[path]

    def _spans(self, start: int, end: int) -> dict[str | int, tuple[int, int]]:
        """Locate the values directly inside a container.

        Between two neighbours stand only brackets, commas, colons and blanks,
        none of which can start a value: so the next occurrence is the right one.
        """
        part = self._data[start:end]
        kind: Any = list[msgspec.Raw] if part.lstrip().startswith(b"[") else dict[str, msgspec.Raw]
        try:
            values = msgspec.json.decode(part, type=kind)
        except (msgspec.DecodeError, RecursionError):
            return {}
        spans: dict[str | int, tuple[int, int]] = {}
        at = part.find(b"[" if isinstance(values, list) else b"{") + 1
        pairs = enumerate(values) if isinstance(values, list) else values.items()
        for key, raw in pairs:
            if isinstance(key, str):
                spelt = b'"' + key.encode() + b'"'
                at = part.find(spelt, at) + len(spelt)
            text = bytes(raw)
            at = part.find(text, at)
            if at < 0:
                break
            spans[key] = (start + at, start + at + len(text))
            at += len(text)
        return spans
