"""References between resources: part of the text, resolved once values are known.

A desired resource is plain JSON data. A value that another resource only has
once it exists (an id, an ARN) is written ``@{kind/name:attribute}``. Keys of a
map can hold references too: an IAM condition on a cluster's issuer does.
``@{aws:account}``, ``@{aws:region}`` and the like stand for the AWS account.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

REFERENCE_START: Final = "@{"
"""No value of the user can contain this; ``load_config`` rejects it."""
AWS: Final = "aws"
"""Address of the account and region: ``@{aws:account}``; see AWS_ATTRIBUTES."""
AWS_ATTRIBUTES: Final = ("account", "region", "partition", "dns-suffix")

_PATTERN: Final = re.compile(r"@\{([^}]+):([a-z0-9-]+)\}")


class Reference(msgspec.Struct, frozen=True, order=True):
    """An attribute of another resource; ``address`` is "kind/name" or "aws"."""

    address: str
    attribute: str

    def __str__(self) -> str:
        return f"{REFERENCE_START}{self.address}:{self.attribute}}}"


class UnresolvedReferenceError(LookupError):
    """A reference to a value that does not exist yet."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        super().__init__(str(reference))


Lookup = Callable[[Reference], Any]
"""Returns the value of a reference; raises ``UnresolvedReferenceError``."""


def ref(address: str, attribute: str) -> str:
    """Return a reference to an attribute of another resource, as text."""
    return str(Reference(address, attribute))


def aws_ref(attribute: str) -> str:
    """Return a reference to an attribute of the account; see AWS_ATTRIBUTES."""
    return ref(AWS, attribute)


def find_references(value: Any) -> Iterator[Reference]:
    """Yield every reference in a value, keys included, in order of appearance."""
    if isinstance(value, str):
        if REFERENCE_START in value:
            for address, attribute in _PATTERN.findall(value):
                yield Reference(address, attribute)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from find_references(key)
            yield from find_references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from find_references(inner)


def split_references(text: str) -> list[str | Reference]:
    """Split text into literal parts and references."""
    parts: list[str | Reference] = []
    end = 0
    for match in _PATTERN.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        parts.append(Reference(match[1], match[2]))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return parts


def resolve_references(value: Any, lookup: Lookup) -> Any:
    """Return ``value`` with every reference replaced by its value.

    Text that is a single reference becomes the attribute itself, of any type (a
    list of subnet ids, for example). Within longer text it is converted to text.
    """
    if isinstance(value, str):
        return _resolve_text(value, lookup)
    if isinstance(value, Mapping):
        return {_resolve_text(key, lookup): resolve_references(inner, lookup) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolve_references(inner, lookup) for inner in value]
    return value


def _resolve_text(text: str, lookup: Lookup) -> Any:
    if REFERENCE_START not in text:
        return text
    parts = split_references(text)
    if len(parts) == 1 and isinstance(parts[0], Reference):
        return lookup(parts[0])
    return "".join(part if isinstance(part, str) else str(lookup(part)) for part in parts)
