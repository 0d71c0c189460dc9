"""Writing TOML, which the standard library only reads."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, time
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: Mapping[str, Any]) -> str:
    """Write a document, as ``tomllib`` reads it; keys are sorted, tables come last."""
    return "\n".join(_lines(document, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: one for key, one in table.items() if not isinstance(one, Mapping)}
    if path and (plain or not table):
        yield f"[{'.'.join(_key(one) for one in path)}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    if path and (plain or not table):
        yield ""
    for key in sorted(table.keys() - plain.keys()):
        yield from _lines(table[key], (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, Mapping):
        inner = (f"{_key(key)} = {_value(one)}" for key, one in sorted(value.items()))
        return f"{{{', '.join(inner)}}}"
    return _text(str(value))


def _text(text: str) -> str:
    # JSON escapes are TOML escapes, once 0x7f, which JSON leaves alone, is one as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
