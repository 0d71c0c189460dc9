"""Who looks on while the API is written to, and notes what that took."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.kube import Kube, Object
from dovetail.ports.resources import PODS, Resource
from tests.support.permissions import Permission, permission


class NotingKube:
    """``ports.kube.Kube`` that notes what is asked of another."""

    def __init__(self, kube: Kube, seen: set[Permission]) -> None:
        self._kube = kube
        self._seen = seen

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._seen.add(permission(resource, "get"))
        return await self._kube.get(resource, name, namespace)

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        self._seen.add(permission(resource, "list"))
        return await self._kube.list(resource, labels=labels, fields=fields)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        self._seen.add(permission(resource, "create"))
        return await self._kube.create(resource, obj, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        self._seen.add(permission(resource, "patch", subresource))
        return await self._kube.patch(resource, name, patch, namespace, subresource=subresource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        self._seen.add(permission(resource, "delete"))
        return await self._kube.delete(
            resource, name, namespace, uid=uid, grace_seconds=grace_seconds
        )

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        self._seen.add(permission(PODS, "evict"))
        await self._kube.evict(name, namespace, uid=uid)
