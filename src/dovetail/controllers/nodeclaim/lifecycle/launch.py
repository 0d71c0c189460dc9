"""Launch: one machine for one claim, never two."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.controllers.nodeclaim_deletion import retire
from dovetail.core.nodeclaim.lifecycle import Bought, Unmet, awaits_launch, shortened
from dovetail.errors import DovetailError
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import (
    Cloud,
    CreateFailed,
    Instance,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log, Metrics

_REMEMBERED: Final = timedelta(hours=1)


class NotLaunched(msgspec.Struct, frozen=True):
    """There is no machine yet: what to say on the claim, and the error to come back with."""

    why: Unmet
    error: DovetailError


class GivenUp(msgspec.Struct, frozen=True):
    """The claim was deleted: what it asks for cannot be had."""


class Launcher:
    """Buys machines, and remembers for a while what it bought.

    The memory spares a call when writing the status failed. Correctness does not
    hang on it: the cloud returns the same machine for the same claim.
    """

    def __init__(
        self, *, cloud: Cloud, kube: Kube, clock: Clock, log: Log, events: Events, metrics: Metrics
    ) -> None:
        self._cloud = cloud
        self._kube = kube
        self._clock = clock
        self._log = log
        self._events = events
        self._metrics = metrics
        self._bought: dict[str, Instance] = {}

    async def launch(self, claim: NodeClaim) -> Bought | NotLaunched | GivenUp | None:
        """Return the claim's new machine; None when launching is behind it."""
        if not awaits_launch(claim):
            self._bought.pop(claim.uid, None)
            return None
        instance = self._bought.get(claim.uid)
        if instance is None:
            try:
                instance = await self._cloud.create(claim)
            except InsufficientCapacity as error:
                self._tell_of_scarcity(claim, error)
                return await self._give_up(claim, "insufficient_capacity", error)
            except NodeClassNotReady as error:
                return await self._give_up(claim, "nodeclass_not_ready", error)
            except CreateFailed as error:
                return NotLaunched(Unmet(error.reason, shortened(str(error))), error)
            except DovetailError as error:
                return NotLaunched(Unmet("LaunchFailed", shortened(str(error))), error)
            self._remember(claim.uid, instance)
        return Bought(
            provider_id=instance.provider_id,
            image_id=instance.image_id,
            labels=instance.labels,
            annotations=instance.annotations,
            capacity=instance.capacity,
            allocatable=instance.allocatable,
        )

    def unwritten(self, claim: NodeClaim) -> str:
        """Return the machine of a claim that does not say so yet; empty when there is none."""
        found = self._bought.get(claim.uid)
        return "" if found is None else found.provider_id

    def forget(self, claim: NodeClaim) -> None:
        self._bought.pop(claim.uid, None)

    def _remember(self, uid: str, instance: Instance) -> None:
        oldest = self._clock.now() - _REMEMBERED
        # In the order bought: those that are too old come first.
        for known, one in list(self._bought.items()):
            if one.launched is not None and one.launched > oldest:
                break
            del self._bought[known]
        self._bought[uid] = instance

    async def _give_up(self, claim: NodeClaim, reason: str, error: DovetailError) -> GivenUp:
        self._log.error("failed launching nodeclaim", nodeclaim=claim.name, error=str(error))
        await retire(claim, reason, kube=self._kube, metrics=self._metrics)
        return GivenUp()

    def _tell_of_scarcity(self, claim: NodeClaim, error: DovetailError) -> None:
        self._events.publish(
            NODE_CLAIMS,
            claim.name,
            uid=claim.uid,
            reason="InsufficientCapacityError",
            message=f"NodeClaim {claim.name} event: {shortened(str(error))}",
            warning=True,
            same=(claim.name,),
        )
