"""OpenAPI v3 documents, for kubectl's field validation and ``kubectl explain``.

Before a write, kubectl looks for two parameters of a kind's PATCH: ``fieldValidation``
(the server validates fields, so that kubectl does not) and ``dryRun``. Strategic merge
is deliberately missing from the media types: kubectl then computes such patches from
its built-in types, which have merge keys that these schemas lack.

Schemas of custom resources are those of their CRDs, as in Kubernetes.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.custom_kinds import CustomVersion
from dovetail.simulator.rest.schema.fields import Field, json_fields, type_name, types_by_name
from dovetail.simulator.rest.served_versions import BUILT_IN_RESOURCES

_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]
_PATCH_MEDIA_TYPES: Final = (
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
_HEADER: Final = {"openapi": "3.0.0", "info": {"title": "dovetail sandbox", "version": "v1"}}
V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def encode_openapi_paths(resources: Sequence[Resource]) -> dict[str, Any]:
    """Return ``/openapi/v3``: the document URL of each group and version."""
    paths = dict.fromkeys(_group_version_path(resource) for resource in resources)
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def encode_openapi_document(
    path: str, custom_versions: Sequence[CustomVersion] = ()
) -> dict[str, Any] | None:
    """Return ``/openapi/v3/api/v1`` or ``/openapi/v3/apis/GROUP/VERSION``."""
    document = _encode_built_in(path)
    custom = [version for version in custom_versions if _group_version_path(version.resource) == path]
    if not custom:
        return document
    document = document or {**_HEADER, "paths": {}, "components": {"schemas": _schemas([])}}
    paths = {_object_path(version.resource): _operations(version.resource) for version in custom}
    schemas = {version.resource.kind: _custom_schema(version) for version in custom}
    return {
        **document,
        "paths": document["paths"] | paths,
        "components": {"schemas": document["components"]["schemas"] | schemas},
    }


def _custom_schema(version: CustomVersion) -> dict[str, Any]:
    properties = version.schema.get("properties") or {}
    header = {"apiVersion": _STRING, "kind": _STRING, "metadata": _reference("ObjectMeta")}
    return {
        **version.schema,
        "properties": {**properties, **header},
        "x-kubernetes-group-version-kind": [_group_version_kind(version.resource)],
    }


@cache
def _encode_built_in(path: str) -> dict[str, Any] | None:
    served = [resource for resource in BUILT_IN_RESOURCES if _group_version_path(resource) == path]
    if not served:
        return None
    return {
        **_HEADER,
        "paths": {_object_path(resource): _operations(resource) for resource in served},
        "components": {"schemas": _schemas(served)},
    }


def _group_version_path(resource: Resource) -> str:
    prefix = "apis" if resource.group else "api"
    return f"{prefix}/{resource.api_version}"


def _object_path(resource: Resource) -> str:
    namespace = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_group_version_path(resource)}/{namespace}{resource.plural}/{{name}}"


def _operations(resource: Resource) -> dict[str, Any]:
    group_version_kind = {"x-kubernetes-group-version-kind": _group_version_kind(resource)}
    content = {"application/json": {"schema": _reference(resource.kind)}}
    responses = {"200": {"description": "OK", "content": content}}
    return {
        "get": {"responses": responses, "x-kubernetes-action": "get", **group_version_kind},
        "patch": {
            "parameters": _PARAMETERS,
            "requestBody": {"content": {media_type: {"schema": {}} for media_type in _PATCH_MEDIA_TYPES}},
            "responses": responses,
            "x-kubernetes-action": "patch",
            **group_version_kind,
        },
    }


def _group_version_kind(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _reference(type_name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{type_name}"}


def _schemas(served: list[Resource]) -> dict[str, Any]:
    """Return the schemas of kinds and of all types in them."""
    schemas: dict[str, Any] = {
        crd.kind: {
            "description": crd.about,
            "type": "object",
            "properties": {"metadata": _reference("ObjectMeta"), "spec": crd.spec, "status": crd.status},
        }
        for crd in DEFINITIONS
        if crd.kind in {resource.kind for resource in served}
    }
    names = {resource: type_name(resource.api_version, resource.kind) for resource in served}
    pending = ["ObjectMeta", *names.values()]
    while pending:
        name = pending.pop()
        if name not in schemas and name in types_by_name():
            fields = json_fields(name)
            properties = {key: _property(field) for key, field in fields.items()}
            schemas[name] = {"type": "object", "properties": properties}
            pending += [field.type for field in fields.values()]
    for resource in served:
        schema = schemas[resource.kind] = schemas.pop(names[resource])
        schema["properties"] |= {"apiVersion": _STRING, "kind": _STRING}
        schema["x-kubernetes-group-version-kind"] = [_group_version_kind(resource)]
    return schemas


def _property(field: Field) -> dict[str, Any]:
    schema = _SCALARS.get(field.type) or _reference(field.type)
    if field.is_list:
        return {"type": "array", "items": schema}
    if field.is_map:
        return {"type": "object", "additionalProperties": schema}
    return dict(schema)
