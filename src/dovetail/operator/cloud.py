"""Cloud factory: builds the cloud provider and its companions for one process."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from dovetail.ports.cloudprovider import (
    CloudProvider,
    InstanceStatusProvider,
    InstanceTagger,
    InterruptionMessage,
    InterruptionQueue,
    ZonalShiftProvider,
)
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings

_POLL_DURATION: Final = timedelta(hours=1)


def _allow_writes() -> None:
    """Do nothing."""


async def _return_at_once() -> None:
    """Do nothing."""


class CloudContext(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of a cloud factory. The cache is still empty when it is called."""

    loop: EventLoop
    random: RandomSource
    log: Log
    metrics: Metrics
    kube: KubeClient
    cache: ClusterCache
    unavailable_offerings: UnavailableOfferings
    nodeoverlays: NodeOverlays = msgspec.field(default_factory=NodeOverlays)
    kubernetes_version: str
    get_kubernetes_version: Callable[[], Awaitable[str]]
    """Reads the version again: a cluster may be upgraded while the process runs."""
    ca_certificates: str
    """Certificate authorities of the API server, PEM; empty if they are public ones."""
    fence: Callable[[], None] = _allow_writes
    """Raises unless this replica leads; called right before each write to the cloud."""
    wait_until_leader: Callable[[], Awaitable[object]] = _return_at_once
    """Returns when this replica leads; background tasks write nothing before."""


class CloudServices(msgspec.Struct, frozen=True, kw_only=True):
    """Products of a cloud factory."""

    cloud_provider: CloudProvider
    interruption_queue: InterruptionQueue
    instance_status: InstanceStatusProvider | None = None
    instance_tagger: InstanceTagger | None = None
    zonal_shifts: ZonalShiftProvider | None = None
    close: Callable[[], None]
    """Releases threads; returns at once."""
    shutdown: Callable[[], Awaitable[None]] = _return_at_once
    """Ends what needs a moment; called last."""
    provider_name: str = "aws"
    """Value of the metric label ``provider``."""
    cluster_ca_bundle: str = ""
    """Certificate authority that nodes get in their user data, base64."""


CloudFactory = Callable[[CloudContext], Awaitable[CloudServices]]
"""Raises ``DovetailError`` if the cloud cannot be used."""


class NoInterruptionQueue:
    """``ports.cloudprovider.InterruptionQueue`` without messages."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    async def receive(self) -> Sequence[InterruptionMessage]:
        """Return nothing after a long poll: the controller calls again at once."""
        await self._loop.sleep(_POLL_DURATION)
        return ()

    async def delete(self, message: InterruptionMessage) -> None:
        """Do nothing."""
