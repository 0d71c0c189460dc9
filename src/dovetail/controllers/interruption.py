"""Acts on the cloud's warnings: machines about to go are drained before they do."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.controllers.retiring import retire
from dovetail.controllers.runtime import SINGLETON, Registration, Requeue
from dovetail.model import labels as label_keys
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.settings import InterruptionSettings
from dovetail.ports.cloud import Interruption, Interruptions, Message
from dovetail.ports.kube import Kube
from dovetail.ports.loop import Loop
from dovetail.ports.resources import NODE_CLAIMS, NODES, Resource
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.mirror import Mirror
from dovetail.state.scarcity import Scarce, Scarcity

_MORE_MAY_WAIT: Final = Requeue(after=timedelta())
_QUIET: Final = Requeue(after=timedelta(milliseconds=100))
"""A queue that waits for messages itself, as SQS does, is asked again almost at once."""
_DEFAULTS: Final = InterruptionSettings()


class _Telling(msgspec.Struct, frozen=True):
    """What users read about a warning."""

    reason: str
    message: str
    warning: bool = True


_TOLD: Final = {
    Interruption.SPOT: _Telling("SpotInterrupted", "Spot interruption warning was triggered"),
    Interruption.REBALANCE: _Telling(
        "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered", False
    ),
    Interruption.SCHEDULED_CHANGE: _Telling(
        "InstanceUnhealthy", "An unhealthy warning was triggered"
    ),
    Interruption.STOPPING: _Telling("InstanceStopping", "Instance is stopping"),
    Interruption.TERMINATING: _Telling("InstanceTerminating", "Instance is terminating"),
    Interruption.RESERVATION: _Telling(
        "CapacityReservationInstanceInterrupted",
        "Capacity reservation interruption warning was triggered",
    ),
}
_TAKES_BACK: Final = {
    Interruption.SPOT: label_keys.SPOT,
    Interruption.REBALANCE: label_keys.SPOT,
    Interruption.RESERVATION: label_keys.RESERVED,
}
"""Of which capacity type the cloud has too little where the machine is."""


class InterruptionQueue:
    """Takes messages one after the other; one that fails comes again."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        interruptions: Interruptions,
        scarcity: Scarcity,
        loop: Loop,
        log: Log,
        events: Events,
        metrics: Metrics,
        interruption_settings: InterruptionSettings = _DEFAULTS,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._queue = interruptions
        self._scarcity = scarcity
        self._loop = loop
        self._log = log
        self._events = events
        self._metrics = metrics
        self._drains = frozenset(_TOLD)
        if not interruption_settings.act_on_rebalance:
            self._drains -= {Interruption.REBALANCE}

    async def reconcile(self, _: object) -> Requeue:
        messages = await self._queue.receive()
        done = await self._loop.together([self._handle(one) for one in messages])
        for outcome in done:
            if isinstance(outcome, Exception):
                raise outcome  # Those that were not removed come again.
        return _MORE_MAY_WAIT if messages else _QUIET

    async def _handle(self, message: Message) -> None:
        self._metrics.count(
            "karpenter_interruption_received_messages_total", message_type=message.kind
        )
        for instance_id in message.instance_ids:
            for claim in self._mirror.claims_of(instance_id):
                if claim.node_class.supported:
                    await self._act(message.kind, claim)
        # Last: killed before this, the message comes again and finds the work done.
        await self._queue.remove(message)
        self._metrics.count("karpenter_interruption_deleted_messages_total")
        if message.sent is not None:
            seconds = (self._loop.now() - message.sent).total_seconds()
            self._metrics.observe("karpenter_interruption_message_queue_duration_seconds", seconds)

    async def _act(self, kind: Interruption, claim: NodeClaim) -> None:
        self._tell(claim, _TOLD[kind])
        if kind not in self._drains:
            return
        # First: what replaces the machine should not be its like.
        if kind in _TAKES_BACK:
            self._mark_scarce(claim, _TAKES_BACK[kind])
        if claim.deleting:
            return
        if await retire(claim, kind, kube=self._kube, metrics=self._metrics):
            self._log.info(
                "initiating delete from interruption message",
                nodeclaim=claim.name,
                message_kind=str(kind),
            )
            self._tell(
                claim,
                _Telling("TerminatingOnInterruption", "Interruption triggered termination"),
            )

    def _mark_scarce(self, claim: NodeClaim, capacity_type: str) -> None:
        """Leave alone for a while what the cloud has just taken back."""
        zone = claim.labels.get(label_keys.ZONE)
        instance_type = claim.labels.get(label_keys.INSTANCE_TYPE)
        if zone and instance_type:
            gone = Scarce(capacity_type=capacity_type, instance_type=instance_type, zone=zone)
            self._scarcity.mark([gone], now=self._loop.now())

    def _tell(self, claim: NodeClaim, telling: _Telling) -> None:
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


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    interruptions: Interruptions,
    scarcity: Scarcity,
    loop: Loop,
    log: Log,
    events: Events,
    metrics: Metrics,
    interruption_settings: InterruptionSettings = _DEFAULTS,
) -> Registration:
    """Return the controller."""
    return Registration(
        name="interruption",
        controller=InterruptionQueue(
            mirror=mirror,
            kube=kube,
            interruptions=interruptions,
            scarcity=scarcity,
            loop=loop,
            log=log,
            events=events,
            metrics=metrics,
            interruption_settings=interruption_settings,
        ),
        at_start=[SINGLETON],
        workers=1,
        listens=True,
    )
