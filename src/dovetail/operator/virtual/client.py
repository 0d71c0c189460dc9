"""Client of a virtual account in another process: ``ports.cloudprovider`` over HTTP."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import aiohttp
import msgspec

from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.operator.virtual.protocol import Request, Response, decode, decode_error, encode
from dovetail.ports.cloudprovider import CloudError, Instance, InterruptionMessage, NodeClassStatus
from dovetail.ports.event_loop import EventLoop
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.state.cloudprovider import BaseCloudProvider
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings

_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
_MUTATING: Final = frozenset({"create", "delete", "remove"})
_POLL_INTERVAL: Final = timedelta(seconds=1)
_MAX_POLLS: Final = 20


class AccountClient:
    """HTTP client of an account; ``close`` it."""

    def __init__(self, url: str, *, cluster: str, fence: Callable[[], None] = lambda: None) -> None:
        """``fence`` runs right before a mutating call, and raises to prevent it."""
        self._url = url.rstrip("/")
        self._cluster = cluster
        self._fence = fence
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT, headers={"Content-Type": "application/json"})

    async def close(self) -> None:
        await self._session.close()

    async def call(self, method: str, **fields: Any) -> Response:
        """Call a method; raise ``CloudError`` if the account does not respond."""
        body = encode(Request(cluster=self._cluster, **fields))
        if method in _MUTATING:
            self._fence()
        try:
            async with self._session.post(f"{self._url}/{method}", data=body) as response:
                content = await response.read()
                if response.status >= 400:
                    raise CloudError(f"the virtual account returned status {response.status}")
        except (aiohttp.ClientError, OSError) as error:
            raise CloudError(f"the virtual account at {self._url} does not respond") from error
        try:
            return decode(content, Response)
        except msgspec.MsgspecError as error:
            raise CloudError(f"the virtual account returned an invalid response: {error}") from error

    async def launches(self) -> Sequence[LaunchRecord]:
        """Return every launch so far."""
        return (await self.call("launches")).launches


class VirtualCloudProvider(BaseCloudProvider):
    """``ports.cloudprovider.CloudProvider``; computes instance types itself."""

    def __init__(
        self,
        account: AccountClient,
        *,
        instance_types: InstanceTypeProvider,
        unavailable: UnavailableOfferings,
        overlays: NodeOverlays,
        loop: EventLoop,
        node_class: Callable[[str], EC2NodeClass | None],
    ) -> None:
        super().__init__(instance_types, overlays=overlays, node_class=node_class, loop=loop)
        self._account = account
        self._unavailable = unavailable

    async def create(self, claim: NodeClaim) -> Instance:
        pool, overlays = self._overlays.get_for_claim(claim) or (None, ())
        response = await self._call_for_claim(claim, "create", pool=pool, overlays=overlays)
        return response.required_instance

    async def delete(self, provider_id: str) -> None:
        await self._call("delete", provider_id=provider_id)

    async def get(self, provider_id: str) -> Instance:
        return (await self._call("get", provider_id=provider_id)).required_instance

    async def list(self) -> Sequence[Instance]:
        return (await self._call("list")).instances

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        return (await self._call_for_claim(claim, "drift")).drift_reason

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return (await self._call("resolve", node_class_object=node_class)).required_status

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        """Do nothing: a virtual account has no resources per node class."""

    async def _call_for_claim(self, claim: NodeClaim, method: str, **fields: Any) -> Response:
        node_class = self._node_class(claim.node_class.name)
        return await self._call(method, claim=claim, node_class=node_class, **fields)

    async def _call(self, method: str, **fields: Any) -> Response:
        response = await self._account.call(method, **fields)
        self._unavailable.mark_unavailable(response.unavailable, now=self._loop.now())
        if response.error is not None:
            raise decode_error(response.error)
        return response


class VirtualInterruptionQueue:
    """``ports.cloudprovider.InterruptionQueue`` of a virtual account."""

    def __init__(self, account: AccountClient, *, loop: EventLoop) -> None:
        self._account = account
        self._loop = loop

    async def receive(self) -> Sequence[InterruptionMessage]:
        """Return messages; poll for a while if there are none."""
        for _ in range(_MAX_POLLS):
            messages = (await self._account.call("receive")).messages
            if messages:
                return messages
            await self._loop.sleep(_POLL_INTERVAL)
        return ()

    async def delete(self, message: InterruptionMessage) -> None:
        await self._account.call("remove", message=message)
