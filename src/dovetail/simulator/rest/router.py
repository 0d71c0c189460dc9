"""Router: dispatches requests to handlers by path and method."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_errors import MethodNotAllowed, NotFound
from dovetail.simulator.apiserver.custom_kinds import CustomKinds
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.instance import KUBERNETES_VERSION
from dovetail.simulator.rest import discovery, openapi
from dovetail.simulator.rest.access_reviews import answer_review, find_review
from dovetail.simulator.rest.encoding.accept import Representation, negotiate
from dovetail.simulator.rest.encoding.query_options import parse_bool
from dovetail.simulator.rest.encoding.request_bodies import decode_object
from dovetail.simulator.rest.encoding.responses import json_response
from dovetail.simulator.rest.paths import RequestInfo, parse_path
from dovetail.simulator.rest.pod_logs import LogSource, PodLogs, no_container_error
from dovetail.simulator.rest.read_handlers import ReadHandler
from dovetail.simulator.rest.served_versions import served_resources
from dovetail.simulator.rest.watch_handler import WatchHandler
from dovetail.simulator.rest.write_handlers import WriteHandler

_VERSION: Final = {
    "major": "1",
    "minor": KUBERNETES_VERSION.split(".")[1],
    "gitVersion": f"{KUBERNETES_VERSION}+dovetail",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}
_DISCOVERY_REPRESENTATIONS: Final = frozenset({Representation.OBJECT, Representation.DISCOVERY})


class Router:
    """Dispatches requests by path and method."""

    def __init__(
        self,
        api: ApiServer,
        *,
        now: Callable[[], datetime],
        on_write: Callable[[], None],
        logs: LogSource | None,
    ) -> None:
        self._api = api
        self._reader = ReadHandler(api, now=now)
        self._writer = WriteHandler(api, now=now, on_write=on_write)
        self._watches = WatchHandler(api, now=now)
        self._pod_logs = PodLogs(logs)

    def close(self) -> None:
        """End all watches and followed logs."""
        self._watches.close()
        self._pod_logs.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        info = parse_path(request.path, self._api.custom_kinds)
        if info is not None:
            return await self._handle_resource(request, info)
        review = find_review(request.path)
        if review is not None:
            if request.method != "POST":
                raise _method_not_allowed()
            body = decode_object(request, await request.read())
            return json_response(answer_review(review, body), status=201)
        return _handle_document(request, self._api.custom_kinds)

    async def _handle_resource(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        if info.subresource not in ("", "status", "scale"):
            return await self._handle_subresource(request, info)
        if request.method == "GET":
            return await self._handle_read(request, info)
        handle_write = self._write_method(request.method, info)
        # The body is read first: a write must not be interrupted by an await.
        data = await request.read()
        return handle_write(request, info, data)

    async def _handle_read(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        if parse_bool(request.query, "watch") and not info.subresource:
            return await self._watches.handle(request, info)
        if info.is_collection:
            return await self._reader.list(request, info)
        return self._reader.get(request, info)

    def _write_method(
        self, method: str, info: RequestInfo
    ) -> Callable[[web.Request, RequestInfo, bytes], web.Response]:
        writer = self._writer
        collection = {"POST": writer.create, "DELETE": writer.delete_collection}
        single = {"PUT": writer.replace, "PATCH": writer.patch}
        if not info.subresource:
            single["DELETE"] = writer.delete
        handle_write = (collection if info.is_collection else single).get(method)
        if handle_write is None:
            raise _method_not_allowed()
        return handle_write

    async def _handle_subresource(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        resource, name = info.resource, info.subresource
        rest_only = discovery.REST_ONLY_SUBRESOURCES.get(resource, ())
        if name not in (*resource.subresources, *rest_only):
            raise _not_found()
        if name in rest_only:
            pod = self._api.get(PODS, info.name, info.namespace)
            if name == "log" and request.method == "GET":
                return await self._pod_logs.handle(request, pod)
            raise _method_not_allowed() if name == "log" else no_container_error(pod, name)
        if request.method != "POST":
            raise _method_not_allowed()
        handle_write = self._writer.evict if name == "eviction" else self._writer.bind
        return handle_write(request, info, await request.read())


def _handle_document(request: web.Request, kinds: CustomKinds) -> web.Response:
    """Return a document that does not depend on objects: discovery, OpenAPI, version."""
    path = "/" + request.path.strip("/")
    if path in ("/api", "/apis"):
        accept = request.headers.get("Accept", "")
        if negotiate(accept, _DISCOVERY_REPRESENTATIONS) is Representation.DISCOVERY:
            resources = served_resources(kinds)
            aggregated = discovery.encode_aggregated_discovery(resources, core=path == "/api")
            return json_response(aggregated, content_type=discovery.AGGREGATED_DISCOVERY)
    if path == "/openapi/v2":
        # An empty document: kubectl requests v2, but finds all it needs in v3.
        return web.Response(body=b"", content_type=openapi.V2_PROTOBUF)
    document = _find_document(path, kinds)
    if document is None:
        raise _not_found()
    if request.method != "GET":
        raise _method_not_allowed()
    return json_response(document)


def _find_document(path: str, kinds: CustomKinds) -> dict[str, Any] | None:
    resources = served_resources(kinds)
    documents: dict[str, Callable[[], dict[str, Any]]] = {
        "/": lambda: _encode_root_paths(resources),
        "/version": lambda: dict(_VERSION),
        "/api": discovery.encode_api_versions,
        "/apis": lambda: discovery.encode_api_group_list(resources),
        "/openapi/v3": lambda: openapi.encode_openapi_paths(resources),
    }
    if path in documents:
        return documents[path]()
    if path.startswith("/openapi/v3/"):
        return openapi.encode_openapi_document(path.removeprefix("/openapi/v3/"), tuple(kinds.versions()))
    if path.startswith("/api/"):
        return discovery.encode_api_resource_list(resources, path.removeprefix("/api/"))
    if path.startswith("/apis/"):
        name = path.removeprefix("/apis/")
        if "/" in name:
            return discovery.encode_api_resource_list(resources, name)
        return discovery.encode_api_group(resources, name)
    return None


def _encode_root_paths(resources: Sequence[Resource]) -> dict[str, Any]:
    group_paths = [
        f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        for group_version in discovery.group_versions(resources)
    ]
    other_paths = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    return {"paths": ["/api", *sorted(["/apis", *group_paths]), *other_paths]}


def _not_found() -> NotFound:
    return NotFound("the server could not find the requested resource")


def _method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")
