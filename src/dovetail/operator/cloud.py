"""What a cloud's adapter is given, and what it gives."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from dovetail.controllers.interruption.status_checks import UNCHECKED
from dovetail.ports.cloudprovider import (
    Checkups,
    Cloud,
    Interruptions,
    Message,
    Tagging,
    ZonalShifts,
)
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.unavailable_offerings import Scarcity

_LONG: Final = timedelta(hours=1)


def _allow() -> None:
    """Let everything be done."""


async def _at_once() -> None:
    """Come back."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """All that an adapter may use; the mirror is still empty when it is made."""

    loop: Loop
    chance: Chance
    log: Log
    metrics: Metrics
    kube: Kube
    mirror: Mirror
    scarcity: Scarcity
    overlays: Overlays = msgspec.field(default_factory=Overlays)
    kubernetes_version: str
    look_up_version: Callable[[], Awaitable[str]]
    """Asks the API server again: clusters are upgraded."""
    authority: str
    """The certificate authority of the API server, in PEM; empty when it is a public one."""
    guard: Callable[[], None] = _allow
    """Raises unless we lead; to be asked right before anything in the cloud is changed."""
    elected: Callable[[], Awaitable[None]] = _at_once
    """Comes back when we lead; an adapter does nothing of its own accord before."""


class Hired(msgspec.Struct, frozen=True, kw_only=True):
    """A cloud at work, and how to let it go."""

    cloud: Cloud
    interruptions: Interruptions
    checkups: Checkups = UNCHECKED
    tagging: Tagging | None = None
    shifts: ZonalShifts | None = None
    close: Callable[[], None]
    leave: Callable[[], Awaitable[None]] = _at_once
    """What takes a moment to end, at the very end."""
    provider: str = "aws"
    """What metrics call it."""
    ca_bundle: str = ""
    """What machines are told of the cluster's certificate authority, in base64."""


Hire = Callable[[Surroundings], Awaitable[Hired]]
"""Makes the adapter; raises ``DovetailError`` when the cloud cannot be used at all."""


class NoWarnings:
    """``ports.cloudprovider.Interruptions`` where there is no queue."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def receive(self) -> Sequence[Message]:
        """Return nothing, after a while: whoever asks will ask again at once."""
        await self._loop.sleep(_LONG)
        return ()

    async def remove(self, message: Message) -> None:
        """Do nothing: there was none."""
