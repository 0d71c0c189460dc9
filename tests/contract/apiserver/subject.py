"""What the suite asks of an API server, simulated or real."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource

Object = dict[str, Any]
"""A Kubernetes object as its JSON; the caller may change it."""
Event = tuple[str, Object]
"""ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Watching(Protocol):
    """A watch that is under way."""

    def take(self, count: int) -> list[Event]:
        """Wait for the next events, bookmarks left out; raises what ends the watch."""
        ...

    def bookmark(self) -> Object:
        """Wait for a bookmark; only of a watch that asked for them."""
        ...

    def stop(self) -> None: ...


class Subject(Protocol):
    """An API server with a namespace for one test; raises ``ports.kube_errors``.

    Namespaced objects are looked for in ``namespace`` unless another is named.
    Cluster-wide ones get names from ``unique``, for others may use the server, too.
    """

    @property
    def namespace(self) -> str: ...

    def unique(self, name: str) -> str: ...

    def settle(self) -> None:
        """Wait until controllers of Kubernetes itself have done their part.

        Those are: the collection of garbage, the end of namespaces, the
        status of PodDisruptionBudgets.
        """
        ...

    def an_old_version(self) -> str:
        """Return a resourceVersion that the server no longer remembers."""
        ...

    def get(
        self, resource: Resource, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Object: ...

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object: ...

    def update(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> Object: ...

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
    ) -> Object: ...

    def apply(
        self,
        resource: Resource,
        config: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object: ...

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
    ) -> None: ...

    def delete_all(self, resource: Resource, *, labels: str) -> None: ...

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
        """Return a List: ``items``, and ``metadata`` with what paging needs."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
        initial_events: bool = False,
    ) -> Watching: ...

    def evict(
        self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None: ...

    def bind(self, name: str, binding: Mapping[str, Any]) -> None: ...
