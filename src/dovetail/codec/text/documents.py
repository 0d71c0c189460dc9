"""Reader of manifest files: raw objects, and line numbers of their fields."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dovetail.codec.text import json_reader
from dovetail.codec.text.encoding import to_utf8
from dovetail.codec.text.field_path import FieldPath, format_path
from dovetail.codec.text.json_reader import JsonLocator
from dovetail.codec.text.yaml_reader import ParsedObject, ParseError, YamlReader
from dovetail.errors import ValidationError


class RawObject(msgspec.Struct, frozen=True):
    """One object of a file, before decoding."""

    file: str
    document: int
    """Index of the YAML document in the file."""
    path: FieldPath
    """Path in the document: empty, or the path of an item of a List."""
    value: dict[str, Any]

    def error_at(self, path: FieldPath, message: str) -> "FieldError":
        """Return an error for a path in the object."""
        return FieldError(self.file, self.document, self.path + path, message)


class FieldError(msgspec.Struct, frozen=True):
    """A validation error by field path; its line is not known yet."""

    file: str
    document: int
    path: FieldPath
    message: str


class ManifestReader:
    """Reads objects of files; finds line numbers only for errors."""

    def __init__(self) -> None:
        self.errors: list[ValidationError] = []
        self.listed_kinds: set[str] = set()
        """Kinds with a typed List, such as PodDisruptionBudgetList, which may be empty."""
        self._yaml: dict[str, bytes] = {}
        self._json: dict[str, bytes] = {}
        self._with_lists: set[str] = set()

    def read_objects(self, file: str, data: bytes) -> Iterator[RawObject]:
        """Yield the objects of a file; parse errors go to ``errors``."""
        text = to_utf8(file, data)
        if isinstance(text, ValidationError):
            self.errors.append(text)
            return
        has_objects = False
        for raw in self._parse(file, text):
            has_objects = True
            yield raw
        empty_list = file in self._with_lists  # Output of kubectl if there are no objects.
        if not (has_objects or empty_list or any(error.file == file for error in self.errors)):
            self.errors.append(ValidationError(file, 0, "", "contains no objects"))

    def _parse(self, file: str, text: bytes) -> Iterator[RawObject]:
        if text[:4096].lstrip()[:1] not in (b"{", b"["):
            yield from self._parse_yaml(file, text)
            return
        has_objects = False
        try:
            for raw in self._parse_json(file, text):
                has_objects = True
                yield raw
            return
        except ParseError as error:
            # A map in braces is also valid YAML, with unquoted keys and comments.
            surely_json = (
                file.endswith(".json")
                or len(text) > json_reader.MAX_DUPLICATE_CHECK_BYTES
                or json_reader.is_concatenated(text)
            )
            if has_objects or surely_json:
                self.errors.append(error.error)
                return
        yield from self._parse_yaml(file, text)

    def _parse_json(self, file: str, text: bytes) -> Iterator[RawObject]:
        self._json[file] = text
        for item in json_reader.read_objects(file, text):
            yield from self._unpack(file, item)
        for key in json_reader.find_duplicate_keys(text):
            spelt = f'"{key}"'.encode()
            second = text.find(spelt, text.find(spelt) + 1)
            line = text.count(b"\n", 0, second) + 1
            self.errors.append(ValidationError(file, line, key, f"duplicate key {key!r}"))

    def _parse_yaml(self, file: str, text: bytes) -> Iterator[RawObject]:
        self._json.pop(file, None)
        self._yaml[file] = text
        reader = YamlReader(file, text)
        try:
            for item in reader.read_objects():
                yield from self._unpack(file, item)
        except ParseError as error:
            reader.errors.append(error.error)
        self.errors.extend(reader.errors)

    def _unpack(self, file: str, parsed: ParsedObject) -> Iterator[RawObject]:
        """Flatten nested Lists; items of a typed List get its item kind."""
        value = parsed.value
        if value is None:
            return  # An empty document between two '---'.
        if not isinstance(value, dict):
            message = "is not an object: a map with kind and apiVersion"
            self.errors.extend(self.locate([FieldError(file, parsed.document, parsed.path, message)]))
            return
        items = value.get("items")
        if isinstance(items, list) and str(value.get("kind", "List")).endswith("List"):
            self._with_lists.add(file)
            self.listed_kinds.add(str(value.get("kind", "List")).removesuffix("List"))
            header = {key: value.get(key) for key in ("apiVersion", "kind")}
            for index, item in enumerate(items):
                path = (*parsed.path, "items", index)
                yield from self._unpack(file, ParsedObject(parsed.document, path, item, header))
            return
        if parsed.list_header is not None and "kind" not in value:
            value = _with_implied_kind(value, parsed.list_header)
        yield RawObject(file, parsed.document, parsed.path, value)

    def locate(self, errors: Iterable[FieldError]) -> list[ValidationError]:
        """Return errors with line numbers, in the same order.

        Parses each YAML file with errors a second time.
        """
        pending = list(errors)
        by_file: dict[str, list[int]] = {}
        for number, error in enumerate(pending):
            by_file.setdefault(error.file, []).append(number)
        lines = [0] * len(pending)
        for file, numbers in by_file.items():
            located = self._find_lines(file, [pending[number] for number in numbers])
            for number, line in zip(numbers, located, strict=True):
                lines[number] = line
        return [
            ValidationError(error.file, line, format_path(error.path), error.message)
            for error, line in zip(pending, lines, strict=True)
        ]

    def _find_lines(self, file: str, errors: list[FieldError]) -> list[int]:
        if file in self._json:
            locator = JsonLocator(self._json[file])
            return [locator.line(error.path) for error in errors]
        paths: list[FieldPath] = [(error.document, *error.path) for error in errors]
        reader = YamlReader(file, self._yaml.get(file, b""), paths)
        last = max(path[0] for path in paths)
        try:
            for item in reader.read_objects():
                if isinstance(last, int) and item.document > last:
                    break
        except ParseError:
            pass  # Already reported by the first pass.
        return [_innermost_line(reader.lines, path) for path in paths]


def _innermost_line(lines: dict[FieldPath, int], path: FieldPath) -> int:
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0


def _with_implied_kind(value: dict[str, Any], header: dict[str, Any]) -> dict[str, Any]:
    kind = header.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or kind == "List":
        return value
    return {"apiVersion": header.get("apiVersion"), "kind": kind.removesuffix("List"), **value}
