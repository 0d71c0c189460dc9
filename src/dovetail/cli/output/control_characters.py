"""Control characters of names and messages, which a terminal would obey.

Messages of conditions and Events, and all of a dump, may be written by others.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

_REPLACEMENT: Final = "?"
_LAYOUT: Final = "\n\t"
_BIDIRECTIONAL: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Embeddings, overrides and isolates: they change the order in which the rest is shown."""
_TABLE: Final = {
    code: _REPLACEMENT
    for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDIRECTIONAL)
    if chr(code) not in _LAYOUT
}


def replace_control_characters(text: str) -> str:
    """Return a text of the same length with ``?`` for all but newlines and tabs."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)


def clean_text(text: "Text") -> "Text":
    """Replace the control characters of a styled text, and return it."""
    cleaned = replace_control_characters(text.plain)
    if cleaned != text.plain:
        text.plain = cleaned
    return text
