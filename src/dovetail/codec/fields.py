"""Typed access to the fields of a wire object, with an error path for each.

Decoders walk an object through ``Field``. A wrong value adds an error to the
shared ``DecodeContext`` and yields a default, so that one pass finds all errors::

    context = DecodeContext()
    pool = decode_nodepool(Field(obj, context))
    for path, message in context.errors: ...
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import nearest_match, suggest
from dovetail.model.frozen import EMPTY, FrozenDict

T = TypeVar("T")
MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MAX_ERRORS = 50
"""Maximum number of errors reported for one object."""


class DecodeCache(Protocol):
    """Equal parts of many objects; a ``dict`` keeps them for ever."""

    def get(self, key: Any, /) -> Any: ...
    def setdefault(self, key: Any, value: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...


class BoundedCache(dict[Any, Any]):
    """DecodeCache that is emptied when it is full.

    For objects that come and go, such as DaemonSet pods: the spec of each names its node.
    """

    def __init__(self, max_entries: int = 2000) -> None:
        super().__init__()
        self._max_entries = max_entries

    def __setitem__(self, key: Any, value: Any, /) -> None:
        if len(self) >= self._max_entries:
            self.clear()
        super().__setitem__(key, value)

    def setdefault(self, key: Any, value: Any = None, /) -> Any:
        if key not in self:
            self[key] = value
        return self[key]


class DecodeContext:
    """Errors of one object, decoding mode, and a cache shared by many objects."""

    def __init__(
        self,
        *,
        strict: bool = True,
        api_rules_only: bool = False,
        kubelet_expressions: bool = True,
        typos_are_notes: bool = False,
        cache: DecodeCache | None = None,
    ) -> None:
        """Create a context without errors.

        With ``strict``, unknown fields and values are errors: for files written by
        users. Objects of a live cluster are not strict, as the API server may have
        accepted fields of a newer version. With ``api_rules_only``, only what the
        API server rejects is an error, not values that are probably mistyped. Without
        ``kubelet_expressions`` (feature gate NodeClassCEL), they are errors in files.
        With ``typos_are_notes``, values that are probably mistyped are notes.
        """
        self.strict = strict
        self.kubelet_expressions = kubelet_expressions
        self.api_rules_only = api_rules_only
        self.typos_are_notes = typos_are_notes
        self.errors: list[tuple[FieldPath, str]] = []
        self.notes: list[tuple[FieldPath, str]] = []
        """Values that the API server accepts and that no node has."""
        self._cache: DecodeCache = {} if cache is None else cache
        self._texts: dict[str, str] = {}
        """Texts of this object that may occur many times."""

    def add_error(self, path: FieldPath, message: str) -> None:
        # Some fields are decoded twice: containers for requests and again for ports.
        if len(self.errors) < MAX_ERRORS and (path, message) not in self.errors:
            self.errors.append((path, message))

    def add_note(self, path: FieldPath, message: str) -> None:
        if len(self.notes) < MAX_ERRORS and (path, message) not in self.notes:
            self.notes.append((path, message))

    def intern(self, value: Any) -> Any:
        """Return the cached value that equals ``value``, so that equal values share memory."""
        return self._cache.setdefault(value, value)

    def share_text(self, text: str) -> str:
        """Return the equal text that this object has already, if any.

        Parsers of JSON create equal texts again and again: a pod may have 80,000 values
        of labels, a few hundred of them different.
        """
        return self._texts.setdefault(text, text)

    def decode_cached(self, key: Any, decode: Callable[[], T]) -> T:
        """Return the cached value of a key, else decode it; not with errors or notes.

        The key contains all that decoding reads. None: do not use the cache.
        """
        try:
            value: T | None = None if key is None else self._cache.get(key)
        except TypeError:  # Unhashable: a list or map in place of an amount.
            return decode()
        if value is None:
            before = len(self.errors) + len(self.notes)
            value = decode()
            if key is not None and len(self.errors) + len(self.notes) == before:
                self._cache[key] = value
        return value


class Field:
    """A value with its path in the object; absent and null are the same."""

    __slots__ = ("context", "key", "parent", "value")

    def __init__(
        self, value: Any, context: DecodeContext, parent: "Field | None" = None, key: str | int = ""
    ) -> None:
        self.value = value
        self.context = context
        self.parent = parent
        self.key = key

    def __bool__(self) -> bool:
        """Return True if the field is present and not null."""
        return self.value is not None

    def __getitem__(self, key: str) -> "Field":
        value = self.value
        inner = value.get(key) if isinstance(value, dict) else None
        return Field(inner, self.context, self, key)

    def at(self, *keys: str) -> "Field":
        """Return the field at a path of keys."""
        field = self
        for key in keys:
            field = field[key]
        return field

    @property
    def path(self) -> FieldPath:
        steps: list[str | int] = []
        field: Field | None = self
        while field is not None and field.parent is not None:
            steps.append(field.key)
            field = field.parent
        return tuple(reversed(steps))

    def add_error(self, message: str) -> None:
        self.context.add_error(self.path, message)

    def check_required(self) -> bool:
        """Add an error if the field is missing or empty; return True if it is not."""
        if self.value is None or self.value == "":
            self.add_error("is missing")
            return False
        return True

    def items(self) -> list["Field"]:
        """Return the items of a list."""
        value = self.value
        if value is None:
            return []
        if not isinstance(value, list):
            self.add_error(f"must be a list, not {describe_value(value)}")
            return []
        return [Field(item, self.context, self, index) for index, item in enumerate(value)]

    def check_length(self, limit: int) -> None:
        """Add an error if a list or map has more than ``limit`` entries."""
        if isinstance(self.value, list | dict) and len(self.value) > limit:
            self.add_error(f"has {len(self.value)} entries; at most {limit} are allowed")

    def check_text_length(self, limit: int) -> None:
        """Add an error if a text has more than ``limit`` characters."""
        if isinstance(self.value, str) and len(self.value) > limit:
            self.add_error(f"has {len(self.value)} characters; at most {limit} are allowed")

    def mapping(self) -> dict[str, Any]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.add_error(f"must be a map, not {describe_value(self.value)}")
            return {}
        return self.value

    def entries(self) -> Iterator["Field"]:
        """Yield the values of a map as fields."""
        for key in self.mapping():
            yield self[key]

    def text(self, default: str = "") -> str:
        value = self.value
        if type(value) is str:
            return value
        if value is None:
            return default
        if isinstance(value, float):  # The original spelling (1e3, 1000.0 …) is lost.
            self.add_error(f"must be text, not the number {value}; put it in quotes")
        elif isinstance(value, bool):
            spelt = describe_value(value)
            others = '"yes" or "on"' if value else '"no" or "off"'
            self.add_error(f'must be text, not {spelt}; put it in quotes: "{spelt}", {others}')
        elif isinstance(value, int):
            self.add_error(f'must be text, not {describe_value(value)}; put it in quotes: "{value}"')
        else:
            self.add_error(f"must be text, not {describe_value(value)}")
        return default

    def text_of(self, key: str) -> str:
        """Return the text of an inner field, like ``self[key].text()`` but faster.

        Watches deliver thousands of objects per second, and most of their fields
        are valid strings or absent.
        """
        if isinstance(self.value, dict):
            value = self.value.get(key)
            if type(value) is str:
                return value
            if value is None:
                return ""
        return self[key].text()

    def has_value(self, key: str) -> bool:
        """Return True if an inner field is present and neither null nor empty."""
        return isinstance(self.value, dict) and bool(self.value.get(key))

    def texts(self) -> tuple[str, ...]:
        if self.value is None:
            return ()
        return tuple(field.text() for field in self.items())

    def labels(self) -> FrozenDict[str, str]:
        """Return a map of strings to strings."""
        if self.value is None:
            return EMPTY
        mapping = self.mapping()
        if not mapping:
            return EMPTY
        if all(type(value) is str for value in mapping.values()):
            shared: FrozenDict[str, str] = self.context.intern(FrozenDict(mapping))
            return shared
        return FrozenDict({key: self[key].text() for key in mapping})

    def boolean(self, default: bool = False) -> bool:
        if type(self.value) is bool:
            return self.value
        if self.value is not None:
            self.add_error(f"must be true or false, not {describe_value(self.value)}")
        return default

    def integer(self, *, low: int | None = None, high: int | None = None) -> int | None:
        """Return an integer within bounds; None if it is missing or invalid."""
        value = self.value
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            self.add_error(f"must be a whole number, not {describe_value(self.value)}")
            return None
        if low is not None and value < low:
            self.add_error(f"is {value}, but must be at least {low}")
            return None
        if high is not None and value > high:
            self.add_error(f"is {value}, but must be at most {high}")
            return None
        return value

    def choice(self, known: Iterable[str], default: str, description: str) -> str:
        """Return one of the ``known`` values; ``description`` names them in the error.

        An unknown value in an object of a live cluster reads as the default: its
        API may be newer.
        """
        word = self.text(default)
        choices = list(known)
        if word not in choices:
            if not self.context.strict:
                return default
            self.add_error(f"{word!r} is not a valid {description}{suggest(word, choices)}")
            return default
        return word

    def check_known_keys(self, known: Iterable[str]) -> None:
        """Add an error for each key that looks like a misspelled known key."""
        if not self.context.strict:
            return
        mapping, names = self.mapping(), set(known)
        unused = {name for name in names if name not in mapping}
        for key in mapping:
            if key in names:
                continue
            match = nearest_match(key, unused, cutoff=0.8) or _complete_prefix(key, unused)
            # systemReservedCgroup is another field than systemReserved, not a misspelling of it.
            is_longer = match is not None and key.startswith(match) and len(key) > len(match) + 2
            if match is not None and not is_longer:
                self[key].add_error(f"no such field; did you mean {match!r}?")


def drop_empty(encoded: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an encoded object that are neither null nor empty."""
    return {name: value for name, value in encoded.items() if value not in ("", None, [], {}, ())}


def _complete_prefix(word: str, known: set[str]) -> str | None:
    """Return the only known word that starts with ``word``, or None."""
    matches = [name for name in known if len(word) >= 6 and name.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def describe_value(value: Any) -> str:
    """Return a short description of an invalid value."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    spelt = repr(value) if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        spelt = spelt.lower()
    return spelt if len(spelt) <= 60 else spelt[:57] + "..."
