"""A Kube whose writes are noted, and refused when a test says so."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dovetail.ports.kube import Kube, Object
from dovetail.ports.resources import PODS, Resource

Note = Callable[[str, str], Awaitable[None]]
"""Told of each change that came through: its verb, and what was changed."""


class Faults:
    """``ports.kube.Kube`` in front of another."""

    def __init__(self, kube: Kube, *, note: Note) -> None:
        self._kube = kube
        self._note = note
        self._failing: dict[tuple[str, Resource], list[Exception]] = {}

    def fail(self, verb: str, resource: Resource, *errors: Exception) -> None:
        """Have the next writes be refused; verbs are as noted: ``patch status``, ``delete`` …"""
        self._failing.setdefault((verb, resource), []).extend(errors)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._kube.get(resource, name, namespace)

    async def list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> Sequence[Object]:
        return await self._kube.list(resource, labels=labels, fields=fields)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        self._refuse("create", resource)
        made = await self._kube.create(resource, obj, namespace)
        await self._note("create", f"{resource.kind}/{made['metadata']['name']}")
        return made

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        verb = f"patch {subresource}".rstrip()
        self._refuse(verb, resource)
        made = await self._kube.patch(resource, name, patch, namespace, subresource=subresource)
        await self._note(verb, f"{resource.kind}/{name}")
        return made

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        self._refuse("delete", resource)
        left = await self._kube.delete(
            resource, name, namespace, uid=uid, grace_seconds=grace_seconds
        )
        await self._note("delete", f"{resource.kind}/{name}")
        return left

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        self._refuse("evict", PODS)
        await self._kube.evict(name, namespace, uid=uid)
        await self._note("evict", f"Pod/{name}")

    def _refuse(self, verb: str, resource: Resource) -> None:
        if self._failing.get((verb, resource)):
            raise self._failing[(verb, resource)].pop(0)
