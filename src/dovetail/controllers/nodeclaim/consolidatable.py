"""Says of claims whether their node has been quiet for as long as its pool wants."""

from collections.abc import Iterable

import msgspec

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.conditions import cleared
from dovetail.core.nodeclaim.lifecycle import stated
from dovetail.core.nodeclaim.pod_events import quiet_at
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Change, Mirror

CONSOLIDATABLE = "Consolidatable"


class Consolidatable:
    """Sets and clears the condition, at the moment when it comes to be true."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock, log: Log) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._log = log

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        claim = self._mirror.claim(name)
        if claim is None or claim.deleting or not claim.node_class.supported:
            return None
        pool = self._mirror.pool(claim.pool)
        if pool is None or pool.replicas is not None:
            return None

        # Decide.
        now = self._clock.now()
        due = quiet_at(claim, pool.disruption.consolidate_after)
        if due is not None and due <= now:
            after = stated(claim, now, CONSOLIDATABLE, TRUE)
        else:
            after = msgspec.structs.replace(
                claim, conditions=cleared(claim.conditions, CONSOLIDATABLE)
            )

        # Act.
        patch = status_patch(claim, after)
        if patch:
            try:
                await self._kube.patch(NODE_CLAIMS, name, patch, subresource="status")
            except NotFound:
                return None
            self._tell(claim, after)
        return Requeue(after=due - now) if due is not None and due > now else None

    def _tell(self, before: NodeClaim, after: NodeClaim) -> None:
        had, has = (is_true(one.conditions, CONSOLIDATABLE) for one in (before, after))
        if has and not had:
            self._log.debug("marking consolidatable", nodeclaim=after.name)
        elif had and not has:
            self._log.debug("removing consolidatable status condition", nodeclaim=after.name)


def registration(*, mirror: Mirror, kube: Kube, loop: Loop, log: Log) -> Registration:
    """Return the controller."""

    def claims_of_pool(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if new is None or (old is not None and old.disruption == new.disruption):
            return ()
        return [claim.name for claim in mirror.claims_in(new.name)]

    return Registration(
        name="nodeclaim.disruption",
        controller=Consolidatable(mirror=mirror, kube=kube, clock=loop, log=log),
        watches=[
            (NODE_CLAIMS, lambda change: (change.either.name,)),
            (NODE_POOLS, claims_of_pool),
        ],
    )
