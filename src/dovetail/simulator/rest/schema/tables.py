"""The fields of every kind that is served, and their types."""

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

_TABLES: Final = ("kubernetes.txt", "karpenter.txt")


class Field(msgspec.Struct, frozen=True):
    """A field as the tables have it.

    ``kind`` is the name of another object's fields or one of ``str``, ``int``,
    ``int32``, ``bool``, ``float``, ``bytes``, ``quantity``, ``intstr``, ``time``,
    ``microtime``, ``strings``, ``fields`` and ``any``.
    """

    name: str
    """Empty for a part that protobuf keeps in an object of its own and JSON does not."""
    number: int
    """The field's number in protobuf; 0 without."""
    kind: str
    is_list: bool = False
    is_map: bool = False


@cache
def tables() -> dict[str, tuple[Field, ...]]:
    """Return the fields of every kind and of every object inside one, by its name."""
    found: dict[str, tuple[Field, ...]] = {}
    for table in _TABLES:
        name = ""
        for line in files(__package__).joinpath(table).read_text().splitlines():
            if line.startswith("#"):
                continue
            if not line.startswith(" "):
                name = line
                found[name] = ()
            else:
                found[name] += tuple(_field(one) for one in line.split())
    return found


@cache
def fields_in_json(name: str) -> dict[str, Field]:
    """Return the fields that an object has in JSON, by their names."""
    found: dict[str, Field] = {}
    for one in tables()[name]:
        found |= {one.name: one} if one.name else fields_in_json(one.kind)
    return found


def _field(text: str) -> Field:
    key, _, kind = text.rpartition(":")
    name, _, number = key.partition("=")
    return Field(
        name,
        int(number or 0),
        kind.strip("[]{}"),
        is_list=kind.startswith("["),
        is_map=kind.startswith("{"),
    )
