"""``ports.cloudprovider`` on a virtual account in another process."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import aiohttp
import msgspec

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.operator.virtual.protocol import Answer, Call, decode, encode, error_of
from dovetail.ports.cloudprovider import ClassStatus, CloudError, Instance, Message
from dovetail.ports.event_loop import Loop
from dovetail.simulator.ec2.billing import Purchase
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity

_PATIENCE: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
_WRITES: Final = frozenset({"create", "delete", "remove"})
_POLL: Final = timedelta(seconds=1)
_POLLS: Final = 20


class Wire:
    """The way to an account; ``close`` it at the end."""

    def __init__(self, url: str, *, cluster: str, guard: Callable[[], None] = lambda: None) -> None:
        """``guard`` is asked right before anything is bought or given back."""
        self._url = url.rstrip("/")
        self._cluster = cluster
        self._guard = guard
        self._session = aiohttp.ClientSession(
            timeout=_PATIENCE, headers={"Content-Type": "application/json"}
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, method: str, **given: Any) -> Answer:
        """Make one call; raises ``CloudError`` when the account is not there."""
        body = encode(Call(cluster=self._cluster, **given))
        if method in _WRITES:
            self._guard()
        try:
            async with self._session.post(f"{self._url}/{method}", data=body) as response:
                read = await response.read()
                if response.status >= 400:
                    raise CloudError(f"the virtual account answered {response.status}")
        except (aiohttp.ClientError, OSError) as error:
            raise CloudError(f"the virtual account at {self._url} does not answer") from error
        try:
            return decode(read, Answer)
        except msgspec.MsgspecError as error:
            raise CloudError(
                f"the virtual account answered with something else: {error}"
            ) from error

    async def purchases(self) -> Sequence[Purchase]:
        """Return everything that was ever bought."""
        return (await self.ask("purchases")).purchases


class RemoteCloud:
    """``ports.cloudprovider.Cloud``; what can be bought is worked out here."""

    def __init__(
        self,
        wire: Wire,
        *,
        shelf: Shelf,
        scarcity: Scarcity,
        overlays: Overlays,
        loop: Loop,
        node_class: Callable[[str], NodeClass | None],
    ) -> None:
        self._wire = wire
        self._shelf = shelf
        self._scarcity = scarcity
        self._overlays = overlays
        self._loop = loop
        self._node_class = node_class

    async def create(self, claim: NodeClaim) -> Instance:
        return (await self._ask_about(claim, "create")).the_instance

    async def delete(self, provider_id: str) -> None:
        await self._ask("delete", provider_id=provider_id)

    async def get(self, provider_id: str) -> Instance:
        return (await self._ask("get", provider_id=provider_id)).the_instance

    async def list(self) -> Sequence[Instance]:
        return (await self._ask("list")).instances

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        node_class = self._node_class(pool.template.node_class.name)
        if node_class is None or node_class.deleting or not node_class.ready:
            return ()
        types = self._shelf.instance_types(node_class, now=self._loop.now())
        return self._overlays.applied(pool, types)

    async def drift(self, claim: NodeClaim) -> str | None:
        return (await self._ask_about(claim, "drift")).drift

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return (await self._ask("resolve", wire_class=node_class)).the_status

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Do nothing: node classes leave nothing behind in a virtual account."""

    async def _ask_about(self, claim: NodeClaim, method: str) -> Answer:
        known = self._node_class(claim.node_class.name)
        return await self._ask(method, claim=claim, node_class=known)

    async def _ask(self, method: str, **given: Any) -> Answer:
        answer = await self._wire.ask(method, **given)
        self._scarcity.mark(answer.scarce, now=self._loop.now())
        if answer.trouble is not None:
            raise error_of(answer.trouble)
        return answer


class RemoteInterruptions:
    """``ports.cloudprovider.Interruptions`` of a virtual account."""

    def __init__(self, wire: Wire, *, loop: Loop) -> None:
        self._wire = wire
        self._loop = loop

    async def receive(self) -> Sequence[Message]:
        """Return what is there; wait for a while when there is nothing."""
        for _ in range(_POLLS):
            found = (await self._wire.ask("receive")).messages
            if found:
                return found
            await self._loop.sleep(_POLL)
        return ()

    async def remove(self, message: Message) -> None:
        await self._wire.ask("remove", message=message)
