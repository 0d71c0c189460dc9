"""API server interface of simulated kubelets and controllers.

Implemented in memory by ``server.ApiServer``, and over HTTPS for a real API server
by ``operator.virtual``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions, WatchOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import WatchEvent


class ListResult(Protocol):
    """Result of a list."""

    @property
    def items(self) -> Sequence[Object]: ...


class WatchStream(Protocol):
    """Queue of watch events that the watcher polls."""

    def poll(self) -> list[WatchEvent]:
        """Return the events since the last call, oldest first."""

    def stop(self) -> None: ...


class ApiClient(Protocol):
    """Subset of the methods of ``server.ApiServer``, with the same semantics."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    def list(self, resource: Resource, options: ListOptions = ...) -> ListResult: ...

    def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object: ...

    def update(self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "") -> Object: ...

    def renew_lease(self, name: str, namespace: str, *, renew_time: str) -> Object: ...

    def delete(
        self, resource: Resource, name: str, namespace: str = "", *, options: DeleteOptions = ...
    ) -> Object: ...

    def watch(
        self, resource: Resource, options: WatchOptions = ..., *, notify: Callable[[], None] | None = None
    ) -> WatchStream: ...


def find_object(api: ApiClient, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """Return the current object; None if it does not exist."""
    try:
        return api.get(resource, name, namespace)
    except NotFound:
        return None
