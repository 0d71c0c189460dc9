"""YAML and JSON writers; comments can be added above YAML fields."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.yaml_reader import parses_as_string

_COMMENT_WIDTH: Final = 96
"""Characters, with indentation."""


def to_yaml(objects: Iterable[dict[str, Any]]) -> str:
    """Encode objects as YAML documents; the order of objects and keys is kept."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def to_json(objects: Sequence[dict[str, Any]]) -> str:
    """Encode objects as JSON: one object, or a List of several."""
    whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def to_yaml_with_comments(raw: dict[str, Any], notes: Iterable[tuple[FieldPath, str]]) -> str:
    """Encode an object as YAML; a note on a missing field goes to its nearest parent."""
    text = to_yaml([raw])
    lines: dict[FieldPath, int] = {(): 0}
    _record_lines(yaml.compose(text, Loader=yaml.CSafeLoader), (), lines)
    above: dict[int, list[str]] = {}
    for path, sentence in notes:
        above.setdefault(_line_of(path, lines), []).append(sentence)
    written: list[str] = []
    for number, line in enumerate(text.split("\n")):
        indent = line[: len(line) - len(line.lstrip())]
        for sentence in dict.fromkeys(above.get(number, ())):
            written.extend(_comment(sentence, indent))
        written.append(line)
    return "\n".join(written)


def _line_of(path: FieldPath, lines: dict[FieldPath, int]) -> int:
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _record_lines(node: yaml.Node | None, path: FieldPath, lines: dict[FieldPath, int]) -> None:
    """Record the line of every key and list item."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            lines[inner] = key.start_mark.line
            _record_lines(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            inner = (*path, at)
            lines[inner] = value.start_mark.line
            _record_lines(value, inner, lines)


def _comment(sentence: str, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence,
        _COMMENT_WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


class _Dumper(yaml.CSafeDumper):
    """Quotes strings such as ``1e3`` and ``on`` that Kubernetes would parse as values."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_string(dumper: Any, text: str) -> Any:
    style = None if parses_as_string(text) else "'"
    if "\n" in text:
        style = "|"  # Keeps scripts readable; libyaml falls back to quotes if it must.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_string)
