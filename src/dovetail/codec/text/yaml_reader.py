"""YAML reader: yields objects one by one, in bounded time and memory.

It consumes libyaml events instead of PyYAML's loader. That is several times
faster, yields a List item by item, and enforces limits (depth, aliases, size)
during parsing.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import isfinite
from typing import Any

import msgspec
import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from dovetail.codec.text.field_path import FieldPath, format_path
from dovetail.errors import ValidationError

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
"""Values in one object; etcd limits objects to 1.5 MB, so no real object comes near."""
MAX_ERRORS = 100

_STRING_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary", "!")
_KNOWN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

Scalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{spelt: True for word in ("true", "yes", "on") for spelt in (word, word.title())},
    **{spelt: False for word in ("false", "no", "off") for spelt in (word, word.title())},
    **dict.fromkeys(("TRUE", "YES", "ON"), True),
    **dict.fromkeys(("FALSE", "NO", "OFF"), False),
}
_INTEGER = re.compile(r"[-+]?(0b[01]+|0o?[0-7]+|0x[0-9a-fA-F]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_MAX_NUMBER_LENGTH = 40


class ParsedObject(msgspec.Struct):
    """A value in the position of an object: a document, or an item of a List."""

    document: int
    path: FieldPath
    """Empty for a document, ``("items", n)`` for an item."""
    value: Any
    list_header: dict[str, Any] | None = None
    """For an item without ``kind``: the other fields of its List."""


class ParseError(Exception):
    """The file cannot be parsed further; carries the validation error."""

    def __init__(self, error: ValidationError) -> None:
        self.error = error
        super().__init__(str(error))


class YamlReader:
    """Reads one file once; ``errors`` collects errors that do not stop parsing."""

    def __init__(self, file: str, data: bytes, located_paths: Collection[FieldPath] = ()) -> None:
        """Create a reader; lines of ``located_paths`` (document, *path) are recorded."""
        self.errors: list[ValidationError] = []
        self.lines: dict[FieldPath, int] = {}
        self.has_aliases = False
        """True once an alias was read; its value may be much larger in another format."""
        self._file = file
        self._data = data
        self._parser = CParser(data)
        self._prefixes = {path[:end] for path in located_paths for end in range(1, len(path) + 1)}
        self._path: list[str | int] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._depth = 0

    def read_objects(self) -> Iterator[ParsedObject]:
        """Yield every document, Lists item by item; raises ``ParseError``."""
        with self._parse_errors():
            yield from self._documents()

    def read_document(self) -> Any:
        """Return the value of the only document, None without one; raises ``ParseError``."""
        with self._parse_errors():
            while not isinstance(event := self._parser.get_event(), yaml.DocumentStartEvent):
                if isinstance(event, yaml.StreamEndEvent):
                    return None
            self._path = [0]
            value = self._value(self._parser.get_event())
            self._parser.get_event()  # The end of the document.
            event = self._parser.get_event()
            if not isinstance(event, yaml.StreamEndEvent):
                raise self._parse_error(event, "has more than one document")
            return value

    @contextmanager
    def _parse_errors(self) -> Iterator[None]:
        try:
            yield
        except yaml.YAMLError as error:
            raise ParseError(self._syntax_error(error)) from None
        except RecursionError:
            raise ParseError(ValidationError(self._file, 0, "", "is nested too deeply")) from None

    def _documents(self) -> Iterator[ParsedObject]:
        number = -1
        while True:
            event = self._parser.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                self._anchors.clear()
                self._path = [number]
                yield from self._document(number)

    def _document(self, number: int) -> Iterator[ParsedObject]:
        event = self._parser.get_event()
        self._count = 0
        self._record_line(event)
        if isinstance(event, yaml.SequenceStartEvent):
            raise self._parse_error(event, "is a list; a manifest contains objects, separated by '---'")
        if not isinstance(event, yaml.MappingStartEvent):
            yield ParsedObject(number, (), self._value(event))
            return
        value: dict[str, Any] = {}
        without_kind: list[ParsedObject] = []
        has_items, some = False, False
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            key = self._key(event, value)
            event = self._parser.get_event()
            self._path.append(key)
            self._record_line(event)
            if key == "items" and isinstance(event, yaml.SequenceStartEvent):
                has_items = True
                for item in self._items(number):
                    some = True
                    if isinstance(item.value, dict) and "kind" not in item.value:
                        without_kind.append(item)
                    else:
                        yield item
            else:
                self._set_default(value, key, self._value(event))
            self._path.pop()
        for item in without_kind:
            item.list_header = value
            yield item
        if not some:
            yield ParsedObject(number, (), {**value, "items": []} if has_items else value)

    def _items(self, number: int) -> Iterator[ParsedObject]:
        index = 0
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            self._count = 0
            self._path.append(index)
            self._record_line(event)
            yield ParsedObject(number, ("items", index), self._value(event))
            self._path.pop()
            index += 1

    def _value(self, event: Any) -> Any:
        """Return the value that starts with ``event``."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._parse_error(event, f"has more than {MAX_VALUES:,} values in one object")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._count
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._nested(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._count - before + 1)
        return value

    def _nested(self, event: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._parse_error(event, f"is nested more than {MAX_DEPTH} levels deep")
        if event.tag not in (None, *_COLLECTION_TAGS):
            self._add_error(event, f"the tag {event.tag!r} is not supported in a manifest")
        mapping = isinstance(event, yaml.MappingStartEvent)
        value: Any = self._mapping() if mapping else self._sequence()
        self._depth -= 1
        return value

    def _mapping(self) -> dict[str, Any]:
        value: dict[str, Any] = {}
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            key = self._key(event, value)
            event = self._parser.get_event()
            self._path.append(key)
            if self._prefixes:
                self._record_line(event)
            self._set_default(value, key, self._value(event))
            self._path.pop()
        merged = value.pop("<<", None)
        return value if merged is None else self._apply_merge_key(value, merged)

    def _sequence(self) -> list[Any]:
        value: list[Any] = []
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            self._path.append(len(value))
            if self._prefixes:
                self._record_line(event)
            value.append(self._value(event))
            self._path.pop()
        return value

    def _set_default(self, mapping: dict[str, Any], key: str, value: Any) -> None:
        if key not in mapping:  # Duplicate keys are already reported; the first value stays.
            mapping[key] = value

    def _key(self, event: Any, mapping: dict[str, Any]) -> str:
        if isinstance(event, yaml.AliasEvent):
            key = self._alias(event)
            text = key if isinstance(key, str) else str(key)
        elif isinstance(event, yaml.ScalarEvent):
            text = event.value
            if event.anchor is not None:
                self._anchors[event.anchor] = (text, 1)
        else:
            hint = _hint(self._line(event.start_mark.line))
            raise self._parse_error(event, f"a key must be text, not a list or a map{hint}")
        if text in mapping:
            self._path.append(text)
            self._add_error(event, f"duplicate key {text!r}")
            self._path.pop()
        return text

    def _apply_merge_key(self, own: dict[str, Any], merged: Any) -> dict[str, Any]:
        """Apply the YAML merge key; keys of the map override merged keys."""
        value: dict[str, Any] = {}
        for source in reversed(merged if isinstance(merged, list) else [merged]):
            if isinstance(source, dict):
                value.update(source)
        value.update(own)
        return value

    def _scalar(self, event: Any) -> Any:
        if event.tag is None:
            return parse_scalar(event.value) if event.implicit[0] else event.value
        if event.tag in _KNOWN_TAGS:
            return parse_scalar(event.value)
        if event.tag not in _STRING_TAGS:
            self._add_error(event, f"the tag {event.tag!r} is not supported in a manifest")
        return event.value

    def _alias(self, event: Any) -> Any:
        self.has_aliases = True
        if event.anchor not in self._anchors:
            raise self._parse_error(event, f"the alias *{event.anchor} is used before its anchor")
        value, weight = self._anchors[event.anchor]
        self._count += weight
        if self._count > MAX_VALUES:
            raise self._parse_error(event, f"its aliases expand to more than {MAX_VALUES:,} values")
        return value

    def _record_line(self, event: Any) -> None:
        path = tuple(self._path)
        if path in self._prefixes:
            self.lines.setdefault(path, event.start_mark.line + 1)

    def _add_error(self, event: Any, message: str) -> None:
        self.errors.append(self._error_at(event, message))
        if len(self.errors) >= MAX_ERRORS:
            raise self._parse_error(event, "has too many errors")

    def _parse_error(self, event: Any, message: str) -> ParseError:
        return ParseError(self._error_at(event, message))

    def _error_at(self, event: Any, message: str) -> ValidationError:
        field = format_path(tuple(self._path[1:8]))
        return ValidationError(self._file, event.start_mark.line + 1, field, message)

    def _syntax_error(self, error: yaml.YAMLError) -> ValidationError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        line = mark.line if mark is not None else 0
        hint = _hint(self._line(line)) or _hint(self._line(line - 1))
        return ValidationError(self._file, line + 1, "", f"is not valid YAML: {problem}{hint}")

    def _line(self, number: int) -> str:
        start = 0
        for _ in range(max(0, number)):
            start = self._data.find(b"\n", start) + 1
        end = self._data.find(b"\n", start)
        return self._data[start : end if end >= 0 else None][:500].decode(errors="replace")


def _hint(line: str) -> str:
    """Return the likely cause of a syntax error in a line."""
    if "{{" in line:
        return "; it looks like a template: render it first, as with 'helm template'"
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return "; YAML is indented with spaces, never with tabs"
    if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
        return "; it looks like an unresolved merge conflict"
    return ""


@lru_cache(maxsize=65536)
def parse_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar; a string if it is nothing else.

    Dates and base-60 numbers stay strings, as in Kubernetes.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_NUMBER_LENGTH or text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return _parse_integer(text)
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    return number if isfinite(number) else text  # 00000e1234 can be a template hash.


def _parse_integer(text: str) -> int:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits[0] == "0" and len(digits) > 1 and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def parses_as_string(text: str) -> bool:
    """Return True if ``text`` is still a string when written without quotes."""
    return isinstance(parse_scalar(text), str)
