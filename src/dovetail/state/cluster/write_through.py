"""Writes that are in the mirror as soon as they are made, before any watch tells of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Mirror


class ReadYourWrites:
    """A ``Kube`` that shows the mirror every answer of the API server.

    Without this a controller would act twice on one picture: buy a second
    machine for pods whose first one the watch has not shown yet.
    """

    def __init__(self, kube: Kube, mirror: Mirror) -> None:
        self._kube = kube
        self._mirror = mirror

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._seen(resource, await self._kube.get(resource, name, namespace))

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        return await self._kube.list(resource, labels=labels, fields=fields)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        return self._seen(resource, await self._kube.create(resource, obj, namespace))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        answer = await self._kube.patch(resource, name, patch, namespace, subresource=subresource)
        meta = answer["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and resource is not PODS:
            # The patch took the last finalizer off, and the object went with it.
            self._bury(resource, name, namespace, meta["uid"])
            return answer
        return self._seen(resource, answer)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        # Whatever is made under this name while we wait for the answer is another object.
        meant = uid or self._uid(resource, name, namespace)
        try:
            left = await self._kube.delete(
                resource, name, namespace, uid=uid, grace_seconds=grace_seconds
            )
        except NotFound:
            self._bury(resource, name, namespace, meant)
            raise
        if left is None:
            self._bury(resource, name, namespace, meant)
            return None
        return self._seen(resource, left)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        await self._kube.evict(name, namespace, uid=uid)

    def _uid(self, resource: Resource, name: str, namespace: str) -> str:
        table = self._mirror.tables.get(resource)
        return "" if table is None else table.uid(name, namespace)

    def _bury(self, resource: Resource, name: str, namespace: str, uid: str) -> None:
        if resource in self._mirror.tables:
            self._mirror.bury(resource, name, namespace, uid=uid)

    def _seen(self, resource: Resource, obj: Object) -> Object:
        if resource in self._mirror.tables:
            self._mirror.answered(resource, obj)
        return obj
