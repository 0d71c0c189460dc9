"""References between resources: written into text, resolved when the values are known.

A wanted resource is plain JSON data. Where it needs something that another
resource only has once it exists (an id, an ARN), the text holds
``@{kind/name:attribute}``; a dictionary's key may hold one as well (an IAM
condition on a cluster's issuer does). ``@{aws:account}``, ``@{aws:region}``
and the like say in whose account all of it is.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

OPENING: Final = "@{"
"""No user's value may hold this; the reader of cluster.yaml refuses it."""
AWS: Final = "aws"
"""Stands for the account and region: ``@{aws:account}``; attributes are AWS_ATTRIBUTES."""
AWS_ATTRIBUTES: Final = ("account", "region", "partition", "dns-suffix")

_PATTERN: Final = re.compile(r"@\{([^}]+):([a-z0-9-]+)\}")


class Reference(msgspec.Struct, frozen=True, order=True):
    """An attribute of another resource (``address`` is "kind/name", or "aws")."""

    address: str
    attribute: str

    def __str__(self) -> str:
        return f"{OPENING}{self.address}:{self.attribute}}}"


class Unresolved(LookupError):
    """A reference to something that does not exist yet."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        super().__init__(str(reference))


def ref(address: str, attribute: str) -> str:
    """Return text that stands for an attribute of another resource."""
    return str(Reference(address, attribute))


def aws(attribute: str) -> str:
    """Return text that stands for a fact about the account: see AWS_ATTRIBUTES."""
    return ref(AWS, attribute)


def references(value: Any) -> Iterator[Reference]:
    """Hand out every reference in a value, keys included, in order of appearance."""
    if isinstance(value, str):
        if OPENING in value:
            for address, attribute in _PATTERN.findall(value):
                yield Reference(address, attribute)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from references(key)
            yield from references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from references(inner)


def parts(text: str) -> list[str | Reference]:
    """Cut text into what is literal and what refers to something."""
    found: list[str | Reference] = []
    end = 0
    for match in _PATTERN.finditer(text):
        if match.start() > end:
            found.append(text[end : match.start()])
        found.append(Reference(match[1], match[2]))
        end = match.end()
    if end < len(text):
        found.append(text[end:])
    return found


def resolved(value: Any, look_up: Callable[[Reference], Any]) -> Any:
    """Return ``value`` with every reference replaced by what ``look_up`` says.

    Text that is nothing but one reference becomes whatever the attribute is (a
    list of subnet ids, say); in the midst of text it must be text itself.
    ``look_up`` raises ``Unresolved`` for what does not exist.
    """
    if isinstance(value, str):
        return _resolved_text(value, look_up)
    if isinstance(value, Mapping):
        return {
            _resolved_text(key, look_up): resolved(inner, look_up) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [resolved(inner, look_up) for inner in value]
    return value


def _resolved_text(text: str, look_up: Callable[[Reference], Any]) -> Any:
    if OPENING not in text:
        return text
    pieces = parts(text)
    if len(pieces) == 1 and isinstance(pieces[0], Reference):
        return look_up(pieces[0])
    return "".join(one if isinstance(one, str) else str(look_up(one)) for one in pieces)
