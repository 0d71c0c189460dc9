"""An API server whose answers take as long as a test likes, and come in any order."""

from collections.abc import Mapping
from typing import Any

from dovetail.ports.kube import Object
from dovetail.ports.resources import Resource
from dovetail.sim.kube import SimKube
from dovetail.sim.loop import Pause


class SlowKube(SimKube):
    """Writes happen at once; the writer hears of it when a test lets an answer through."""

    waiting: list[Pause]

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        self.waiting = []

    def let_through(self, which: int) -> None:
        """Let one of the answers that are under way arrive."""
        self.waiting.pop(which % len(self.waiting)).end()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found = await super().get(resource, name, namespace)
        await self._later()
        return found

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        made = await super().create(resource, obj, namespace)
        await self._later()
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
        made = await super().patch(resource, name, patch, namespace, subresource=subresource)
        await self._later()
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
        try:
            return await super().delete(
                resource, name, namespace, uid=uid, grace_seconds=grace_seconds
            )
        finally:
            await self._later()

    async def _later(self) -> None:
        pause = Pause()
        self.waiting.append(pause)
        await pause
