"""Blocking API client: the simulator's API interface on a remote API server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection, resource_path
from dovetail.operator.virtual.watch_cache import Subscription, WatchCache
from dovetail.operator.virtual.worker_thread import WorkerThread
from dovetail.ports.api_resources import LEASES, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import (
    Conflict,
    InternalError,
    NotFound,
    Timeout,
    TooManyRequests,
    Unavailable,
)
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions, WatchOptions

_STRATEGIC: Final = "application/strategic-merge-patch+json"
_RETRYABLE: Final = (Unavailable, Timeout, TooManyRequests, InternalError)
"""Errors that a kubelet retries: the API server is unavailable."""
_RETRY_DELAY: Final = timedelta(milliseconds=500)
_MAX_INTERNAL_ERRORS: Final = 10
_NODE_SELECTOR: Final = "spec.nodeName="


class ProcessStoppedError(DovetailError):
    """The process is stopping."""


class ObjectList(msgspec.Struct, frozen=True):
    """Result of a list."""

    items: Sequence[Object]


class BlockingApiClient:
    """The simulator's ``ApiClient`` over HTTP, for the worker thread only.

    Kinds of the watch cache are read from it, as real kubelets read from their
    watches. Writes to an object that is gone or was recreated are ignored: the
    watch reports it.
    """

    def __init__(
        self, connection: Connection, cache: WatchCache, worker: WorkerThread, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._connection = connection
        self._kube = HttpKubeClient(connection)
        self._cache = cache
        self._worker = worker
        self._loop = loop
        self._renewing: set[str] = set()

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        store = self._cache.stores.get(resource)
        if store is None:
            return self._run(lambda: self._kube.get(resource, name, namespace))
        obj = store.get(name, namespace)
        if obj is None:
            raise NotFound(f'{resource.qualified_name} "{name}" not found')
        return obj

    def list(self, resource: Resource, options: ListOptions = ListOptions()) -> ObjectList:  # noqa: B008
        """Return the cached objects of a kind; the only selector is the node name."""
        objects = self._cache.stores[resource].values()
        if not options.field_selector:
            return ObjectList(list(objects))
        if not options.field_selector.startswith(_NODE_SELECTOR):
            raise ValueError(f"cannot select by {options.field_selector}")
        node = options.field_selector.removeprefix(_NODE_SELECTOR)
        return ObjectList([obj for obj in objects if obj["spec"].get("nodeName") == node])

    def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        return self._record(resource, self._run(lambda: self._kube.create(resource, obj, namespace)))

    def update(self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "") -> Object:
        """Patch the status, as kubelets do; replace other objects if unchanged since."""
        meta = obj["metadata"]
        path = resource_path(
            resource, meta["name"], namespace=meta.get("namespace", ""), subresource=subresource
        )
        try:
            if subresource:
                patch = {"metadata": {"uid": meta["uid"]}, subresource: obj[subresource]}
                response = self._request("PATCH", path, patch, _STRATEGIC)
            else:
                response = self._request("PUT", path, obj)
        except (NotFound, Conflict):
            return dict(obj)
        return self._record(resource, response)

    def renew_lease(self, name: str, namespace: str, *, renew_time: str) -> Object:
        """Start to renew a lease; leases of all nodes are renewed concurrently."""
        patch = {"spec": {"renewTime": renew_time}}
        if name not in self._renewing:
            self._renewing.add(name)
            renewal = self._kube.patch(LEASES, name, patch, namespace)
            future = asyncio.run_coroutine_threadsafe(renewal, self._loop)
            future.add_done_callback(lambda done: self._finish_renewal(name, done))
        return patch

    def _finish_renewal(self, name: str, done: Future[Object]) -> None:
        self._renewing.discard(name)
        if not done.cancelled():
            done.exception()  # Marks the error as retrieved; the next renewal follows soon.

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        options: DeleteOptions = DeleteOptions(),  # noqa: B008 - frozen
    ) -> Object:
        grace = options.grace_period_seconds

        async def delete() -> Object:
            remaining = await self._kube.delete(
                resource, name, namespace, uid=options.uid, grace_seconds=grace
            )
            return remaining or {}

        try:
            return self._run(delete)
        except (NotFound, Conflict):
            return {}

    def watch(
        self,
        resource: Resource,
        options: WatchOptions = WatchOptions(),  # noqa: B008 - frozen
        *,
        notify: Callable[[], None] | None = None,
    ) -> Subscription:
        """Watch a kind from the cached objects on; ``options`` are ignored."""
        return Subscription(self._cache.stores[resource], notify)

    def _request(self, method: str, path: str, body: Any, kind: str = "application/json") -> Object:
        return self._run(lambda: self._connection.request(method, path, body=body, content_type=kind))

    def _record(self, resource: Resource, obj: Object) -> Object:
        store = self._cache.stores.get(resource)
        if store is not None:
            store.apply_response(obj)
        return obj

    def _run(self, request: Callable[[], Any]) -> Object:
        """Run a request on the loop and wait; retry while the server is unavailable.

        Internal errors are retried a few times only: one object must not block
        all kubelets.
        """
        failures = 0
        while not self._worker.is_stopped:
            try:
                future = asyncio.run_coroutine_threadsafe(request(), self._loop)
                response: Object = future.result()
                return response
            except _RETRYABLE as error:
                failures += isinstance(error, InternalError)
                if failures == _MAX_INTERNAL_ERRORS:
                    raise
                asyncio.run_coroutine_threadsafe(
                    asyncio.sleep(_RETRY_DELAY.total_seconds()), self._loop
                ).result()
            except CancelledError:
                break
        raise ProcessStoppedError("the process is stopping")
