"""Interruption controller: handles messages of the SQS queue.

Instances that EC2 is about to interrupt are drained before they terminate.
"""

from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.interruption.handler import InterruptionHandler
from dovetail.controllers.runtime.manager import SINGLETON, Controller, RequeueAfter, raise_first
from dovetail.ports.cloudprovider import InterruptionMessage
from dovetail.ports.metrics import (
    INTERRUPTION_DELETED_MESSAGES,
    INTERRUPTION_MESSAGE_QUEUE_DURATION,
    INTERRUPTION_RECEIVED_MESSAGES,
    MessageLabels,
    NoLabels,
)

_AFTER_MESSAGES: Final = RequeueAfter(timedelta())
_AFTER_EMPTY_POLL: Final = RequeueAfter(timedelta(milliseconds=100))
"""SQS uses long polling, so that an empty queue is polled again almost at once."""


class InterruptionController(ControllerBase):
    """Handles all available messages concurrently; a failed one is delivered again."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._queue = context.interruption_queue
        self._handler = InterruptionHandler(context)

    async def reconcile(self, _: object) -> RequeueAfter:
        messages = await self._queue.receive()
        raise_first(await self._loop.gather([self._handle(message) for message in messages]))
        return _AFTER_MESSAGES if messages else _AFTER_EMPTY_POLL

    async def _handle(self, message: InterruptionMessage) -> None:
        self._metrics.inc(INTERRUPTION_RECEIVED_MESSAGES, MessageLabels(message_type=message.kind))
        for instance_id in message.instance_ids:
            for claim in self._cache.claims_of(instance_id):
                if claim.node_class.is_supported:
                    await self._handler.handle(claim, message.kind)
        # Last: after a crash, the message is delivered again, and handling is idempotent.
        await self._queue.delete(message)
        self._metrics.inc(INTERRUPTION_DELETED_MESSAGES, NoLabels())
        if message.sent_at is not None:
            seconds = (self._loop.now() - message.sent_at).total_seconds()
            self._metrics.observe(INTERRUPTION_MESSAGE_QUEUE_DURATION, seconds, NoLabels())


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="interruption",
        reconciler=InterruptionController(context),
        initial_keys=[SINGLETON],
        workers=1,
        long_poll=True,
    )
