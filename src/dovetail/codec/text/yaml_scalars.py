"""What an unquoted word in YAML stands for, as Kubernetes' own reader takes it."""

import re
from functools import lru_cache
from math import isfinite

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
_LONGEST_NUMBER = 40


@lru_cache(maxsize=65536)
def plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar; whatever is nothing else is text.

    Dates stay text, as they do in Kubernetes; so do base-60 numbers.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    return number if isfinite(number) else text  # As in 00000e1234, the hash of a template.


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits[0] == "0" and len(digits) > 1 and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def reads_as_text(text: str) -> bool:
    """Tell whether ``text`` may be written without quotes and stay text."""
    return isinstance(plain(text), str)
