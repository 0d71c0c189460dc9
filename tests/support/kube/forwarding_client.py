"""A KubeClient that forwards every request to another in one method."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import KubeClient, Object

T = TypeVar("T")
READS = ("get", "list")


class Request(msgspec.Struct, frozen=True):
    """A request to the API server."""

    verb: str
    """``get``, ``list``, ``create``, ``patch``, ``delete`` or ``evict``."""
    resource: Resource
    name: str = ""
    subresource: str = ""


class ForwardingKubeClient:
    """``ports.kube_client.KubeClient``; subclasses override ``forward``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        """Return the response; the request is sent when ``response`` is awaited."""
        return await response

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        response = self._kube.get(resource, name, namespace)
        return await self.forward(Request("get", resource, name), response)

    async def list(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Object]:
        response = self._kube.list(resource, labels=labels, fields=fields)
        return await self.forward(Request("list", resource), response)

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        response = self._kube.create(resource, obj, namespace)
        return await self.forward(Request("create", resource, obj["metadata"].get("name", "")), response)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        response = self._kube.patch(resource, name, patch, namespace, subresource=subresource)
        return await self.forward(Request("patch", resource, name, subresource), response)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        response = self._kube.delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)
        return await self.forward(Request("delete", resource, name), response)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        response = self._kube.evict(name, namespace, uid=uid)
        return await self.forward(Request("evict", PODS, name), response)
