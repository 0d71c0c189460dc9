"""The tables of fields against a client library made from Kubernetes' own description."""

import re
from typing import Any

import kubernetes.client
import pytest

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.simulator.rest.schema.tables import Field, fields_in_json, tables

_TYPES = {
    "str": "str",
    "int": "int",
    "int32": "int",
    "bool": "bool",
    "float": "float",
    "bytes": "bytes",
    "quantity": "str",
    "intstr": "object",
    "time": "datetime",
    "microtime": "datetime",
    "strings": "List[str]",
    "fields": "object",
    "any": "object",
}


def model_of(resource: Resource, name: str) -> Any:
    for prefix in (resource.version.upper(), "V1", "CoreV1"):
        found = getattr(kubernetes.client, f"{prefix}{name}", None)
        if found is not None:
            return found
    return None


def type_of(field: Field) -> str:
    one = _TYPES.get(field.kind, field.kind)
    if field.is_list:
        return f"List[{one}]"
    return f"Dict[str, {one}]" if field.is_map else one


def bare(written: str) -> str:
    """Return a type without the versions that the library gives its classes."""
    # What is still alpha is not looked into.
    written = re.sub(r"V1alpha\d\w+", "object", written)
    return re.sub(r"(Core)?V[12](?=[A-Z])", "", written)


def without_root(fields: dict[str, str]) -> dict[str, str]:
    return {key: one for key, one in fields.items() if key not in ("apiVersion", "kind")}


def inside(name: str, seen: set[str]) -> set[str]:
    """Return a kind and every object in it."""
    if name in tables() and name not in seen:
        seen.add(name)
        for field in fields_in_json(name).values():
            inside(field.kind, seen)
    return seen


@pytest.mark.parametrize(
    "resource", [one for one in RESOURCES if not one.custom], ids=lambda one: one.plural
)
def test_a_kind_has_the_fields_and_types_that_kubernetes_gives_it(resource: Resource) -> None:
    for name in inside(resource.kind, set()):
        model = model_of(resource, name)
        if model is None:
            continue
        theirs = {
            model.attribute_map[key]: bare(written) for key, written in model.openapi_types.items()
        }
        ours = {key: type_of(field) for key, field in fields_in_json(name).items()}

        assert without_root(ours) == without_root(theirs), name


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.plural)
def test_every_kind_has_fields_and_every_field_a_type(resource: Resource) -> None:
    for name in inside(resource.kind, set()):
        for field in fields_in_json(name).values():
            assert field.kind in tables() or field.kind in _TYPES
