"""Fields and types of all served kinds.

Kubernetes' types come from ``kubernetes.txt``, with their protobuf numbers. The types
of custom resources come from the schemas of their CRDs.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from dovetail.codec.crds.definitions import DEFINITIONS

_KUBERNETES_TYPES: Final = "kubernetes.txt"


class Field(msgspec.Struct, frozen=True):
    """A field of a type.

    ``type`` is the name of another type or one of the scalars ``str``, ``int``,
    ``int32``, ``bool``, ``float``, ``bytes``, ``quantity``, ``intstr``, ``time``,
    ``microtime``, ``strings``, ``fields`` and ``any``.
    """

    name: str
    """Empty for a field that is embedded: an object in protobuf, inlined in JSON."""
    number: int
    """Protobuf field number; 0 for custom resources, which have no protobuf form."""
    type: str
    is_list: bool = False
    is_map: bool = False


Types = dict[str, tuple[Field, ...]]


@cache
def types_by_name() -> Types:
    """Return the fields of all kinds and of the objects in them, by name of the type."""
    types: Types = {}
    name = ""
    for line in files(__package__).joinpath(_KUBERNETES_TYPES).read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line
            types[name] = ()
        else:
            types[name] += tuple(_parse_field(text) for text in line.split())
    for crd in DEFINITIONS:
        types[crd.kind] = (
            Field("metadata", 0, "ObjectMeta"),
            _schema_field("spec", crd.spec, f"{crd.kind}.spec", types),
            _schema_field("status", crd.status, f"{crd.kind}.status", types),
        )
    return types


def type_name(api_version: str, kind: str) -> str:
    """Return the name of a kind's type; only autoscaling/v1 is not the stored version."""
    if (api_version, kind) == ("autoscaling/v1", "HorizontalPodAutoscaler"):
        return "HorizontalPodAutoscalerV1"
    return kind


@cache
def json_fields(name: str) -> dict[str, Field]:
    """Return the fields of a type in JSON, by name."""
    fields: dict[str, Field] = {}
    for field in types_by_name()[name]:
        fields |= {field.name: field} if field.name else json_fields(field.type)
    return fields


def _parse_field(text: str) -> Field:
    """Parse ``name=number:type``; ``[type]`` is a list, ``{type}`` a map."""
    key, _, field_type = text.rpartition(":")
    name, _, number = key.partition("=")
    return Field(
        name,
        int(number or 0),
        field_type.strip("[]{}"),
        is_list=field_type.startswith("["),
        is_map=field_type.startswith("{"),
    )


def _schema_field(name: str, schema: dict[str, Any], path: str, types: Types) -> Field:
    """Return the field of a CRD schema, and add the types of nested objects to ``types``."""
    if schema.get("type") == "array":
        return Field(name, 0, _schema_type(schema["items"], path, types), is_list=True)
    if "additionalProperties" in schema:
        value_type = _schema_type(schema["additionalProperties"], path, types)
        return Field(name, 0, value_type, is_map=True)
    return Field(name, 0, _schema_type(schema, path, types))


def _schema_type(schema: dict[str, Any], path: str, types: Types) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        # All int-or-string fields of Karpenter's CRDs are quantities.
        return "quantity"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return "any"
    if "properties" in schema:
        types[path] = tuple(_object_fields(schema, path, types))
        return path
    return _SCALARS.get((schema.get("type"), schema.get("format")), "any")


def _object_fields(schema: dict[str, Any], path: str, types: Types) -> Iterator[Field]:
    for name, field in schema["properties"].items():
        yield _schema_field(name, field, f"{path}.{name}", types)


_SCALARS: Final[dict[tuple[str | None, str | None], str]] = {
    ("string", None): "str",
    ("string", "date-time"): "time",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int",
    ("boolean", None): "bool",
    ("number", None): "float",
}
"""By type and format of the schema."""
