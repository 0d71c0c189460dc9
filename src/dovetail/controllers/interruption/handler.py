"""What is done about a machine in danger: it is told, and drained before it goes."""

from typing import Final

import msgspec

from dovetail.controllers.nodeclaim_deletion import end_patience, retire
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, Resource
from dovetail.ports.cloudprovider import Interruption
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror


class _Telling(msgspec.Struct, frozen=True):
    """What users read about a warning."""

    reason: str
    message: str
    warning: bool = True


_UNHEALTHY: Final = _Telling("InstanceUnhealthy", "An unhealthy warning was triggered")
_TOLD: Final = {
    Interruption.SPOT: _Telling("SpotInterrupted", "Spot interruption warning was triggered"),
    Interruption.REBALANCE: _Telling(
        "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", False
    ),
    Interruption.SCHEDULED_CHANGE: _UNHEALTHY,
    Interruption.STOPPING: _Telling("InstanceStopping", "Instance is stopping"),
    Interruption.TERMINATING: _Telling("InstanceTerminating", "Instance is terminating"),
    Interruption.RESERVATION: _Telling(
        "CapacityReservationInstanceInterrupted",
        "Capacity reservation interruption warning was triggered",
    ),
    Interruption.INSTANCE_STATUS: _UNHEALTHY,
    Interruption.SYSTEM_STATUS: _UNHEALTHY,
    Interruption.EVENT_STATUS: _UNHEALTHY,
}
_DRAINED: Final = _Telling("TerminatingOnInterruption", "Interruption triggered termination")


class Alarm:
    """Tells of claims whose machines are in danger, and has them go."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        clock: Clock,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._log = log
        self._events = events
        self._metrics = metrics

    def tell(self, claim: NodeClaim, kind: Interruption) -> None:
        self._publish(claim, _TOLD[kind])

    async def drain(self, claim: NodeClaim, kind: Interruption) -> None:
        """Have a claim go, with its machine; nothing more if it goes already."""
        if claim.deleting:
            return
        if await retire(claim, kind, kube=self._kube, metrics=self._metrics):
            self._log.info(
                "initiating delete from interruption message",
                nodeclaim=claim.name,
                message_kind=str(kind),
            )
            self._publish(claim, _DRAINED)

    async def drain_at_once(self, claim: NodeClaim, kind: Interruption) -> None:
        """Have a claim go without waiting for pods or budgets: nothing runs there any more."""
        if claim.deleting:
            return
        told = label_keys.TERMINATION_TIMESTAMP in claim.annotations
        if told or await end_patience(claim, self._clock.now(), kube=self._kube):
            await self.drain(claim, kind)

    def _publish(self, claim: NodeClaim, telling: _Telling) -> None:
        about: list[tuple[Resource, str, str]] = [(NODE_CLAIMS, claim.name, claim.uid)]
        about += [(NODES, node.name, node.uid) for node in self._mirror.nodes_of(claim.provider_id)]
        for resource, name, uid in about:
            self._events.publish(
                resource,
                name,
                uid=uid,
                reason=telling.reason,
                message=telling.message,
                warning=telling.warning,
                same=(resource.plural, name),
            )
