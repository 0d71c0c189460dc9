"""Interface of the API servers under test, simulated or real."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource

Object = dict[str, Any]
"""A Kubernetes object as JSON; the caller may change it."""
Event = tuple[str, Object]
"""Event type (ADDED, MODIFIED, DELETED or BOOKMARK) and object."""

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class WatchHandle(Protocol):
    """An open watch."""

    def next_events(self, count: int) -> list[Event]:
        """Wait for the next events, without bookmarks; raises the error that ends the watch."""
        ...

    def next_bookmark(self) -> Object:
        """Wait for a bookmark, of a watch that allows them."""
        ...

    def stop(self) -> None: ...


class Subject(Protocol):
    """An API server with a namespace for one test; raises ``ports.kube_errors``.

    Namespaced objects are in ``namespace`` unless another one is given. Cluster-scoped
    objects need names from ``unique``, because other tests may use the server too.
    """

    @property
    def namespace(self) -> str: ...

    def unique(self, name: str) -> str: ...

    def wait_for_controllers(self) -> None:
        """Wait until Kubernetes' own controllers have reconciled.

        These are garbage collection, namespace deletion and the status of
        PodDisruptionBudgets.
        """
        ...

    def compacted_version(self) -> str:
        """Return a resourceVersion that the server has compacted."""
        ...

    def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object: ...

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
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "", manager: str = ""
    ) -> Object: ...

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
        grace_period_seconds: int | None = None,
        propagation_policy: str = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None: ...

    def delete_collection(self, resource: Resource, *, label_selector: str) -> None: ...

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
        """Return a List object: ``items``, and ``metadata`` with the continue token."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        allow_bookmarks: bool = False,
        send_initial_events: bool = False,
    ) -> WatchHandle: ...

    def evict(
        self, name: str, *, uid: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None: ...

    def bind(self, name: str, binding: Mapping[str, Any]) -> None: ...
