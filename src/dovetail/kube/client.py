"""``ports.kube_client.KubeClient`` over HTTP."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from dovetail.kube.connection import Connection, resource_path
from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Gone, Unavailable

PAGE_SIZE: Final = 500
FIELD_MANAGER: Final = "karpenter"
"""Field manager of our writes; the same name as the source of Events."""
_MERGE_PATCH: Final = "application/merge-patch+json"


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list, with the resourceVersion of the whole list."""

    items: list[Object]
    resource_version: str


async def list_pages(
    connection: Connection, resource: Resource, *, labels: str = "", fields: str = "", size: int = PAGE_SIZE
) -> AsyncGenerator[ListPage, None]:
    """Yield a list page by page, so that it is never in memory as a whole.

    Raises ``Gone`` if the continue token expires before the last page.
    """
    path, token = resource_path(resource), ""
    while True:
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(size) if size else "",
            "continue": token,
        }
        response = await connection.request(
            "GET", path, query={name: value for name, value in query.items() if value}
        )
        version = resource_version(response)
        yield ListPage(response.get("items") or [], version)
        token = response["metadata"].get("continue") or ""
        if not token:
            return


def resource_version(obj: Object) -> str:
    """Return the resourceVersion of an object or list; raise if it has none."""
    meta = obj.get("metadata")
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    if not isinstance(version, str) or not version:
        raise Unavailable("the response of the API server is not an object: no resourceVersion")
    return version


class HttpKubeClient:
    """API verbs; each is one request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._connection.request("GET", resource_path(resource, name, namespace=namespace))

    async def list(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Object]:
        try:
            return await self._list(resource, labels, fields, PAGE_SIZE)
        except Gone:
            # The continue token expired; a list without pages cannot.
            return await self._list(resource, labels, fields, 0)

    async def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._connection.request(
            "POST", resource_path(resource, namespace=namespace), query=_AS_FIELD_MANAGER, body=body
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
        return await self._connection.request(
            "PATCH",
            resource_path(resource, name, namespace=namespace, subresource=subresource),
            query=_AS_FIELD_MANAGER,
            body=patch,
            content_type=_MERGE_PATCH,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        response = await self._connection.request(
            "DELETE",
            resource_path(resource, name, namespace=namespace),
            body=_delete_options(uid, grace_seconds),
        )
        return response if _is_terminating(response) else None

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, None),
        }
        path = resource_path(PODS, name, namespace=namespace, subresource="eviction")
        await self._connection.request("POST", path, body=eviction)

    async def _list(self, resource: Resource, labels: str, fields: str, size: int) -> Sequence[Object]:
        objects: list[Object] = []
        reader = list_pages(self._connection, resource, labels=labels, fields=fields, size=size)
        async with aclosing(reader) as pages:
            async for page in pages:
                objects += page.items
        return objects


_AS_FIELD_MANAGER: Final = {"fieldManager": FIELD_MANAGER}


def _delete_options(uid: str, grace_seconds: int | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _is_terminating(response: Object) -> bool:
    """Return True if a deleted object still exists, with finalizers or grace period.

    The response contains a pod even if it is gone; then its grace period is 0.
    """
    if response.get("kind") == "Status":
        return False
    meta = response["metadata"]
    return bool(meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"))
