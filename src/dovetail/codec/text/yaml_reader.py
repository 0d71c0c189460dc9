"""YAML text to plain values, object by object, in bounded time and memory.

Works on libyaml's events instead of PyYAML's loader: several times faster, a
List of any length is handed out item by item, and every excess (depth,
aliases, size) is noticed while it happens.
"""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from dovetail.codec.text.field_path import Path, show
from dovetail.codec.text.yaml_scalars import plain
from dovetail.errors import Mistake

DEEPEST = 200
MOST_VALUES = 1_000_000
"""Values in one object; etcd holds 1.5 MB an object, so no real one comes near."""
MOST_MISTAKES = 100

_STRING_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary", "!")
_KNOWN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class YamlObject(msgspec.Struct):
    """A value that stands where an object may: a document, or an item of its List."""

    document: int
    path: Path
    """Empty for a whole document, else ``("items", n)``."""
    value: Any
    list_header: dict[str, Any] | None = None
    """For an item without a kind of its own: the rest of the List it is in."""


class Unreadable(Exception):
    """Reading cannot go on; carries the mistake."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake
        super().__init__(str(mistake))


class YamlReader:
    """Reads one file once; ``mistakes`` holds what was wrong but could be passed over."""

    def __init__(self, file: str, data: bytes, wanted: Collection[Path] = ()) -> None:
        """Prepare to read; ``wanted`` are (document, *path) whose lines to note."""
        self.mistakes: list[Mistake] = []
        self.lines: dict[Path, int] = {}
        self._file = file
        self._data = data
        self._parser = CParser(data)
        self._prefixes = {path[:end] for path in wanted for end in range(1, len(path) + 1)}
        self._path: list[str | int] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._depth = 0

    def objects(self) -> Iterator[YamlObject]:
        """Hand out every document, Lists item by item; raises ``Unreadable``."""
        try:
            yield from self._documents()
        except yaml.YAMLError as error:
            raise Unreadable(self._syntax(error)) from None
        except RecursionError:
            raise Unreadable(Mistake(self._file, 0, "", "is nested too deeply")) from None

    def _documents(self) -> Iterator[YamlObject]:
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

    def _document(self, number: int) -> Iterator[YamlObject]:
        event = self._parser.get_event()
        self._count = 0
        self._note(event)
        if isinstance(event, yaml.SequenceStartEvent):
            raise self._stop(event, "is a list; a manifest holds objects, with '---' between")
        if not isinstance(event, yaml.MappingStartEvent):
            yield YamlObject(number, (), self._value(event))
            return
        value: dict[str, Any] = {}
        without_kind: list[YamlObject] = []
        has_items, some = False, False
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            key = self._key(event, value)
            event = self._parser.get_event()
            self._path.append(key)
            self._note(event)
            if key == "items" and isinstance(event, yaml.SequenceStartEvent):
                has_items = True
                for item in self._items(number):
                    some = True
                    if isinstance(item.value, dict) and "kind" not in item.value:
                        without_kind.append(item)
                    else:
                        yield item
            else:
                self._put(value, key, self._value(event))
            self._path.pop()
        for item in without_kind:
            item.list_header = value
            yield item
        if not some:
            yield YamlObject(number, (), {**value, "items": []} if has_items else value)

    def _items(self, number: int) -> Iterator[YamlObject]:
        index = 0
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            self._count = 0
            self._path.append(index)
            self._note(event)
            yield YamlObject(number, ("items", index), self._value(event))
            self._path.pop()
            index += 1

    def _value(self, event: Any) -> Any:
        """Build the value that starts with ``event``."""
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._stop(event, f"holds more than {MOST_VALUES:,} values in one object")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._count
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._nested(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._count - before + 1)
        return value

    def _nested(self, event: Any) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._stop(event, f"is nested more than {DEEPEST} levels deep")
        if event.tag not in (None, *_COLLECTION_TAGS):
            self._complain(event, f"the tag {event.tag!r} means nothing in a manifest")
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
                self._note(event)
            self._put(value, key, self._value(event))
            self._path.pop()
        merged = value.pop("<<", None)
        return value if merged is None else self._merged(value, merged)

    def _sequence(self) -> list[Any]:
        value: list[Any] = []
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            self._path.append(len(value))
            if self._prefixes:
                self._note(event)
            value.append(self._value(event))
            self._path.pop()
        return value

    def _put(self, mapping: dict[str, Any], key: str, value: Any) -> None:
        if key not in mapping:  # The first of two equal keys stays; it was reported.
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
            raise self._stop(event, f"a key must be text, not a list or a map{hint}")
        if text in mapping:
            self._path.append(text)
            self._complain(event, f"the key {text!r} is there twice")
            self._path.pop()
        return text

    def _merged(self, own: dict[str, Any], merged: Any) -> dict[str, Any]:
        """Apply YAML's merge key: what stands here wins over what is merged in."""
        value: dict[str, Any] = {}
        for one in reversed(merged if isinstance(merged, list) else [merged]):
            if isinstance(one, dict):
                value.update(one)
        value.update(own)
        return value

    def _scalar(self, event: Any) -> Any:
        if event.tag is None:
            return plain(event.value) if event.implicit[0] else event.value
        if event.tag in _KNOWN_TAGS:
            return plain(event.value)
        if event.tag not in _STRING_TAGS:
            self._complain(event, f"the tag {event.tag!r} means nothing in a manifest")
        return event.value

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise self._stop(event, f"the alias *{event.anchor} stands before its anchor")
        value, weight = self._anchors[event.anchor]
        self._count += weight
        if self._count > MOST_VALUES:
            raise self._stop(event, f"its aliases stand for more than {MOST_VALUES:,} values")
        return value

    def _note(self, event: Any) -> None:
        path = tuple(self._path)
        if path in self._prefixes:
            self.lines.setdefault(path, event.start_mark.line + 1)

    def _complain(self, event: Any, message: str) -> None:
        self.mistakes.append(self._mistake(event, message))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise self._stop(event, "has too many mistakes to go on")

    def _stop(self, event: Any, message: str) -> Unreadable:
        return Unreadable(self._mistake(event, message))

    def _mistake(self, event: Any, message: str) -> Mistake:
        field = show(tuple(self._path[1:8]))
        return Mistake(self._file, event.start_mark.line + 1, field, message)

    def _syntax(self, error: yaml.YAMLError) -> Mistake:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        line = mark.line if mark is not None else 0
        hint = _hint(self._line(line)) or _hint(self._line(line - 1))
        return Mistake(self._file, line + 1, "", f"is no valid YAML: {problem}{hint}")

    def _line(self, number: int) -> str:
        start = 0
        for _ in range(max(0, number)):
            start = self._data.find(b"\n", start) + 1
        end = self._data.find(b"\n", start)
        return self._data[start : end if end >= 0 else None][:500].decode(errors="replace")


def _hint(line: str) -> str:
    """Say what usually is behind a line that does not parse."""
    if "{{" in line:
        return "; it looks like a template: render it first, as with 'helm template'"
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return "; YAML is indented with spaces, never with tabs"
    if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
        return "; it looks like a merge conflict that was left behind"
    return ""
