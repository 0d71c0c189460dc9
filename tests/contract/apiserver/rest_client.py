"""An API server reached over Kubernetes' REST API."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_errors import ApiError, NotFound
from tests.contract.apiserver.subject import MERGE, Event, Object, WatchHandle

APPLY = "application/apply-patch+yaml"
_TIMEOUT = 30.0
"""Seconds to wait for a response; Kubernetes takes ten for some evictions."""
_WATCH_TIMEOUT = 10
"""Seconds that a watch without bookmarks lasts: the longest wait for an event."""
_BOOKMARK_WATCH_TIMEOUT = 1
"""Seconds that a watch with bookmarks lasts: its last event is a bookmark."""


def decode_error(status: Mapping[str, Any]) -> ApiError:
    """Return the error of a Status object."""
    code, reason = status.get("code"), status.get("reason")
    kinds = [*ApiError.__subclasses__(), ApiError]
    same = [error_class for error_class in kinds if (error_class.code, error_class.reason) == (code, reason)]
    kind = next(
        iter(same or [error_class for error_class in kinds if error_class.code == code] or [ApiError])
    )
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
        return http.client.HTTPSConnection(self._host, context=self._context, timeout=_TIMEOUT)

    def request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, content_type: str = ""
    ) -> Object:
        sent = {**self._headers, "Content-Type": content_type or "application/json"}
        text = None if body is None else json.dumps(body)
        self._kept.request(method, f"{path}?{_encoded(query)}", text, sent)
        response = self._kept.getresponse()
        data = response.read()
        if response.status == HTTPStatus.NOT_FOUND and not data.startswith(b"{"):
            # A kind that no CustomResourceDefinition defines (yet) gets no Status object.
            raise NotFound(data.decode())
        body: Object = json.loads(data)
        if response.status >= 400:
            raise decode_error(body)
        return body

    def watch(self, path: str, query: Mapping[str, Any]) -> "RestWatch":
        connection = self._connection()
        connection.request("GET", f"{path}?{_encoded(query)}", headers=self._headers)
        response = connection.getresponse()
        if response.status >= 400:
            body = json.loads(response.read())
            connection.close()
            raise decode_error(body)
        return RestWatch(connection, response)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._kept.close()


def _encoded(query: Mapping[str, Any]) -> str:
    return urlencode({name: value for name, value in query.items() if value not in ("", 0, False)})


class RestWatch:
    """A watch that reads events from its connection."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self._events: list[Event] = []
        self._bookmarks: list[Object] = []

    def next_events(self, count: int) -> list[Event]:
        while len(self._events) < count:
            self._read()
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    def next_bookmark(self) -> Object:
        while not self._bookmarks:
            self._read()
        return self._bookmarks.pop(0)

    def stop(self) -> None:
        self._response.close()
        self._connection.close()

    def _read(self) -> None:
        line = self._response.readline()
        assert line, f"the watch has ended after {self._events}"
        event = json.loads(line)
        if event["type"] == "ERROR":
            self.stop()
            raise decode_error(event["object"])
        if event["type"] == "BOOKMARK":
            self._bookmarks.append(event["object"])
        else:
            self._events.append((event["type"], event["object"]))


class RestServer:
    """A server that other clients may use at the same time."""

    def __init__(self, connection: Connection, *, test: str) -> None:
        self._connection = connection
        self._test = test
        self.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    @property
    def namespace(self) -> str:
        return f"contract-{self._test}"

    def unique(self, name: str) -> str:
        return f"{name}-{self._test}"

    def wait_for_controllers(self) -> None:
        pass

    def compacted_version(self) -> str:
        return "1"

    def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object:
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        return self._connection.request("GET", path, {})

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
        return self._connection.request("POST", path, _writing(manager, dry_run), _typed(resource, obj))

    def update(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "", manager: str = ""
    ) -> Object:
        meta = obj["metadata"]
        path = self._path(resource, meta["name"], subresource=subresource)
        body = obj if subresource == "scale" else _typed(resource, obj)
        return self._connection.request("PUT", path, _writing(manager, False), body)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: str = MERGE,
        *,
        namespace: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        return self._connection.request("PATCH", path, _writing(manager, dry_run), patch, patch_type)

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
        return self._connection.request("PATCH", path, query, _typed(resource, config), APPLY)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        options: Object = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation_policy,
            **_preconditions(uid, resource_version),
        }
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        self._connection.request("DELETE", self._path(resource, name, namespace=namespace), {}, options)

    def delete_collection(self, resource: Resource, *, label_selector: str) -> None:
        self._connection.request("DELETE", self._path(resource), {"labelSelector": label_selector})

    def list(
        self,
        resource: Resource,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Object:
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit,
            "continue": continue_token,
            "resourceVersion": resource_version,
            "resourceVersionMatch": "Exact" if exact else "",
        }
        return self._connection.request("GET", self._path(resource), query)

    def watch(
        self,
        resource: Resource,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        allow_bookmarks: bool = False,
        send_initial_events: bool = False,
    ) -> WatchHandle:
        query = {
            "watch": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if allow_bookmarks else "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
            "timeoutSeconds": _BOOKMARK_WATCH_TIMEOUT if allow_bookmarks else _WATCH_TIMEOUT,
        }
        return self._connection.watch(self._path(resource), query)

    def evict(self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False) -> None:
        options: Object = _preconditions(uid, resource_version)
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": options,
        }
        self._connection.request("POST", self._path(PODS, name, subresource="eviction"), {}, body)

    def bind(self, name: str, binding: Mapping[str, Any]) -> None:
        meta = {"name": name, "namespace": self.namespace, **(binding.get("metadata") or {})}
        body = {"apiVersion": "v1", "kind": "Binding", **binding, "metadata": meta}
        self._connection.request("POST", self._path(PODS, name, subresource="binding"), {}, body)

    def _path(self, resource: Resource, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        where = f"/namespaces/{namespace or self.namespace}" if resource.namespaced else ""
        steps = [resource.plural, *(quote(part) for part in (name, subresource) if part)]
        return f"{root}{where}/{'/'.join(steps)}"


def _typed(resource: Resource, obj: Mapping[str, Any]) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _writing(manager: str, dry_run: bool) -> Object:
    return {"fieldManager": manager, "dryRun": "All" if dry_run else ""}


def _preconditions(uid: str, resource_version: str) -> Object:
    values = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {name: value for name, value in values.items() if value}
    return {"preconditions": preconditions} if preconditions else {}
