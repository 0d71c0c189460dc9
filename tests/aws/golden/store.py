"""The committed facts: JSON in which values that repeat are stored once.

One line per shared value and one per case.
``python -m tests.aws.golden.store`` writes the file from the recordings.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.aws.golden.cases import Case
from tests.aws.golden.facts import read_recordings
from tests.aws.golden.normal_form import Facts

FACTS = Path(__file__).with_name("facts.json")
_REFERENCE, _ADDED, _REMOVED = "$", "+", "-"
_MIN_SIZE = 40
"""Smaller values are repeated, not shared."""


def encode_facts(cases: Mapping[str, tuple[Case, Facts]]) -> bytes:
    """Return the file: ``{"shared": [...], "cases": {...}}``."""
    plain = {
        name: {"case": msgspec.to_builtins(case), **facts} for name, (case, facts) in sorted(cases.items())
    }
    encoder = _Encoder(plain)
    entries = [_encode(name) + b": " + _encode(encoder.encode(entry)) for name, entry in plain.items()]
    lines = b",\n".join(_encode(value) for value in encoder.shared)
    return b'{"shared": [\n' + lines + b'\n], "cases": {\n' + b",\n".join(entries) + b"\n}}\n"


def read_facts(content: bytes) -> dict[str, tuple[Case, Facts]]:
    """Return case name → input and facts."""
    stored = msgspec.json.decode(content)
    shared: list[Any] = []
    for value in stored["shared"]:
        shared.append(_resolve(value, shared))
    cases: dict[str, tuple[Case, Facts]] = {}
    for name, entry in stored["cases"].items():
        facts = _resolve(entry, shared)
        cases[name] = (msgspec.convert(facts.pop("case"), Case), facts)
    return cases


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


class _Encoder:
    """Replaces values that repeat by references, ``{"$": number}``.

    A mapping that is like a shared one of the same field refers to that one, with
    what it has in addition or otherwise (``+``) and what it lacks (``-``).
    """

    def __init__(self, root: Any) -> None:
        self.shared: list[Any] = []
        self._numbers: dict[bytes, int] = {}
        self._bases: dict[str, list[int]] = {}
        """Field → shared mappings that it had as value."""
        self._counts: Counter[bytes] = Counter()
        self._count(root)

    def _count(self, value: Any) -> None:
        """Count containers; the parts of one that was counted before are not counted again."""
        if not isinstance(value, dict | list):
            return
        encoded = _encode(value)
        self._counts[encoded] += 1
        if self._counts[encoded] == 1:
            for entry in value.values() if isinstance(value, dict) else value:
                self._count(entry)

    def encode(self, value: Any, field: str = "") -> Any:
        if not isinstance(value, dict | list):
            return value
        encoded = _encode(value)
        if encoded in self._numbers:
            return {_REFERENCE: self._numbers[encoded]}
        if isinstance(value, list):
            parts: Any = [self.encode(entry, f"{field}[]") for entry in value]
        else:
            parts = self._as_change({key: self.encode(entry, key) for key, entry in value.items()}, field)
        is_base = isinstance(value, dict) and field not in self._bases
        if len(encoded) < _MIN_SIZE or (self._counts[encoded] == 1 and not is_base):
            return parts
        number = self._numbers[encoded] = len(self.shared)
        self.shared.append(parts)
        if isinstance(value, dict) and _REFERENCE not in parts:
            self._bases.setdefault(field, []).append(number)
        return {_REFERENCE: number}

    def _as_change(self, parts: dict[str, Any], field: str) -> dict[str, Any]:
        """Return the shortest of the mapping itself and a change of a shared one."""
        forms = [parts]
        for number in self._bases.get(field, ()):
            base = self.shared[number]
            changed = {key: entry for key, entry in parts.items() if key not in base or base[key] != entry}
            missing = sorted(base.keys() - parts.keys())
            form = {_REFERENCE: number, _ADDED: changed, _REMOVED: missing}
            forms.append({key: entry for key, entry in form.items() if entry or key == _REFERENCE})
        return min(forms, key=lambda form: len(_encode(form)))


def _resolve(value: Any, shared: list[Any]) -> Any:
    if isinstance(value, dict):
        if _REFERENCE in value:
            added, removed = value.get(_ADDED), value.get(_REMOVED, ())
            base = shared[value[_REFERENCE]]
            if added is None and not removed:
                return base
            kept = {key: entry for key, entry in base.items() if key not in removed}
            return kept | _resolve(added or {}, shared)
        return {key: _resolve(entry, shared) for key, entry in value.items()}
    return [_resolve(entry, shared) for entry in value] if isinstance(value, list) else value


if __name__ == "__main__":
    FACTS.write_bytes(encode_facts(read_recordings()))
