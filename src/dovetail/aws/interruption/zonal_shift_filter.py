"""A cloud that does not touch machines in zones that are shifted away from."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import ClassStatus, Cloud, CloudError, Instance, Tagging
from dovetail.ports.event_loop import Clock
from dovetail.state.nodes.instances import Sightings


class TaggingCloud(Cloud, Tagging, Protocol):
    """A cloud whose machines can be tagged."""


class StayingAway:
    """``ports.cloudprovider.Cloud`` around another.

    What is in an impaired zone is told from memory and left alone: calls about it
    may hang, and a machine that does not show there may well be running.
    """

    def __init__(
        self, inner: TaggingCloud, *, is_shifted: Callable[[str], bool], clock: Clock
    ) -> None:
        self._inner = inner
        self._is_shifted = is_shifted
        self._clock = clock
        self._seen = Sightings()

    async def create(self, claim: NodeClaim) -> Instance:
        made = await self._inner.create(claim)
        self._seen.saw(made, now=self._clock.now())
        return made

    async def delete(self, provider_id: str) -> None:
        self._refuse(provider_id)
        await self._inner.delete(provider_id)

    async def get(self, provider_id: str) -> Instance:
        if not self._is_shifted(_zone_of(provider_id)):
            return await self._inner.get(provider_id)
        known = self._seen.ever(provider_id)
        if known is None:
            raise _left_alone(provider_id)
        return known

    async def list(self) -> Sequence[Instance]:
        found = await self._inner.list()
        shown = {one.provider_id for one in found}
        kept = [
            one
            for one in self._seen.all()
            if one.provider_id not in shown and self._is_shifted(one.zone)
        ]
        everything = [*found, *kept]
        self._seen.listed(everything, now=self._clock.now())
        return everything

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self._inner.instance_types(pool)

    async def drift(self, claim: NodeClaim) -> str | None:
        self._refuse(claim.provider_id)
        return await self._inner.drift(claim)

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return await self._inner.resolve(node_class)

    async def forget(self, node_class: dict[str, Any]) -> None:
        await self._inner.forget(node_class)

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        self._refuse(provider_id)
        await self._inner.tag(provider_id, node=node, claim=claim)

    def _refuse(self, provider_id: str) -> None:
        if self._is_shifted(_zone_of(provider_id)):
            raise _left_alone(provider_id)


def _zone_of(provider_id: str) -> str:
    return provider_id.rpartition("/")[0].rpartition("/")[2]


def _left_alone(provider_id: str) -> CloudError:
    zone = _zone_of(provider_id)
    return CloudError(
        f"{provider_id} is left alone while {zone} is shifted away from; it will be tried again"
    )
