"""KubeClient: port to the API server, for writes and uncached reads.

Controllers read from ``state.cluster.cache`` and write through this port.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource

Object = dict[str, Any]
"""A Kubernetes object in wire format. Treat it as immutable: build a patch instead."""


class KubeClient(Protocol):
    """Verbs of the API; they raise ``ports.kube_errors`` (NotFound, Conflict …)."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return an object from the API server."""

    async def list(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Object]:
        """Return the objects that the selectors match, in all namespaces."""

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        """Apply a merge patch (RFC 7386): maps are merged, lists replaced, null removes.

        With ``metadata.resourceVersion`` in the patch, a concurrent write raises
        Conflict (optimistic lock).
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
        """Delete an object; return it while finalizers or a grace period keep it.

        Raises Conflict if ``uid`` is given and the object has another UID.
        """

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        """Evict a pod; raises TooManyRequests if a PodDisruptionBudget forbids it now.

        Raises InternalError if several budgets match the pod, as Kubernetes does.
        """
