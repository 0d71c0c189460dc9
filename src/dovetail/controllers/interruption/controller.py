"""Acts on the cloud's warnings: machines about to go are drained before they do."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.interruption.handler import Alarm
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.settings import InterruptionSettings
from dovetail.ports.cloudprovider import Interruption, Interruptions, Message
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.unavailable_offerings import Scarce, Scarcity

_MORE_MAY_WAIT: Final = Requeue(after=timedelta())
_QUIET: Final = Requeue(after=timedelta(milliseconds=100))
"""A queue that waits for messages itself, as SQS does, is asked again almost at once."""
_DEFAULTS: Final = InterruptionSettings()
_TAKES_BACK: Final = {
    Interruption.SPOT: label_keys.SPOT,
    Interruption.REBALANCE: label_keys.SPOT,
    Interruption.RESERVATION: label_keys.RESERVED,
}
"""Of which capacity type the cloud has too little where the machine is."""


class InterruptionQueue:
    """Takes all messages that are there at once; one that fails comes again."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        interruptions: Interruptions,
        alarm: Alarm,
        scarcity: Scarcity,
        loop: Loop,
        metrics: Metrics,
        settings: InterruptionSettings,
    ) -> None:
        self._mirror = mirror
        self._queue = interruptions
        self._alarm = alarm
        self._scarcity = scarcity
        self._loop = loop
        self._metrics = metrics
        self._only_tells = (
            frozenset() if settings.act_on_rebalance else frozenset({Interruption.REBALANCE})
        )

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
        self._alarm.tell(claim, kind)
        if kind in self._only_tells:
            return
        # First: what replaces the machine should not be its like.
        if kind in _TAKES_BACK:
            self._mark_scarce(claim, _TAKES_BACK[kind])
        await self._alarm.drain(claim, kind)

    def _mark_scarce(self, claim: NodeClaim, capacity_type: str) -> None:
        """Leave alone for a while what the cloud has just taken back."""
        zone = claim.labels.get(label_keys.ZONE)
        instance_type = claim.labels.get(label_keys.INSTANCE_TYPE)
        if zone and instance_type:
            gone = Scarce(capacity_type=capacity_type, instance_type=instance_type, zone=zone)
            self._scarcity.mark([gone], now=self._loop.now())


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
            interruptions=interruptions,
            alarm=Alarm(
                mirror=mirror, kube=kube, clock=loop, log=log, events=events, metrics=metrics
            ),
            scarcity=scarcity,
            loop=loop,
            metrics=metrics,
            settings=interruption_settings,
        ),
        at_start=[SINGLETON],
        workers=1,
        listens=True,
    )
