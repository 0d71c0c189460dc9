"""The Kubernetes API as controllers write to it; they read from ``state.cluster.cache``."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource

Object = dict[str, Any]
"""A Kubernetes object as its JSON. Nobody changes one: build a patch instead."""


class Kube(Protocol):
    """Verbs that raise ``ports.kube_errors`` (NotFound, Conflict, TooManyRequests …)."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return an object as the API server has it now."""

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        """Return the objects that the selectors match, in all namespaces."""

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        """Merge a patch (RFC 7386): maps are merged, lists replaced, null removes.

        With ``metadata.resourceVersion`` in it the patch is refused with Conflict
        when somebody else has written since: an optimistic lock.
        """

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        """Ask for an object to go; return it if finalizers or grace keep it for now.

        A ``uid`` that is no longer the object's is a Conflict.
        """

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        """Delete a pod unless a budget forbids it now (TooManyRequests).

        InternalError when several budgets match the pod, as Kubernetes has it.
        """
