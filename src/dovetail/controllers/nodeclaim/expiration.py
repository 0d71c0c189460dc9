"""Expiration: deletes NodeClaims that are older than ``expireAfter``."""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.controllers.runtime.manager import Controller, RequeueAfter
from dovetail.core.nodeclaim.lifecycle import get_expiration_time
from dovetail.ports.api_resources import NODE_CLAIMS


class ExpirationController(ControllerBase):
    """Ignores budgets and do-not-disrupt annotations; the node is drained as usual."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None or claim.deleting or not claim.node_class.is_supported:
            return None

        # Decide.
        expires_at, now = get_expiration_time(claim), self._loop.now()
        if expires_at is None:
            return None
        if now < expires_at:
            return RequeueAfter(expires_at - now)

        # Act and report.
        if await delete_nodeclaim(self._context, claim, "expired"):
            self._log.debug("deleting expired nodeclaim", nodeclaim=claim.name)
        return None


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="nodeclaim.expiration",
        reconciler=ExpirationController(context),
        # Creation time and expireAfter of a NodeClaim never change.
        watches=[(NODE_CLAIMS, lambda change: (change.new.name,) if change.old is None else ())],
    )
