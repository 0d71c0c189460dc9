"""A remote API server as simulated actors use one: each call comes back when it is done."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.paths import path_of
from dovetail.operator.virtual.watch_cache import Shadow, Subscription
from dovetail.operator.virtual.worker_thread import Pump
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
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import ListOptions, WatchOptions

_STRATEGIC: Final = "application/strategic-merge-patch+json"
_PASSING: Final = (Unavailable, Timeout, TooManyRequests, InternalError)
"""A kubelet outlives an API server that is away."""
_PAUSE: Final = timedelta(milliseconds=500)
_PATIENCE: Final = 10
_NODE: Final = "spec.nodeName="


class Stopped(DovetailError):
    """The process ends."""


class Found(msgspec.Struct, frozen=True):
    """The answer to a list."""

    items: Sequence[Object]


class RemoteApi:
    """``simulator.apiserver.interface.Verbs`` over HTTP; for the pump's thread only.

    Kinds of the shadow are read from it, as real kubelets read from their
    watches. What is written to an object that is gone, or is another one by now,
    is lost without a word: the watch will tell.
    """

    def __init__(
        self, connection: Connection, shadow: Shadow, pump: Pump, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._connection = connection
        self._kube = HttpKube(connection)
        self._shadow = shadow
        self._pump = pump
        self._loop = loop
        self._renewing: set[str] = set()

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        shelf = self._shadow.shelves.get(resource)
        if shelf is None:
            return self._done(lambda: self._kube.get(resource, name, namespace))
        known = shelf.objects.get((namespace, name))
        if known is None:
            raise NotFound(f'{resource.qualified} "{name}" not found')
        return known

    def list(self, resource: Resource, which: ListOptions = ListOptions()) -> Found:  # noqa: B008
        """Return what is known of a kind; ``which`` may name a node, nothing else."""
        known = self._shadow.shelves[resource].objects.values()
        if not which.fields:
            return Found(list(known))
        if not which.fields.startswith(_NODE):
            raise ValueError(f"cannot select by {which.fields}")
        node = which.fields.removeprefix(_NODE)
        return Found([one for one in known if one["spec"].get("nodeName") == node])

    def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        return self._seen(resource, self._done(lambda: self._kube.create(resource, obj, namespace)))

    def update(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = ""
    ) -> Object:
        """Write the status as kubelets do, field by field; all else if nobody else has written."""
        meta = obj["metadata"]
        path = path_of(
            resource, meta["name"], namespace=meta.get("namespace", ""), subresource=subresource
        )
        try:
            if subresource:
                patch = {"metadata": {"uid": meta["uid"]}, subresource: obj[subresource]}
                answer = self._ask("PATCH", path, patch, _STRATEGIC)
            else:
                answer = self._ask("PUT", path, obj)
        except (NotFound, Conflict):
            return dict(obj)
        return self._seen(resource, answer)

    def renew(self, name: str, namespace: str, *, at: str) -> Object:
        """Begin to renew a lease; all nodes' are renewed side by side, and soon again."""
        patch = {"spec": {"renewTime": at}}
        if name not in self._renewing:
            self._renewing.add(name)
            made = self._kube.patch(LEASES, name, patch, namespace)
            begun = asyncio.run_coroutine_threadsafe(made, self._loop)
            begun.add_done_callback(lambda done: self._renewed(name, done))
        return patch

    def _renewed(self, name: str, done: Future[Object]) -> None:
        self._renewing.discard(name)
        if not done.cancelled():
            done.exception()  # Whatever it was, the next time is soon.

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        options: DeleteOptions = DeleteOptions(),  # noqa: B008 - frozen
    ) -> Object:
        grace = options.grace_seconds

        async def delete() -> Object:
            left = await self._kube.delete(
                resource, name, namespace, uid=options.uid, grace_seconds=grace
            )
            return left or {}

        try:
            return self._done(delete)
        except (NotFound, Conflict):
            return {}

    def watch(
        self,
        resource: Resource,
        which: WatchOptions = WatchOptions(),  # noqa: B008 - frozen
        *,
        notify: Callable[[], None] | None = None,
    ) -> Subscription:
        """Follow a kind from what is known of it now; ``which`` is not looked at."""
        return self._shadow.shelves[resource].subscribe(notify)

    def _ask(self, method: str, path: str, body: Any, kind: str = "application/json") -> Object:
        return self._done(lambda: self._connection.ask(method, path, body=body, content_type=kind))

    def _seen(self, resource: Resource, obj: Object) -> Object:
        shelf = self._shadow.shelves.get(resource)
        if shelf is not None:
            shelf.put(obj)
        return obj

    def _done(self, request: Callable[[], Any]) -> Object:
        """Have a request made on the loop, and wait; again and again while the server is away.

        What it fails to do though it is there is not tried for ever: one object
        must not keep all kubelets waiting.
        """
        failures = 0
        while not self._pump.is_stopped:
            try:
                made = asyncio.run_coroutine_threadsafe(request(), self._loop)
                answer: Object = made.result()
                return answer
            except _PASSING as error:
                failures += isinstance(error, InternalError)
                if failures == _PATIENCE:
                    raise
                asyncio.run_coroutine_threadsafe(
                    asyncio.sleep(_PAUSE.total_seconds()), self._loop
                ).result()
            except CancelledError:
                break
        raise Stopped("the process ends")
