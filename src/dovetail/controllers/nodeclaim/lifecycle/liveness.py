"""Liveness: deletes NodeClaims that are not launched or registered in time."""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.controllers.nodepool.registration_health import RegistrationOutcomes
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, enqueue_object
from dovetail.core.nodeclaim.lifecycle import TimedOut, check_timeouts
from dovetail.ports.api_resources import NODE_CLAIMS


class LivenessController(ControllerBase):
    """Reconciles a NodeClaim when its timeout passes.

    Separate from the lifecycle controller, because a launch that hangs or is in
    backoff must not delay the timeout.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._outcomes = RegistrationOutcomes(context)
        self._timeouts = context.lifecycle_timeouts

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None or claim.deleting or not claim.node_class.is_supported:
            return None
        now = self._loop.now()

        # Decide.
        timeout = check_timeouts(claim, now, self._timeouts)
        if timeout is None:
            return None
        if not isinstance(timeout, TimedOut):
            return RequeueAfter(timeout - now)

        # Act.
        await self._outcomes.record_timeout(claim)
        is_deleted = await delete_nodeclaim(self._context, claim, timeout.reason)

        # Report.
        if is_deleted:
            self._log.info("terminating due to timeout", nodeclaim=claim.name, reason=timeout.reason)
        return None


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = LivenessController(context)
    return Controller(
        name="nodeclaim.liveness", reconciler=reconciler, watches=[(NODE_CLAIMS, enqueue_object)]
    )
