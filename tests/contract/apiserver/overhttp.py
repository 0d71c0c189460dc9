"""Any API server that speaks Kubernetes' REST."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import ApiError
from tests.contract.apiserver.subject import MERGE, Event, Object, Watching

APPLY = "application/apply-patch+yaml"
_PATIENCE = 30.0
"""Seconds to wait for an answer; Kubernetes thinks ten about some evictions."""
_LASTS = 10
"""Seconds that a watch without bookmarks lasts: for as long an event may be waited for."""
_BOOKMARK_AFTER = 1
"""Seconds that a watch with bookmarks lasts: the last thing it sends is one."""


def error_of(status: Mapping[str, Any]) -> ApiError:
    """Return a Status object as the error it is."""
    code, reason = status.get("code"), status.get("reason")
    kinds = [*ApiError.__subclasses__(), ApiError]
    same = [one for one in kinds if (one.code, one.reason) == (code, reason)]
    kind = next(iter(same or [one for one in kinds if one.code == code] or [ApiError]))
    error = kind(str(status.get("message", "")))
    error.details.update(status.get("details") or {})
    return error


class Connection:
    """Sends requests to one server."""

    def __init__(self, url: str, context: ssl.SSLContext, *, token: str = "") -> None:
        self._host = urlsplit(url).netloc
        self._headers = {"User-Agent": "contract/1"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._context = context
        self._kept = self._connection()

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, context=self._context, timeout=_PATIENCE)

    def ask(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, how: str = ""
    ) -> Object:
        sent = {**self._headers, "Content-Type": how or "application/json"}
        text = None if body is None else json.dumps(body)
        self._kept.request(method, f"{path}?{_encoded(query)}", text, sent)
        response = self._kept.getresponse()
        answer: Object = json.loads(response.read())
        if response.status >= 400:
            raise error_of(answer)
        return answer

    def follow(self, path: str, query: Mapping[str, Any]) -> "HttpWatching":
        connection = self._connection()
        connection.request("GET", f"{path}?{_encoded(query)}", headers=self._headers)
        response = connection.getresponse()
        if response.status >= 400:
            answer = json.loads(response.read())
            connection.close()
            raise error_of(answer)
        return HttpWatching(connection, response)

    def close(self) -> None:
        """Let the connection go; the next request makes a new one."""
        self._kept.close()


def _encoded(query: Mapping[str, Any]) -> str:
    return urlencode({name: value for name, value in query.items() if value not in ("", 0, False)})


class HttpWatching:
    """Events as they arrive."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response
        self._events: list[Event] = []
        self._bookmarks: list[Object] = []

    def take(self, count: int) -> list[Event]:
        while len(self._events) < count:
            self._read()
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    def bookmark(self) -> Object:
        while not self._bookmarks:
            self._read()
        return self._bookmarks.pop(0)

    def stop(self) -> None:
        self._response.close()
        self._connection.close()

    def _read(self) -> None:
        line = self._response.readline()
        assert line, f"the watch has ended; what came was {self._events}"
        event = json.loads(line)
        if event["type"] == "ERROR":
            self.stop()
            raise error_of(event["object"])
        if event["type"] == "BOOKMARK":
            self._bookmarks.append(event["object"])
        else:
            self._events.append((event["type"], event["object"]))


class OverHttp:
    """A server somewhere; others may use it at the same time."""

    def __init__(self, connection: Connection, *, test: str) -> None:
        self._connection = connection
        self._test = test
        self.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    @property
    def namespace(self) -> str:
        return f"contract-{self._test}"

    def unique(self, name: str) -> str:
        return f"{name}-{self._test}"

    def settle(self) -> None:
        pass

    def an_old_version(self) -> str:
        return "1"

    def get(
        self, resource: Resource, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Object:
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        return self._connection.ask("GET", path, {})

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = self._path(resource, namespace=namespace)
        return self._connection.ask("POST", path, _writing(manager, dry_run), _typed(resource, obj))

    def update(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> Object:
        meta = obj["metadata"]
        path = self._path(resource, meta["name"], subresource=subresource)
        body = obj if subresource == "scale" else _typed(resource, obj)
        return self._connection.ask("PUT", path, _writing(manager, False), body)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        how: str = MERGE,
        *,
        namespace: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        return self._connection.ask("PATCH", path, _writing(manager, dry_run), patch, how)

    def apply(
        self,
        resource: Resource,
        config: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = self._path(resource, config["metadata"]["name"], subresource=subresource)
        query = {**_writing(manager, dry_run), "force": str(force).lower()}
        return self._connection.ask("PATCH", path, query, _typed(resource, config), APPLY)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        options: Object = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
            **_preconditions(uid, resource_version),
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        self._connection.ask("DELETE", self._path(resource, name, namespace=namespace), {}, options)

    def delete_all(self, resource: Resource, *, labels: str) -> None:
        self._connection.ask("DELETE", self._path(resource), {"labelSelector": labels})

    def list(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_from: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Object:
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": limit,
            "continue": continue_from,
            "resourceVersion": resource_version,
            "resourceVersionMatch": "Exact" if exact else "",
        }
        return self._connection.ask("GET", self._path(resource), query)

    def watch(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
        initial_events: bool = False,
    ) -> Watching:
        query = {
            "watch": "true",
            "labelSelector": labels,
            "fieldSelector": fields,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "sendInitialEvents": "true" if initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if initial_events else "",
            "timeoutSeconds": _BOOKMARK_AFTER if bookmarks else _LASTS,
        }
        return self._connection.follow(self._path(resource), query)

    def evict(
        self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None:
        options: Object = _preconditions(uid, resource_version)
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": options,
        }
        self._connection.ask("POST", self._path(PODS, name, subresource="eviction"), {}, body)

    def bind(self, name: str, binding: Mapping[str, Any]) -> None:
        meta = {"name": name, "namespace": self.namespace, **(binding.get("metadata") or {})}
        body = {"apiVersion": "v1", "kind": "Binding", **binding, "metadata": meta}
        self._connection.ask("POST", self._path(PODS, name, subresource="binding"), {}, body)

    def _path(
        self, resource: Resource, name: str = "", *, namespace: str = "", subresource: str = ""
    ) -> str:
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        where = f"/namespaces/{namespace or self.namespace}" if resource.namespaced else ""
        steps = [resource.plural, *(quote(one) for one in (name, subresource) if one)]
        return f"{root}{where}/{'/'.join(steps)}"


def _typed(resource: Resource, obj: Mapping[str, Any]) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _writing(manager: str, dry_run: bool) -> Object:
    return {"fieldManager": manager, "dryRun": "All" if dry_run else ""}


def _preconditions(uid: str, resource_version: str) -> Object:
    wanted = {"uid": uid, "resourceVersion": resource_version}
    given = {name: value for name, value in wanted.items() if value}
    return {"preconditions": given} if given else {}
