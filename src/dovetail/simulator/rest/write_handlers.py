"""Handlers of POST, PUT, PATCH and DELETE."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import NAMESPACES, PODS
from dovetail.ports.kube_errors import BadRequest, MethodNotAllowed, UnsupportedMediaType
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import PatchType, WriteOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.rest.encoding.accept import negotiate
from dovetail.simulator.rest.encoding.query_options import (
    decode_delete_options,
    decode_field_validation,
    decode_list_options,
    decode_write_options,
    parse_bool,
)
from dovetail.simulator.rest.encoding.request_bodies import APPLY, content_type, decode_json, decode_object
from dovetail.simulator.rest.encoding.responses import json_response
from dovetail.simulator.rest.paths import RequestInfo
from dovetail.simulator.rest.read_handlers import OBJECT_REPRESENTATIONS, ReadHandler
from dovetail.simulator.rest.schema.decode import decode_fields

_CREATED: Final = 201
_KINDS: Final = {"scale": "Scale", "eviction": "Eviction", "binding": "Binding"}
"""Kinds in the bodies of subresources."""
_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"


class WriteHandler:
    """Handles writes, and calls ``on_write`` after each that is not a dry run."""

    def __init__(self, api: ApiServer, *, now: Callable[[], datetime], on_write: Callable[[], None]) -> None:
        self._api = api
        self._reader = ReadHandler(api, now=now)
        self._on_write = on_write

    def create(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        if info.resource.namespaced and not info.namespace:
            raise MethodNotAllowed(_NOT_ALLOWED)
        obj, warnings = _validate_fields(request, info, decode_object(request, data))
        options = _write_options(request)
        created = self._api.create(info.resource, obj, info.namespace, options=options)
        return self._write_response(request, info, created, options, warnings, status=_CREATED)

    def replace(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        return self._update(request, info, _set_identity(info, decode_object(request, data)))

    def patch(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        if content_type(request) in APPLY:
            return self._apply(request, info, data)
        if content_type(request) not in list(PatchType):
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types "
                f"include: {', '.join((*PatchType, APPLY[0]))}"
            )
        patched = self._compute_patched_object(request, info, data)
        return self._update(request, info, _set_identity(info, patched))

    def _compute_patched_object(
        self, request: web.Request, info: RequestInfo, data: bytes
    ) -> Mapping[str, Any]:
        patch = decode_json(data)
        try:
            return self._api.compute_patched_object(
                info.resource,
                info.name,
                patch,
                PatchType(content_type(request)),
                info.namespace,
                subresource=info.subresource,
                convert=info.version.to_served,
            )
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
            # Nothing is stored yet: a malformed patch can only fail its own computation.
            raise BadRequest("the patch cannot be applied to the object") from error

    def _update(self, request: web.Request, info: RequestInfo, requested: Mapping[str, Any]) -> web.Response:
        obj, warnings = _validate_fields(request, info, requested)
        options = _write_options(request)
        updated = self._api.update(info.resource, obj, subresource=info.subresource, options=options)
        return self._write_response(request, info, updated, options, warnings)

    def _apply(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        if info.subresource not in ("", "status"):
            raise UnsupportedMediaType(f"{info.subresource} does not support server-side apply")
        requested = _set_identity(info, decode_object(request, data))
        config, warnings = _validate_fields(request, info, requested)
        options = _write_options(request)
        is_new = not self._find_uid(info)
        applied = self._api.apply(
            info.resource,
            config,
            info.namespace,
            manager=request.query.get("fieldManager", ""),
            force=parse_bool(request.query, "force"),
            subresource=info.subresource,
            dry_run=options.dry_run,
        )
        status = _CREATED if is_new else 200
        return self._write_response(request, info, applied, options, warnings, status=status)

    def delete(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        options = decode_delete_options(request.query, _decode_body_options(request, data))
        obj = self._api.delete(info.resource, info.name, info.namespace, options=options)
        is_terminating = self._find_uid(info) == obj["metadata"]["uid"]
        if is_terminating or info.resource is PODS:
            body = self._transform(request, info, obj)
        else:
            body = _success_status(info, obj["metadata"])
        return self._finish(json_response(body), dry_run=options.dry_run)

    def delete_collection(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        if info.resource is NAMESPACES:
            raise MethodNotAllowed(_NOT_ALLOWED)
        options = decode_delete_options(request.query, _decode_body_options(request, data))
        list_options = decode_list_options(info, request.query)
        deleted = self._api.delete_collection(info.resource, list_options, options=options)
        body = {
            "kind": f"{info.resource.kind}List",
            "apiVersion": info.version.resource.api_version,
            "metadata": {"resourceVersion": self._api.resource_version},
            "items": list(map(info.version.to_served, deleted)),
        }
        return self._finish(json_response(body), dry_run=options.dry_run)

    def evict(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        requested = _set_identity(info, decode_object(request, data))
        eviction, _ = _validate_fields(request, info, requested)
        options = decode_delete_options(request.query, eviction.get("deleteOptions") or {})
        self._api.evict(info.name, info.namespace, options=options)
        response = json_response(_success_status(), status=_CREATED)
        return self._finish(response, dry_run=options.dry_run)

    def bind(self, request: web.Request, info: RequestInfo, data: bytes) -> web.Response:
        requested = _set_identity(info, decode_object(request, data))
        binding, _ = _validate_fields(request, info, requested)
        if _write_options(request).dry_run:
            raise BadRequest("bindings do not support dry run")
        self._api.bind(info.name, info.namespace, binding)
        return self._finish(json_response(_success_status(), status=_CREATED), dry_run=False)

    def _write_response(
        self,
        request: web.Request,
        info: RequestInfo,
        obj: Object,
        options: WriteOptions,
        warnings: list[str],
        status: int = 200,
    ) -> web.Response:
        body = self._transform(request, info, obj)
        response = json_response(body, status=status, warnings=warnings)
        return self._finish(response, dry_run=options.dry_run)

    def _transform(self, request: web.Request, info: RequestInfo, obj: Object) -> Any:
        representation = negotiate(request.headers.get("Accept", ""), OBJECT_REPRESENTATIONS)
        return self._reader.transform_object(request, info, obj, representation)

    def _finish(self, response: web.Response, *, dry_run: bool) -> web.Response:
        """Call ``on_write``, after the response has been built from the written state."""
        if not dry_run:
            self._on_write()
        return response

    def _find_uid(self, info: RequestInfo) -> str:
        obj = find_object(self._api, info.resource, info.name, info.namespace)
        return "" if obj is None else str(obj["metadata"]["uid"])


def _validate_fields(
    request: web.Request, info: RequestInfo, obj: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the object without unknown fields, and the warnings about them."""
    kind = _KINDS.get(info.subresource, info.resource.kind)
    if kind == info.resource.kind:
        obj = info.version.to_storage(obj)
    custom = info.version.custom
    schema = custom.schema if custom is not None else None
    decoded = decode_fields(info.resource, obj, kind=kind, schema=schema)
    validation = decode_field_validation(request.query)
    return decoded.object, validation.warnings(kind, info.resource.version, decoded.unknown_fields)


def _write_options(request: web.Request) -> WriteOptions:
    return decode_write_options(request.query, request.headers.get("User-Agent", ""))


def _set_identity(info: RequestInfo, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with name and namespace of the URL; BadRequest if it has others."""
    meta = obj.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata is not an object")
    for field, expected in (("name", info.name), ("namespace", info.namespace)):
        if meta.get(field) not in (None, "", expected):
            raise BadRequest(
                f"the {field} of the object ({meta[field]}) does not match the {field} "
                f"on the URL ({expected})"
            )
    identified = {**meta, "name": info.name}
    if info.namespace:
        identified["namespace"] = info.namespace
    return {**obj, "metadata": identified}


def _decode_body_options(request: web.Request, data: bytes) -> dict[str, Any]:
    return decode_object(request, data) if data else {}


def _success_status(info: RequestInfo | None = None, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a Success status, with the details of the deleted object if given."""
    details: dict[str, Any] = {}
    if info is not None and meta is not None:
        details = {
            "name": meta["name"],
            "group": info.resource.group,
            "kind": info.resource.plural,
            "uid": meta["uid"],
        }
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
