"""Creating, replacing, patching and deleting."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.kubeerrors import BadRequest, MethodNotAllowed, NotFound, UnsupportedMediaType
from dovetail.ports.resources import PODS
from dovetail.sim.apiserver.frozen import Object
from dovetail.sim.apiserver.options import PatchType
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.http.accepting import wanted_form
from dovetail.sim.http.answers import answer
from dovetail.sim.http.asking import delete_options, flag, list_options, write_options
from dovetail.sim.http.bodies import APPLY, JSON, read_json, read_object, read_yaml
from dovetail.sim.http.paths import Target
from dovetail.sim.http.reading import ONE, Reader

_CREATED: Final = 201


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
        obj = read_object(data, request.content_type)
        if target.resource.namespaced and not target.namespace:
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        options = write_options(request.query, request.headers.get("User-Agent", ""))
        made = self._api.create(target.resource, obj, target.namespace, options=options)
        return self._written(request, target, made, status=_CREATED, counts=not options.dry_run)

    def replace(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        obj = _placed(target, read_object(data, request.content_type))
        options = write_options(request.query, request.headers.get("User-Agent", ""))
        written = self._api.update(
            target.resource, obj, subresource=target.subresource, options=options
        )
        return self._written(request, target, written, counts=not options.dry_run)

    def patch(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        if request.content_type in APPLY:
            return self._apply(request, target, data)
        if request.content_type not in list(PatchType):
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types "
                f"include: {', '.join((*PatchType, APPLY[0]))}"
            )
        options = write_options(request.query, request.headers.get("User-Agent", ""))
        patched = self._api.patched(
            target.resource,
            target.name,
            read_json(data),
            PatchType(request.content_type),
            target.namespace,
            subresource=target.subresource,
        )
        written = self._api.update(
            target.resource,
            _placed(target, patched),
            subresource=target.subresource,
            options=options,
        )
        return self._written(request, target, written, counts=not options.dry_run)

    def _apply(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        config = read_yaml(data)
        if not isinstance(config, dict):
            raise BadRequest("the body of the request is no object")
        if target.subresource not in ("", "status"):
            raise UnsupportedMediaType(f"{target.subresource} takes no server-side apply")
        manager = request.query.get("fieldManager", "")
        options = write_options(request.query, manager)
        before = self._uid(target)
        applied = self._api.apply(
            target.resource,
            _placed(target, config),
            target.namespace,
            manager=manager,
            force=flag(request.query, "force"),
            subresource=target.subresource,
            dry_run=options.dry_run,
        )
        status = 200 if before else _CREATED
        return self._written(request, target, applied, status=status, counts=not options.dry_run)

    def delete(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        options = delete_options(request.query, _options_in(request, data))
        obj = self._api.delete(target.resource, target.name, target.namespace, options=options)
        if self._uid(target) == obj["metadata"]["uid"] or target.resource is PODS:
            return self._written(request, target, obj, counts=not options.dry_run)
        meta = obj["metadata"]
        details = {
            "name": meta["name"],
            "group": target.resource.group,
            "kind": target.resource.plural,
            "uid": meta["uid"],
        }
        if not options.dry_run:
            self._on_activity()
        return answer(_success(details))

    def delete_all(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        options = delete_options(request.query, _options_in(request, data))
        which = list_options(target, request.query)
        deleted = self._api.delete_all(target.resource, which, options=options)
        if not options.dry_run:
            self._on_activity()
        return answer(
            {
                "kind": f"{target.resource.kind}List",
                "apiVersion": target.resource.api_version,
                "metadata": {"resourceVersion": self._api.resource_version},
                "items": list(deleted),
            }
        )

    def evict(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        eviction = _placed(target, read_object(data, request.content_type))
        wanted = eviction.get("deleteOptions") or {}
        if not isinstance(wanted, dict):
            raise BadRequest("deleteOptions is no object")
        options = delete_options(request.query, wanted)
        self._api.evict(target.name, target.namespace, options=options)
        if not options.dry_run:
            self._on_activity()
        return answer(_success({}), status=_CREATED)

    def bind(self, request: web.Request, target: Target, data: bytes) -> web.Response:
        binding = _placed(target, read_object(data, request.content_type))
        if write_options(request.query, "").dry_run:
            raise BadRequest("a binding cannot be tried without being made")
        self._api.bind(target.name, target.namespace, binding)
        self._on_activity()
        return answer(_success({}), status=_CREATED)

    def _written(
        self, request: web.Request, target: Target, obj: Object, *, counts: bool, status: int = 200
    ) -> web.Response:
        form = wanted_form(request.headers.get("Accept", ""), ONE)
        response = answer(self._reader.shown(request, target, obj, form), status=status)
        if counts:
            # After the answer is written down: it says what was, not what came of it.
            self._on_activity()
        return response

    def _uid(self, target: Target) -> str:
        try:
            found = self._api.get(target.resource, target.name, target.namespace)
        except NotFound:
            return ""
        return str(found["metadata"]["uid"])


def _placed(target: Target, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the name and namespace of the URL; BadRequest if it has others."""
    meta = obj.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata is no object")
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
    return read_object(data, request.content_type if data else JSON) if data else {}


def _success(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": dict(details),
    }
