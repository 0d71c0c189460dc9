"""``ports.kube_client.Kube`` over HTTP."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from dovetail.kube.connection import Connection
from dovetail.kube.paths import path_of
from dovetail.ports.api_resources import PODS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Gone, Unavailable

PAGE: Final = 500
FIELD_MANAGER: Final = "karpenter"
"""Who is said to own what we write; the same name as the Events' source."""
_MERGE: Final = "application/merge-patch+json"


class Page(msgspec.Struct, frozen=True):
    """Some objects of a list, and the revision that the whole list is of."""

    items: list[Object]
    revision: str


async def pages(
    connection: Connection,
    resource: Resource,
    *,
    labels: str = "",
    fields: str = "",
    size: int = PAGE,
) -> AsyncGenerator[Page, None]:
    """Yield a list page by page, so that it is never in memory as a whole.

    Raises ``Gone`` when reading takes so long that the server forgets the list.
    """
    path, token = path_of(resource), ""
    while True:
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(size) if size else "",
            "continue": token,
        }
        found = await connection.ask("GET", path, query=_given(query))
        revision = revision_of(found)
        yield Page(found.get("items") or [], revision)
        token = found["metadata"].get("continue") or ""
        if not token:
            return


def revision_of(obj: Object) -> str:
    """Return the version of an object or a list; raises when it has none, so is none."""
    meta = obj.get("metadata")
    revision = meta.get("resourceVersion") if isinstance(meta, dict) else None
    if not isinstance(revision, str) or not revision:
        raise Unavailable("the API server's answer is no object: it has no resourceVersion")
    return revision


class HttpKube:
    """The verbs, each one request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._connection.ask("GET", path_of(resource, name, namespace=namespace))

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        try:
            return await self._list(resource, labels, fields, PAGE)
        except Gone:
            # Too slow for pages; all at once is always possible.
            return await self._list(resource, labels, fields, 0)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._connection.ask(
            "POST", path_of(resource, namespace=namespace), query=_AS_US, body=whole
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
        return await self._connection.ask(
            "PATCH",
            path_of(resource, name, namespace=namespace, subresource=subresource),
            query=_AS_US,
            body=patch,
            content_type=_MERGE,
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
        answer = await self._connection.ask(
            "DELETE",
            path_of(resource, name, namespace=namespace),
            body=_delete_options(uid, grace_seconds),
        )
        return answer if _is_kept(answer) else None

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, None),
        }
        path = path_of(PODS, name, namespace=namespace, subresource="eviction")
        await self._connection.ask("POST", path, body=eviction)

    async def _list(
        self, resource: Resource, labels: str, fields: str, size: int
    ) -> Sequence[Object]:
        found: list[Object] = []
        reading = pages(self._connection, resource, labels=labels, fields=fields, size=size)
        async with aclosing(reading) as read:
            async for page in read:
                found += page.items
        return found


_AS_US: Final = {"fieldManager": FIELD_MANAGER}


def _given(query: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}


def _delete_options(uid: str, grace_seconds: int | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _is_kept(answer: Object) -> bool:
    """Tell from the answer to a deletion whether something waits with it.

    A pod is shown even when it is gone already; then it had no grace left.
    """
    if answer.get("kind") == "Status":
        return False
    meta = answer["metadata"]
    return bool(meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"))
