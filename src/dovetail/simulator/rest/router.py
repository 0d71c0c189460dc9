"""Which part of the server answers which request."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import MethodNotAllowed, NotFound
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest import discovery, openapi
from dovetail.simulator.rest.access_reviews import review_at, reviewed
from dovetail.simulator.rest.encoding.accept import Form, wanted_form
from dovetail.simulator.rest.encoding.query_options import flag
from dovetail.simulator.rest.encoding.request_objects import read_object
from dovetail.simulator.rest.encoding.responses import answer
from dovetail.simulator.rest.paths import Target, target_of
from dovetail.simulator.rest.pod_logs import Logs, PodLogs, no_container
from dovetail.simulator.rest.read_handlers import Reader
from dovetail.simulator.rest.watch_handler import Watches
from dovetail.simulator.rest.write_handlers import Changer

_VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+dovetail",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}
_DISCOVERY: Final = frozenset({Form.PLAIN, Form.DISCOVERY})


class Router:
    """Finds who answers a request, by its path and method."""

    def __init__(
        self,
        api: ApiServer,
        *,
        now: Callable[[], datetime],
        on_activity: Callable[[], None],
        logs: Logs | None,
    ) -> None:
        self._api = api
        self._reader = Reader(api, now=now)
        self._changer = Changer(api, now=now, on_activity=on_activity)
        self._watches = Watches(api, now=now)
        self._pod_logs = PodLogs(logs)

    def end(self) -> None:
        """End every answer that goes on."""
        self._watches.end()
        self._pod_logs.end()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        target = target_of(request.path)
        if target is not None:
            return await self._about(request, target)
        review = review_at(request.path)
        if review is not None:
            if request.method != "POST":
                raise _not_allowed()
            question = read_object(request, await request.read())
            return answer(reviewed(review, question), status=201)
        return _document(request)

    async def _about(self, request: web.Request, target: Target) -> web.StreamResponse:
        if target.subresource not in ("", "status", "scale"):
            return await self._special(request, target)
        if request.method == "GET":
            return await self._read(request, target)
        change = self._change(request.method, target)
        # All that waits comes first, so that a write happens in one go.
        data = await request.read()
        return change(request, target, data)

    async def _read(self, request: web.Request, target: Target) -> web.StreamResponse:
        if flag(request.query, "watch") and not target.subresource:
            return await self._watches.answer(request, target)
        if target.is_collection:
            return await self._reader.list(request, target)
        return self._reader.get(request, target)

    def _change(
        self, method: str, target: Target
    ) -> Callable[[web.Request, Target, bytes], web.Response]:
        collection = {"POST": self._changer.create, "DELETE": self._changer.delete_all}
        one = {"PUT": self._changer.replace, "PATCH": self._changer.patch}
        if not target.subresource:
            one["DELETE"] = self._changer.delete
        change = (collection if target.is_collection else one).get(method)
        if change is None:
            raise _not_allowed()
        return change

    async def _special(self, request: web.Request, target: Target) -> web.StreamResponse:
        kind, name = target.resource, target.subresource
        served = (*kind.subresources, *discovery.ONLY_OVER_HTTP.get(kind, ()))
        if name not in served:
            raise _unknown()
        if kind is PODS and name in discovery.ONLY_OVER_HTTP[PODS]:
            pod = self._api.get(PODS, target.name, target.namespace)
            if name == "log" and request.method == "GET":
                return await self._pod_logs.answer(request, pod)
            raise _not_allowed() if name == "log" else no_container(pod, name)
        if request.method != "POST":
            raise _not_allowed()
        change = self._changer.evict if name == "eviction" else self._changer.bind
        return change(request, target, await request.read())


def _document(request: web.Request) -> web.Response:
    """Answer what is the same for all objects: discovery, OpenAPI, the version."""
    path = "/" + request.path.strip("/")
    if path in ("/api", "/apis"):
        form = wanted_form(request.headers.get("Accept", ""), _DISCOVERY)
        if form is Form.DISCOVERY:
            everything = discovery.aggregated(core=path == "/api")
            return answer(everything, content_type=discovery.AGGREGATED)
    if path == "/openapi/v2":
        # An empty document: kubectl asks for it, but then finds all it needs in v3.
        return web.Response(body=b"", content_type=openapi.V2_PROTOBUF)
    found = _static(path)
    if found is None:
        raise _unknown()
    if request.method != "GET":
        raise _not_allowed()
    return answer(found)


def _static(path: str) -> dict[str, Any] | None:
    whole: dict[str, Callable[[], dict[str, Any]]] = {
        "/": _paths,
        "/version": lambda: dict(_VERSION),
        "/api": discovery.core_versions,
        "/apis": discovery.groups,
        "/openapi/v3": openapi.paths,
    }
    if path in whole:
        return whole[path]()
    if path.startswith("/openapi/v3/"):
        return openapi.document(path.removeprefix("/openapi/v3/"))
    if path.startswith("/api/"):
        return discovery.resources(path.removeprefix("/api/"))
    if path.startswith("/apis/"):
        name = path.removeprefix("/apis/")
        return discovery.resources(name) if "/" in name else discovery.group(name)
    return None


def _paths() -> dict[str, Any]:
    places = [f"/apis/{one}" if "/" in one else f"/api/{one}" for one in discovery.GROUP_VERSIONS]
    fixed = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    return {"paths": ["/api", *sorted(["/apis", *places]), *fixed]}


def _unknown() -> NotFound:
    return NotFound("the server could not find the requested resource")


def _not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")
