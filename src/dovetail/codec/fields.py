"""Reading an object field by field, noting every mistake with its place."""

from collections.abc import Iterable, Iterator
from typing import Any

from dovetail.codec.text.field_path import Path
from dovetail.codec.text.suggestions import did_you_mean, nearest
from dovetail.model.frozen import EMPTY, FrozenDict

MOST_FINDINGS = 50
"""Of one object; who has fifty mistakes in one object does not read the fifty-first."""


class Findings:
    """What is wrong with one object, and what decoders share while reading many."""

    def __init__(
        self,
        *,
        written_by_hand: bool = True,
        by_the_letter: bool = False,
        pool: dict[Any, Any] | None = None,
    ) -> None:
        """Start with none; in files written by hand misspelt fields count as mistakes.

        ``by_the_letter``, only what the API itself refuses is a mistake, not
        what is surely a slip although the API would take it.
        """
        self.written_by_hand = written_by_hand
        self.by_the_letter = by_the_letter
        self.found: list[tuple[Path, str]] = []
        self._pool: dict[Any, Any] = {} if pool is None else pool

    def add(self, path: Path, message: str) -> None:
        # A field may be looked at twice, as containers are for requests and for ports.
        if len(self.found) < MOST_FINDINGS and (path, message) not in self.found:
            self.found.append((path, message))

    def shared(self, value: Any) -> Any:
        """Return the first equal value seen, so that equal ones are stored once."""
        return self._pool.setdefault(value, value)

    def remembered(self, key: Any) -> Any:
        return self._pool.get(key)

    def remember(self, key: Any, value: Any) -> None:
        self._pool[key] = value


class Field:
    """A value in an object, with the way to it; absent and null are the same."""

    __slots__ = ("findings", "key", "parent", "value")

    def __init__(
        self,
        value: Any,
        findings: Findings,
        parent: "Field | None" = None,
        key: str | int = "",
    ) -> None:
        self.value = value
        self.findings = findings
        self.parent = parent
        self.key = key

    def __bool__(self) -> bool:
        """Tell whether the field is there and not null."""
        return self.value is not None

    def __getitem__(self, key: str) -> "Field":
        value = self.value
        inner = value.get(key) if isinstance(value, dict) else None
        return Field(inner, self.findings, self, key)

    def at(self, *keys: str) -> "Field":
        """Go several steps down."""
        field = self
        for key in keys:
            field = field[key]
        return field

    @property
    def path(self) -> Path:
        steps: list[str | int] = []
        field: Field | None = self
        while field is not None and field.parent is not None:
            steps.append(field.key)
            field = field.parent
        return tuple(reversed(steps))

    def mistake(self, message: str) -> None:
        self.findings.add(self.path, message)

    def required(self) -> bool:
        """Note a mistake when the field is missing."""
        if self.value is None or self.value == "":
            self.mistake("is missing")
            return False
        return True

    def items(self) -> list["Field"]:
        """Return the entries of a list."""
        value = self.value
        if value is None:
            return []
        if not isinstance(value, list):
            self.mistake(f"must be a list, not {_shape(value)}")
            return []
        findings = self.findings
        return [Field(one, findings, self, index) for index, one in enumerate(value)]

    def at_most(self, count: int) -> None:
        """Note a mistake when a list or map has more entries than that."""
        if isinstance(self.value, list | dict) and len(self.value) > count:
            self.mistake(f"has {len(self.value)} entries; at most {count} are allowed")

    def mapping(self) -> dict[str, Any]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.mistake(f"must be a map, not {_shape(self.value)}")
            return {}
        return self.value

    def entries(self) -> Iterator["Field"]:
        """Hand out the values of a map."""
        for key in self.mapping():
            yield self[key]

    def text(self, default: str = "") -> str:
        value = self.value
        if type(value) is str:
            return value
        if value is None:
            return default
        if isinstance(value, float):  # How it was spelt is not known any more: 1e3, 1000.0, …
            self.mistake(f"must be text, not the number {value}; put it in quotes")
        elif isinstance(value, bool):
            spelt = _shape(value)
            others = '"yes" or "on"' if value else '"no" or "off"'
            self.mistake(f'must be text, not {spelt}; put it in quotes: "{spelt}", {others}')
        elif isinstance(value, int):
            self.mistake(f'must be text, not {_shape(value)}; put it in quotes: "{value}"')
        else:
            self.mistake(f"must be text, not {_shape(value)}")
        return default

    def text_of(self, key: str) -> str:
        """Read the text of an inner field, as ``self[key].text()`` does but faster.

        Watches bring thousands of objects a second, and most of their fields are
        texts that are right or not there.
        """
        if isinstance(self.value, dict):
            value = self.value.get(key)
            if type(value) is str:
                return value
            if value is None:
                return ""
        return self[key].text()

    def says(self, key: str) -> bool:
        """Tell whether an inner field is there and neither null nor empty."""
        return isinstance(self.value, dict) and bool(self.value.get(key))

    def texts(self) -> tuple[str, ...]:
        if self.value is None:
            return ()
        return tuple(field.text() for field in self.items())

    def labels(self) -> FrozenDict[str, str]:
        """Read a map of text to text."""
        if not self.value:
            return EMPTY
        mapping = self.mapping()
        if all(type(value) is str for value in mapping.values()):
            shared: FrozenDict[str, str] = self.findings.shared(FrozenDict(mapping))
            return shared
        return FrozenDict({key: self[key].text() for key in mapping})

    def boolean(self, default: bool = False) -> bool:
        if type(self.value) is bool:
            return self.value
        if self.value is not None:
            self.mistake(f"must be true or false, not {_shape(self.value)}")
        return default

    def whole(self, *, low: int | None = None, high: int | None = None) -> int | None:
        """Read a whole number within bounds; None when it is missing or wrong."""
        value = self.value
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            self.mistake(f"must be a whole number, not {_shape(self.value)}")
            return None
        if low is not None and value < low:
            self.mistake(f"is {value}, but must be at least {low}")
            return None
        if high is not None and value > high:
            self.mistake(f"is {value}, but must be at most {high}")
            return None
        return value

    def choice(self, known: Iterable[str], default: str, what: str) -> str:
        """Read one of a few words; ``what`` names them in the sentence.

        A word that a live cluster has taken although we do not know it, because
        its API is newer, counts as the default.
        """
        word = self.text(default)
        choices = list(known)
        if word not in choices:
            if not self.findings.written_by_hand:
                return default
            self.mistake(f"{word!r} is no {what}{did_you_mean(word, choices)}")
            return default
        return word

    def known_keys(self, known: Iterable[str]) -> None:
        """Note fields that look misspelt; those that look like nothing survive."""
        if not self.findings.written_by_hand:
            return
        names = set(known)
        for key in self.mapping():
            if key in names:
                continue
            free = names - self.value.keys()
            guess = nearest(key, free, likeness=0.8) or _shortened(key, free)
            # systemReservedCgroup is another field than systemReserved, not a misspelling of it.
            longer = guess is not None and key.startswith(guess) and len(key) > len(guess) + 2
            if guess is not None and not longer:
                self[key].mistake(f"no such field; did you mean {guess!r}?")


def _shortened(word: str, known: set[str]) -> str | None:
    """Return the one known word that starts with this one."""
    found = [one for one in known if len(word) >= 6 and one.startswith(word)]
    return found[0] if len(found) == 1 else None


def _shape(value: Any) -> str:
    """Name a wrong value shortly."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    spelt = repr(value) if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        spelt = spelt.lower()
    return spelt if len(spelt) <= 60 else spelt[:57] + "..."
