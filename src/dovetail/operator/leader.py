"""Leadership of one replica: by a Lease, or without election."""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dovetail import __version__
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import SERVICE_ACCOUNT_DIR, RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import IDENTITY_MARK, LeaderElector, LeaseRef
from dovetail.kube.leaderelection.lease import DEFAULT_TIMING, LeaseLostError, LeaseTiming
from dovetail.kube.preflight import KARPENTER_LEASE
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log

_QPS, _BURST = 5.0, 10
"""Limits of the separate connection: other requests never delay a renewal."""
_DEFAULT_NAMESPACE: Final = "kube-system"


class LeaderElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease that replicas compete for."""

    name: str = KARPENTER_LEASE
    """Karpenter's name: a Karpenter in the same namespace would stand by."""
    namespace: str = _DEFAULT_NAMESPACE
    timing: LeaseTiming = DEFAULT_TIMING


def get_default_lease_namespace(
    environ: Mapping[str, str], *, service_account_dir: Path = SERVICE_ACCOUNT_DIR
) -> str:
    """Return SYSTEM_NAMESPACE, else the namespace of this pod, else kube-system."""
    configured = environ.get("SYSTEM_NAMESPACE", "")
    try:
        mounted = (service_account_dir / "namespace").read_text().strip()
    except OSError:
        mounted = ""
    return configured or mounted or _DEFAULT_NAMESPACE


class Leadership(Protocol):
    """The right to write, which one replica has at a time."""

    def is_leader(self) -> bool: ...

    def fence(self) -> None:
        """Raise unless this replica is the leader for certain."""

    async def acquire(self) -> None:
        """Return when this replica is the leader."""

    async def renew(self) -> LeaseLostError:
        """Renew the leadership; return the reason when it is lost."""

    async def release(self) -> None:
        """Release the leadership, so that another replica can take over at once."""

    async def close(self) -> None: ...


class SingleReplicaLeadership:
    """``Leadership`` without election, for ``--disable-leader-election``."""

    def is_leader(self) -> bool:
        return True

    def fence(self) -> None:
        """Do nothing."""

    async def acquire(self) -> None:
        """Return at once."""

    async def renew(self) -> LeaseLostError:
        """Never return."""
        never: asyncio.Future[LeaseLostError] = asyncio.get_running_loop().create_future()
        return await never

    async def release(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class LeaseLeadership(LeaderElector):
    """``Leadership`` by a Lease, over a separate connection."""

    def __init__(
        self,
        access: RestConfig,
        settings: LeaderElectionSettings,
        *,
        loop: EventLoop,
        random: RandomSource,
        log: Log,
    ) -> None:
        self._connection = Connection(
            access,
            rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time, qps=_QPS, burst=_BURST),
            user_agent=f"dovetail/{__version__} leader-election",
        )
        # Unique per process: a new process must not take an earlier one's lease for its own.
        suffix = f"{os.getpid()}-{random.alphanumeric(8)}"
        super().__init__(
            HttpKubeClient(self._connection),
            LeaseRef(settings.name, settings.namespace),
            identity=f"{socket.gethostname()}{IDENTITY_MARK}{suffix}",
            clock=SystemClock().uptime,
            loop=loop,
            random=random,
            log=log,
            timing=settings.timing,
        )

    async def close(self) -> None:
        """Close the connection and cancel running requests."""
        await self._connection.close()
