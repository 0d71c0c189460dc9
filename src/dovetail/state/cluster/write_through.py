"""Write-through: own writes are in the cluster cache before the watch reports them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import ApiError, Conflict, NotFound
from dovetail.state.cluster.cache import ClusterCache


class WriteThroughClient:
    """A ``KubeClient`` that applies every response of the API server to the cache.

    Without it a controller would act twice on stale state: launch a second node
    for pods whose first NodeClaim the watch has not reported yet. After a conflict
    the cache has the object that another client wrote.
    """

    def __init__(self, client: KubeClient, cache: ClusterCache) -> None:
        self._client = client
        self._cache = cache

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._apply_response(resource, await self._client.get(resource, name, namespace))

    async def list(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Object]:
        return await self._client.list(resource, labels=labels, fields=fields)

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        return self._apply_response(resource, await self._client.create(resource, obj, namespace))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        try:
            answer = await self._client.patch(resource, name, patch, namespace, subresource=subresource)
        except Conflict:
            await self._refresh(resource, name, namespace)
            raise
        meta = answer["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and resource is not PODS:
            # The patch removed the last finalizer, and with it the object.
            self._mark_deleted(resource, name, namespace, meta["uid"])
            return answer
        return self._apply_response(resource, answer)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        # Read the UID first: an object created under this name meanwhile is another one.
        deleted_uid = uid or self._get_uid(resource, name, namespace)
        try:
            left = await self._client.delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)
        except NotFound:
            self._mark_deleted(resource, name, namespace, deleted_uid)
            raise
        if left is None:
            self._mark_deleted(resource, name, namespace, deleted_uid)
            return None
        return self._apply_response(resource, left)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        await self._client.evict(name, namespace, uid=uid)

    async def _refresh(self, resource: Resource, name: str, namespace: str) -> None:
        """Read an object that is newer than the cache, so that a retry is based on it.

        A list of one object, because controllers may list every cached kind.
        """
        if resource not in self._cache.stores:
            return
        fields = f"metadata.name={name}" + (f",metadata.namespace={namespace}" if namespace else "")
        with suppress(ApiError):  # The watch reports the object, too.
            for obj in await self._client.list(resource, fields=fields):
                self._cache.apply_response(resource, obj)

    def _get_uid(self, resource: Resource, name: str, namespace: str) -> str:
        table = self._cache.stores.get(resource)
        return "" if table is None else table.uid(name, namespace)

    def _mark_deleted(self, resource: Resource, name: str, namespace: str, uid: str) -> None:
        if resource in self._cache.stores:
            self._cache.mark_deleted(resource, name, namespace, uid=uid)

    def _apply_response(self, resource: Resource, obj: Object) -> Object:
        if resource in self._cache.stores:
            self._cache.apply_response(resource, obj)
        return obj
