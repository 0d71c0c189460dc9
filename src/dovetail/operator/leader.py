"""Who leads among the replicas, in a real process."""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dovetail import __version__
from dovetail.host.clock import RealClock
from dovetail.kube.auth.kubeconfig import MOUNTED, Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import OURS, Elector, Place
from dovetail.kube.leaderelection.lease import USUAL, LeaseLost, Timing
from dovetail.kube.preflight import LEASE
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.event_loop import Loop
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log

_QPS, _BURST = 5.0, 10
"""Its own connection at its own slow pace: no other request is ever in its way."""
_USUAL_NAMESPACE: Final = "kube-system"


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """Which Lease replicas compete for."""

    name: str = LEASE
    """Karpenter's own name: in one namespace with us it would stand by."""
    namespace: str = _USUAL_NAMESPACE
    timing: Timing = USUAL


def usual_namespace(environ: Mapping[str, str], *, mounted: Path = MOUNTED) -> str:
    """Return where the Lease is when nobody says: beside the pod we are in, if we are in one."""
    given = environ.get("SYSTEM_NAMESPACE", "")
    try:
        return given or (mounted / "namespace").read_text().strip() or _USUAL_NAMESPACE
    except OSError:
        return _USUAL_NAMESPACE


class Leadership(Protocol):
    """The right to write, had by one replica at a time."""

    def leads(self) -> bool: ...

    def guard(self) -> None:
        """Raise ``NotLeading`` unless nobody else can be leading now."""

    async def win(self) -> None:
        """Come back as the leader."""

    async def keep(self) -> LeaseLost:
        """Come back when it is lost, with the reason."""

    async def give_up(self) -> None:
        """Lead no more, and let others know."""

    async def close(self) -> None: ...


class Alone:
    """Leads always: there are no other replicas, or somebody else sees to it."""

    def leads(self) -> bool:
        return True

    def guard(self) -> None:
        """Let everything be written."""

    async def win(self) -> None:
        """Come back at once."""

    async def keep(self) -> LeaseLost:
        """Never come back."""
        never: asyncio.Future[LeaseLost] = asyncio.get_running_loop().create_future()
        return await never

    async def give_up(self) -> None:
        """Do nothing: nobody waits for it."""

    async def close(self) -> None:
        """Do nothing."""


class Elected(Elector):
    """Competes for a Lease, over a connection of its own."""

    def __init__(
        self, access: Access, election: Election, *, loop: Loop, chance: Chance, log: Log
    ) -> None:
        self._connection = Connection(
            access,
            limit=RateLimit(clock=asyncio.get_running_loop().time, qps=_QPS, burst=_BURST),
            agent=f"dovetail/{__version__} leader-election",
        )
        super().__init__(
            HttpKube(self._connection),
            Place(election.name, election.namespace),
            # Another one each time: a process does not inherit what an earlier one held.
            me=f"{socket.gethostname()}{OURS}{os.getpid()}-{chance.letters(8)}",
            clock=RealClock().uptime,
            loop=loop,
            chance=chance,
            log=log,
            timing=election.timing,
        )

    async def close(self) -> None:
        """Leave; what is under way is cut off."""
        await self._connection.close()
