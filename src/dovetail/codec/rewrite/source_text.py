"""The text of one document of a YAML file, as its author wrote it."""

from itertools import pairwise
from typing import Any

import yaml

from dovetail.codec.text.encoding import as_utf8
from dovetail.errors import Mistake


def document_texts(file: str, data: bytes) -> list[str]:
    """Return the documents of a YAML file that parses, comments and all.

    They are counted as a reader counts them; what stands above the first one
    belongs to it. A file of JSON has none.
    """
    utf8 = as_utf8(file, data)
    if isinstance(utf8, Mistake) or utf8[:4096].lstrip()[:1] in (b"{", b"["):
        return []
    text = utf8.decode()
    marks: list[Any] = [
        event.start_mark
        for event in yaml.parse(text, Loader=yaml.CSafeLoader)
        if isinstance(event, yaml.DocumentStartEvent)
    ]
    lines = text.replace("\r\n", "\n").split("\n")
    bounds = [0, *(mark.line for mark in marks[1:]), len(lines)]
    return [_without_marks(lines[start:end]) for start, end in pairwise(bounds)]


def _without_marks(lines: list[str]) -> str:
    kept = [line for line in lines if line.rstrip() not in ("---", "...")]
    return "\n".join(kept).strip("\n") + "\n"
