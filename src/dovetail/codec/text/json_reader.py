"""JSON text to plain values, object by object, without holding it all at once."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from dovetail.codec.text.encoding import line_at
from dovetail.codec.text.field_path import Path
from dovetail.codec.text.yaml_reader import Unreadable
from dovetail.errors import Mistake

LARGEST_OBJECT = 16 << 20
"""Ten times what etcd holds; more is no Kubernetes object."""
CHECKED_FOR_TWINS = 4 << 20
"""Files up to this size are searched for keys given twice; machines write larger ones."""

_NEXT_OBJECT = re.compile(rb"^\}\s*^\{", re.MULTILINE)
_BYTE = re.compile(r" \(byte ([0-9]+)\)$")


class JsonObject(msgspec.Struct):
    """A value that stands where an object may, and the List around it."""

    path: Path
    value: Any
    list_header: dict[str, Any] | None = None


class _Envelope(msgspec.Struct):
    """The top of a List; items stay unread slices of the file."""

    apiVersion: Any = None  # noqa: N815 - the wire's name
    kind: Any = None
    items: list[msgspec.Raw] | None = None


def objects(file: str, data: bytes) -> Iterator[JsonObject]:
    """Hand out every object of a file; raises ``Unreadable``."""
    envelope = _envelope(file, data)
    if isinstance(envelope, list):
        for index, item in enumerate(envelope):
            yield JsonObject((index,), _whole(file, data, item))
    elif envelope is not None and envelope.items:
        header = {"apiVersion": envelope.apiVersion, "kind": envelope.kind}
        for index, item in enumerate(envelope.items):
            yield JsonObject(("items", index), _whole(file, data, item), header)
    else:
        yield JsonObject((), _whole(file, data, data))


def _envelope(file: str, data: bytes) -> _Envelope | list[msgspec.Raw] | None:
    kind = {b"{": _Envelope, b"[": list[msgspec.Raw]}.get(data[:4096].lstrip()[:1])
    if kind is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return None  # An object whose items are no list.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(file, data, error) from None


def _whole(file: str, data: bytes, part: bytes | msgspec.Raw) -> Any:
    size = memoryview(part).nbytes
    if size > LARGEST_OBJECT:
        raise Unreadable(
            Mistake(file, 1, "", f"holds one object of {size >> 20} MiB; none is that large")
        )
    try:
        return msgspec.json.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(file, data, error) from None


def _unreadable(file: str, data: bytes, error: Exception) -> Unreadable:
    if isinstance(error, RecursionError):
        return Unreadable(Mistake(file, 1, "", "is nested too deeply"))
    problem = str(error)
    found = _BYTE.search(problem)
    offset = int(found[1]) if found else len(data)
    problem = _BYTE.sub("", problem).removeprefix("JSON is malformed: ")
    if "trailing" in problem:
        problem += "; several objects belong in a List, or in files of their own"
    if "truncated" in problem:
        offset, problem = len(data.rstrip()), "it ends too early"
    return Unreadable(Mistake(file, line_at(data, offset), "", f"is no valid JSON: {problem}"))


def is_one_after_another(data: bytes) -> bool:
    """Recognise the output of several ``kubectl get -o json`` in one file."""
    return _NEXT_OBJECT.search(data) is not None and b"\n---" not in data


def twins(data: bytes) -> list[str]:
    """Return the keys that some object of a smaller file gives twice."""
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found.append(key)
            seen.add(key)

    if len(data) <= CHECKED_FOR_TWINS:
        with suppress(ValueError, RecursionError):
            json.loads(data, object_pairs_hook=check)
    return sorted(set(found))


class JsonPlaces:
    """Finds the line of a path, reading only the containers on the way."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._children: dict[Path, dict[str | int, tuple[int, int]]] = {}

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the innermost thing around it."""
        start, end = 0, len(self._data)
        for depth, step in enumerate(path):
            inside = self._inside(path[:depth], start, end)
            if step not in inside:
                break
            start, end = inside[step]
        first = self._data[start:end].lstrip()
        return line_at(self._data, end - len(first) if first else start)

    def _inside(self, path: Path, start: int, end: int) -> dict[str | int, tuple[int, int]]:
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
