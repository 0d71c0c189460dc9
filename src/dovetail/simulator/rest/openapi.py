"""OpenAPI documents: what kubectl needs of them before it writes anything.

kubectl looks for two parameters of a kind's PATCH: ``fieldValidation`` (the
server checks fields, so kubectl need not) and ``dryRun``. Strategic merge is
left out of the media types on purpose: kubectl then computes such patches
from the types it has built in, which know more than these schemas do.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.simulator.rest.schema.tables import Field, fields_in_json, tables

_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRING: Final = {"type": "string"}
_SCALARS: Final[Mapping[str, Mapping[str, Any]]] = {
    "str": _STRING,
    "int": {"type": "integer", "format": "int64"},
    "int32": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "quantity": _STRING,
    "intstr": {"type": "string", "format": "int-or-string"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "strings": {"type": "array", "items": _STRING},
    "fields": {"type": "object"},
    "any": {"type": "object"},
}
V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def paths() -> dict[str, Any]:
    """Answer ``/openapi/v3``: where the document of each group and version is."""
    versions = dict.fromkeys(_place(one) for one in RESOURCES)
    return {"paths": {one: {"serverRelativeURL": f"/openapi/v3/{one}"} for one in versions}}


@cache
def document(place: str) -> dict[str, Any] | None:
    """Answer ``/openapi/v3/api/v1`` and ``/openapi/v3/apis/GROUP/VERSION``."""
    served = [one for one in RESOURCES if _place(one) == place]
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "dovetail sandbox", "version": "v1"},
        "paths": {_path(one): _operations(one) for one in served},
        "components": {"schemas": _schemas(served)},
    }


def _place(one: Resource) -> str:
    return f"apis/{one.api_version}" if one.group else f"api/{one.api_version}"


def _path(one: Resource) -> str:
    inside = "namespaces/{namespace}/" if one.namespaced else ""
    return f"/{_place(one)}/{inside}{one.plural}/{{name}}"


def _operations(one: Resource) -> dict[str, Any]:
    kind = _kind(one)
    reference = {"schema": {"$ref": f"#/components/schemas/{one.kind}"}}
    answers = {"200": {"description": "OK", "content": {"application/json": reference}}}
    return {
        "get": {"responses": answers, "x-kubernetes-action": "get", **kind},
        "patch": {
            "parameters": _PARAMETERS,
            "requestBody": {"content": {media: {"schema": {}} for media in _PATCHES}},
            "responses": answers,
            "x-kubernetes-action": "patch",
            **kind,
        },
    }


def _kind(one: Resource) -> dict[str, Any]:
    named = {"group": one.group, "version": one.version, "kind": one.kind}
    return {"x-kubernetes-group-version-kind": named}


def _schemas(served: list[Resource]) -> dict[str, Any]:
    """Return the schemas of kinds and of everything inside them."""
    schemas: dict[str, Any] = {}
    waiting = [one.kind for one in served]
    while waiting:
        name = waiting.pop()
        if name not in schemas and name in tables():
            fields = fields_in_json(name)
            schemas[name] = _object({key: _property(one) for key, one in fields.items()})
            waiting += [one.kind for one in fields.values()]
    for one in served:
        schemas[one.kind]["properties"] |= {"apiVersion": _STRING, "kind": _STRING}
        schemas[one.kind] |= {key: [named] for key, named in _kind(one).items()}
    return schemas


def _property(field: Field) -> dict[str, Any]:
    one = _SCALARS.get(field.kind) or {"$ref": f"#/components/schemas/{field.kind}"}
    if field.is_list:
        return {"type": "array", "items": one}
    if field.is_map:
        return {"type": "object", "additionalProperties": one}
    return dict(one)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}
