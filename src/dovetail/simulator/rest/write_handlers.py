"""Creating, replacing, patching and deleting."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import NAMESPACES, PODS
from dovetail.ports.kube_errors import BadRequest, MethodNotAllowed, NotFound, UnsupportedMediaType
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.write import WriteOptions
from dovetail.simulator.rest.encoding.accept import wanted_form
from dovetail.simulator.rest.encoding.query_options import (
    delete_options,
    flag,
    list_options,
    write_options,
)
from dovetail.simulator.rest.encoding.request_bodies import APPLY, read_json
from dovetail.simulator.rest.encoding.request_objects import content_type, read_object
from dovetail.simulator.rest.encoding.responses import answer
from dovetail.simulator.rest.field_validation import strictness
from dovetail.simulator.rest.paths import Target
from dovetail.simulator.rest.read_handlers import ONE, Reader
from dovetail.simulator.rest.schema.decode import decode

_CREATED: Final = 201
_KINDS: Final = {"scale": "Scale", "eviction": "Eviction", "binding": "Binding"}
"""The kinds that subresources are written as."""
_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"


class Changer:
    """Answers writes, and says ``on_activity`` after each that counted."""

    def __init__(
        self,
        api: ApiServer,
        *,
        now: Callable[[], datetime],
        on_activity: Callable[[], None],
    ) -> None:
        self._api = api
        self._reader = Reader(api, now=now)
        self._on_activity = on_activity

    def create(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        if target.resource.namespaced and not target.namespace:
            raise MethodNotAllowed(_NOT_ALLOWED)
        obj, warnings = _checked(request, target, read_object(request, data))
        options = _write_options(request)
        made = self._api.create(target.resource, obj, target.namespace, options=options)
        return self._written(request, target, made, options, warnings, status=_CREATED)

    def replace(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        given = _placed(target, read_object(request, data))
        return self._update(request, target, given)

    def patch(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        if content_type(request) in APPLY:
            return self._apply(request, target, data)
        if content_type(request) not in list(PatchType):
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types "
                f"include: {', '.join((*PatchType, APPLY[0]))}"
            )
        return self._update(request, target, _placed(target, self._patched(request, target, data)))

    def _patched(self, request: web.Request, target: Target, data: bytes) -> Mapping[str, Any]:
        patch = read_json(data)
        try:
            return self._api.patched(
                target.resource,
                target.name,
                patch,
                PatchType(content_type(request)),
                target.namespace,
                subresource=target.subresource,
            )
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
            # Nothing is written yet, and whatever a patch can break, it broke itself.
            raise BadRequest("the patch does not fit the object") from error

    def _update(
        self, request: web.Request, target: Target, given: Mapping[str, Any]
    ) -> web.Response:
        obj, warnings = _checked(request, target, given)
        options = _write_options(request)
        written = self._api.update(
            target.resource, obj, subresource=target.subresource, options=options
        )
        return self._written(request, target, written, options, warnings)

    def _apply(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        if target.subresource not in ("", "status"):
            raise UnsupportedMediaType(f"{target.subresource} takes no server-side apply")
        given = _placed(target, read_object(request, data))
        config, warnings = _checked(request, target, given)
        options = _write_options(request)
        is_new = not self._uid(target)
        applied = self._api.apply(
            target.resource,
            config,
            target.namespace,
            manager=request.query.get("fieldManager", ""),
            force=flag(request.query, "force"),
            subresource=target.subresource,
            dry_run=options.dry_run,
        )
        status = _CREATED if is_new else 200
        return self._written(request, target, applied, options, warnings, status=status)

    def delete(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        options = delete_options(request.query, _options_in(request, data))
        obj = self._api.delete(target.resource, target.name, target.namespace, options=options)
        waits = self._uid(target) == obj["metadata"]["uid"]
        if waits or target.resource is PODS:
            shown = self._shown(request, target, obj)
        else:
            shown = _success(target, obj["metadata"])
        return self._done(answer(shown), dry_run=options.dry_run)

    def delete_all(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        if target.resource is NAMESPACES:
            raise MethodNotAllowed(_NOT_ALLOWED)
        options = delete_options(request.query, _options_in(request, data))
        which = list_options(target, request.query)
        deleted = self._api.delete_all(target.resource, which, options=options)
        shown = {
            "kind": f"{target.resource.kind}List",
            "apiVersion": target.resource.api_version,
            "metadata": {"resourceVersion": self._api.resource_version},
            "items": list(deleted),
        }
        return self._done(answer(shown), dry_run=options.dry_run)

    def evict(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        given = _placed(target, read_object(request, data))
        eviction, _ = _checked(request, target, given)
        options = delete_options(request.query, eviction.get("deleteOptions") or {})
        self._api.evict(target.name, target.namespace, options=options)
        return self._done(answer(_success(), status=_CREATED), dry_run=options.dry_run)

    def bind(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        given = _placed(target, read_object(request, data))
        binding, _ = _checked(request, target, given)
        if _write_options(request).dry_run:
            raise BadRequest("a binding cannot be tried without being made")
        self._api.bind(target.name, target.namespace, binding)
        return self._done(answer(_success(), status=_CREATED), dry_run=False)

    def _written(
        self,
        request: web.Request,
        target: Target,
        obj: Object,
        options: WriteOptions,
        warnings: list[str],
        status: int = 200,
    ) -> web.Response:
        shown = self._shown(request, target, obj)
        return self._done(answer(shown, status=status, warnings=warnings), dry_run=options.dry_run)

    def _shown(self, request: web.Request, target: Target, obj: Object) -> Any:
        form = wanted_form(request.headers.get("Accept", ""), ONE)
        return self._reader.shown(request, target, obj, form)

    def _done(self, response: web.Response, *, dry_run: bool) -> web.Response:
        """Tell of the activity, once the answer says what was and not what came of it."""
        if not dry_run:
            self._on_activity()
        return response

    def _uid(self, target: Target) -> str:
        try:
            found = self._api.get(target.resource, target.name, target.namespace)
        except NotFound:
            return ""
        return str(found["metadata"]["uid"])


def _checked(
    request: web.Request, target: Target, obj: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return an object of known fields, and what to warn of."""
    kind = _KINDS.get(target.subresource, target.resource.kind)
    decoded = decode(target.resource, obj, kind=kind)
    return decoded.object, strictness(request.query).warnings(kind, decoded.unknown)


def _write_options(request: web.Request) -> WriteOptions:
    return write_options(request.query, request.headers.get("User-Agent", ""))


def _placed(target: Target, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the name and namespace of the URL; BadRequest if it has others."""
    meta = obj.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata is no map")
    for field, expected in (("name", target.name), ("namespace", target.namespace)):
        if meta.get(field) not in (None, "", expected):
            raise BadRequest(
                f"the {field} of the object ({meta[field]}) does not match the {field} "
                f"on the URL ({expected})"
            )
    placed = {**meta, "name": target.name}
    if target.namespace:
        placed["namespace"] = target.namespace
    return {**obj, "metadata": placed}


def _options_in(request: web.Request, data: bytes) -> dict[str, Any]:
    return read_object(request, data) if data else {}


def _success(target: Target | None = None, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a Status that says it is done, and to what."""
    details: dict[str, Any] = {}
    if target is not None and meta is not None:
        details = {
            "name": meta["name"],
            "group": target.resource.group,
            "kind": target.resource.plural,
            "uid": meta["uid"],
        }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
