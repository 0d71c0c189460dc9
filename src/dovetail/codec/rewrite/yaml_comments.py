"""YAML with comments above the fields that they speak of."""

import textwrap
from collections.abc import Iterable
from typing import Any

import yaml

from dovetail.codec.conversion.converted_object import Remark
from dovetail.codec.rewrite.round_trip import Document, to_yaml
from dovetail.codec.text.field_path import Path

WIDTH = 96


def with_comments(raw: dict[str, Any], remarks: Iterable[Remark]) -> str:
    """Write an object as YAML; a remark on a field that is gone goes to what held it."""
    text = to_yaml([Document(raw, None)])
    lines: dict[Path, int] = {(): 0}
    _note_lines(yaml.compose(text, Loader=yaml.CSafeLoader), (), lines)
    above: dict[int, list[str]] = {}
    for path, sentence in remarks:
        above.setdefault(_line_of(path, lines), []).append(sentence)
    written: list[str] = []
    for number, line in enumerate(text.split("\n")):
        indent = line[: len(line) - len(line.lstrip())]
        for sentence in dict.fromkeys(above.get(number, ())):
            written.extend(_comment(sentence, indent))
        written.append(line)
    return "\n".join(written)


def _line_of(path: Path, lines: dict[Path, int]) -> int:
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _note_lines(node: yaml.Node | None, path: Path, lines: dict[Path, int]) -> None:
    """Note the line of every key and of every entry of a list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            lines[inner] = key.start_mark.line
            _note_lines(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            inner = (*path, at)
            lines[inner] = value.start_mark.line
            _note_lines(value, inner, lines)


def _comment(sentence: str, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence,
        WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
