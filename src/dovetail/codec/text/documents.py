"""Files to raw objects, and from a place inside an object to its line."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dovetail.codec.text import json_reader
from dovetail.codec.text.encoding import as_utf8
from dovetail.codec.text.field_path import Path, show
from dovetail.codec.text.json_reader import JsonPlaces
from dovetail.codec.text.yaml_reader import Unreadable, YamlReader
from dovetail.errors import Mistake


class RawObject(msgspec.Struct, frozen=True):
    """One object as it stands in a file, nothing understood yet."""

    file: str
    document: int
    """Which document of a YAML file."""
    path: Path
    """The way to it in its document: empty, or into a List."""
    value: dict[str, Any]


class Misplaced(msgspec.Struct, frozen=True):
    """A mistake whose line is not known yet."""

    file: str
    document: int
    path: Path
    message: str


class Files:
    """Reads files, and finds lines only for what turns out to be wrong."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._yaml: dict[str, bytes] = {}
        self._json: dict[str, bytes] = {}
        self._with_lists: set[str] = set()

    def objects(self, file: str, data: bytes) -> Iterator[RawObject]:
        """Hand out the objects of a file; what cannot be read lands in ``mistakes``."""
        text = as_utf8(file, data)
        if isinstance(text, Mistake):
            self.mistakes.append(text)
            return
        anything = False
        for raw in self._parsed(file, text):
            anything = True
            yield raw
        empty_list = file in self._with_lists  # What kubectl answers when there is nothing.
        if not (anything or empty_list or any(one.file == file for one in self.mistakes)):
            self.mistakes.append(Mistake(file, 0, "", "holds no objects"))

    def _parsed(self, file: str, text: bytes) -> Iterator[RawObject]:
        if text[:4096].lstrip()[:1] not in (b"{", b"["):
            yield from self._from_yaml(file, text)
            return
        anything = False
        try:
            for raw in self._from_json(file, text):
                anything = True
                yield raw
            return
        except Unreadable as error:
            # A map in braces is good YAML too: unquoted keys, comments.
            surely_json = (
                file.endswith(".json")
                or len(text) > json_reader.CHECKED_FOR_TWINS
                or json_reader.is_one_after_another(text)
            )
            if anything or surely_json:
                self.mistakes.append(error.mistake)
                return
        yield from self._from_yaml(file, text)

    def _from_json(self, file: str, text: bytes) -> Iterator[RawObject]:
        self._json[file] = text
        for one in json_reader.objects(file, text):
            yield from self._unpacked(file, 0, one.path, one.value, one.list_header)
        for key in json_reader.twins(text):
            spelt = f'"{key}"'.encode()
            again = text.find(spelt, text.find(spelt) + 1)
            line = text.count(b"\n", 0, again) + 1
            self.mistakes.append(Mistake(file, line, key, f"the key {key!r} is there twice"))

    def _from_yaml(self, file: str, text: bytes) -> Iterator[RawObject]:
        self._json.pop(file, None)
        self._yaml[file] = text
        reader = YamlReader(file, text)
        try:
            for one in reader.objects():
                yield from self._unpacked(file, one.document, one.path, one.value, one.list_header)
        except Unreadable as error:
            reader.mistakes.append(error.mistake)
        self.mistakes.extend(reader.mistakes)

    def _unpacked(
        self, file: str, document: int, path: Path, value: Any, header: dict[str, Any] | None
    ) -> Iterator[RawObject]:
        """Open Lists inside Lists; give items the kind that a typed List implies."""
        if value is None:
            return  # An empty document, as between two '---'.
        if not isinstance(value, dict):
            place = Misplaced(file, document, path, "is no object: a map with kind and apiVersion")
            self.mistakes.extend(self.placed([place]))
            return
        items = value.get("items")
        if isinstance(items, list) and str(value.get("kind", "List")).endswith("List"):
            self._with_lists.add(file)
            inner = {key: value.get(key) for key in ("apiVersion", "kind")}
            for index, item in enumerate(items):
                deeper = (*path, "items", index)
                yield from self._unpacked(file, document, deeper, item, inner)
            return
        if header is not None and "kind" not in value:
            value = _with_implied_kind(value, header)
        yield RawObject(file, document, path, value)

    def placed(self, mistakes: Iterable[Misplaced]) -> list[Mistake]:
        """Find the lines, in the order given; reads each YAML file once more."""
        all_of_them = list(mistakes)
        by_file: dict[str, list[int]] = {}
        for number, one in enumerate(all_of_them):
            by_file.setdefault(one.file, []).append(number)
        lines = [0] * len(all_of_them)
        for file, numbers in by_file.items():
            found = self._lines(file, [all_of_them[number] for number in numbers])
            for number, line in zip(numbers, found, strict=True):
                lines[number] = line
        return [
            Mistake(one.file, line, show(one.path), one.message)
            for one, line in zip(all_of_them, lines, strict=True)
        ]

    def _lines(self, file: str, ones: list[Misplaced]) -> list[int]:
        if file in self._json:
            places = JsonPlaces(self._json[file])
            return [places.line(one.path) for one in ones]
        wanted: list[Path] = [(one.document, *one.path) for one in ones]
        reader = YamlReader(file, self._yaml.get(file, b""), wanted)
        last = max(path[0] for path in wanted)
        try:
            for thing in reader.objects():
                if isinstance(last, int) and thing.document > last:
                    break
        except Unreadable:
            pass  # Reported when it was read the first time.
        return [_innermost(reader.lines, path) for path in wanted]


def _innermost(lines: dict[Path, int], path: Path) -> int:
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0


def _with_implied_kind(value: dict[str, Any], header: dict[str, Any]) -> dict[str, Any]:
    kind = header.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or kind == "List":
        return value
    return {"apiVersion": header.get("apiVersion"), "kind": kind.removesuffix("List"), **value}
