"""The field types, compared with the kubernetes client library (from OpenAPI)."""

import re
from typing import Any

import kubernetes.client
import pytest

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.simulator.rest.schema.fields import Field, json_fields, types_by_name

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

_CORE = "Core"
"""Prefix of types of the core group whose name another group has, too."""


def model_of(resource: Resource, name: str) -> Any:
    if name.startswith(_CORE):
        return getattr(kubernetes.client, f"CoreV1{name.removeprefix(_CORE)}")
    for prefix in (resource.version.upper(), "V1", "DiscoveryV1", "RbacV1", "CoreV1"):
        model = getattr(kubernetes.client, f"{prefix}{name}", None)
        if model is not None:
            return model
    return None


def type_of(field: Field) -> str:
    type_name = _TYPES.get(field.type, field.type.removeprefix(_CORE))
    if field.is_list:
        return f"List[{type_name}]"
    return f"Dict[str, {type_name}]" if field.is_map else type_name


def bare(written: str) -> str:
    """Return a type without the version prefixes of the library's classes."""
    # Alpha types are not compared.
    written = re.sub(r"V1alpha\d\w+", "object", written)
    # The schema in a CustomResourceDefinition is stored as it is.
    written = written.replace("V1JSONSchemaProps", "object")
    return re.sub(
        r"(Admissionregistration|Apiextensions|Core|Discovery|Rbac)?V[12](?=[A-Z])|(Discovery|Rbac)(?=[A-Z])",
        "",
        written,
    )


def without_root(fields: dict[str, str]) -> dict[str, str]:
    return {key: field_type for key, field_type in fields.items() if key not in ("apiVersion", "kind")}


def inside(name: str, seen: set[str]) -> set[str]:
    """Return the names of a kind and of all types in it."""
    if name in types_by_name() and name not in seen:
        seen.add(name)
        for field in json_fields(name).values():
            inside(field.type, seen)
    return seen


@pytest.mark.parametrize(
    "resource",
    [resource for resource in RESOURCES if not resource.is_custom],
    ids=lambda resource: resource.plural,
)
def test_a_kind_has_the_fields_and_types_of_kubernetes(resource: Resource) -> None:
    for name in inside(resource.kind, set()):
        model = model_of(resource, name)
        if model is None:
            continue
        theirs = {model.attribute_map[key]: bare(written) for key, written in model.openapi_types.items()}
        ours = {key: type_of(field) for key, field in json_fields(name).items()}

        assert without_root(ours) == without_root(theirs), name


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
def test_every_kind_has_fields_and_every_field_a_type(resource: Resource) -> None:
    for name in inside(resource.kind, set()):
        for field in json_fields(name).values():
            assert field.type in types_by_name() or field.type in _TYPES


def test_types_of_custom_resources_come_from_their_crds() -> None:
    spec = json_fields("NodePool.spec")
    budget = json_fields("NodePool.spec.disruption.budgets")
    claim_status = json_fields("NodeClaim.status")

    assert spec["limits"] == Field("limits", 0, "quantity", is_map=True)
    assert spec["weight"] == Field("weight", 0, "int32")
    assert budget["reasons"] == Field("reasons", 0, "str", is_list=True)
    assert claim_status["lastPodEventTime"] == Field("lastPodEventTime", 0, "time")
