"""A Kube in front of another, through which every request passes at one place."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import Kube, Object

T = TypeVar("T")
READS = ("get", "list")


class Request(msgspec.Struct, frozen=True):
    """What is asked of the API server."""

    verb: str
    """``get``, ``list``, ``create``, ``patch``, ``delete`` or ``evict``."""
    resource: Resource
    name: str = ""
    subresource: str = ""


class Front:
    """``ports.kube_client.Kube`` that hands all on; change ``passing`` to have a say in it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        """Return the answer; nothing is asked before it is awaited."""
        return await answer

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        answer = self._kube.get(resource, name, namespace)
        return await self.passing(Request("get", resource, name), answer)

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        answer = self._kube.list(resource, labels=labels, fields=fields)
        return await self.passing(Request("list", resource), answer)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        answer = self._kube.create(resource, obj, namespace)
        return await self.passing(
            Request("create", resource, obj["metadata"].get("name", "")), answer
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        answer = self._kube.patch(resource, name, patch, namespace, subresource=subresource)
        return await self.passing(Request("patch", resource, name, subresource), answer)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        answer = self._kube.delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)
        return await self.passing(Request("delete", resource, name), answer)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        answer = self._kube.evict(name, namespace, uid=uid)
        return await self.passing(Request("evict", PODS, name), answer)
