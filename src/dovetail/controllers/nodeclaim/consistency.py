"""Checks now and then that nodes are what was bought; it informs and does nothing else."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclaim.consistency import shape_mistakes
from dovetail.core.nodeclaim.lifecycle import stated
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Events, Log
from dovetail.state.cluster.cache import Change, Mirror

SCAN_PERIOD: Final = timedelta(minutes=10)
CONSISTENT: Final = "ConsistentStateFound"


class Consistency:
    """Compares a claim with its node, at most once in ten minutes."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, clock: Clock, log: Log, events: Events
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._log = log
        self._events = events
        self._scanned: dict[str, tuple[str, datetime]] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        claim = self._mirror.claim(name)
        if claim is None:
            self._scanned.pop(name, None)
            return None
        nodes = self._mirror.nodes_of(claim.provider_id)
        if not claim.node_class.supported or claim.deleting or len(nodes) != 1:
            return None
        now = self._clock.now()
        uid, last = self._scanned.get(name, ("", now))
        if uid == claim.uid and now - last < SCAN_PERIOD:
            return Requeue(after=last + SCAN_PERIOD - now)
        self._scanned[name] = (claim.uid, now)

        # Decide.
        wrong = shape_mistakes(claim, nodes[0])

        # Act.
        if wrong:
            why = ("ConsistencyCheckFailed", "; ".join(wrong))
            after = stated(claim, now, CONSISTENT, FALSE, *why)
        else:
            after = stated(claim, now, CONSISTENT, TRUE)
        patch = status_patch(claim, after)
        if patch:
            try:
                await self._kube.patch(NODE_CLAIMS, name, patch, subresource="status")
            except NotFound:
                return None

        # Tell.
        for message in wrong:
            self._log.error("consistency error", nodeclaim=name, error=message)
            self._events.publish(
                NODE_CLAIMS,
                name,
                uid=claim.uid,
                reason="FailedConsistencyCheck",
                message=message,
                warning=True,
            )
        return Requeue(after=SCAN_PERIOD)


def registration(
    *, mirror: Mirror, kube: Kube, loop: Loop, log: Log, events: Events
) -> Registration:
    """Return the controller."""

    def claims_of_node(change: Change) -> list[str]:
        if change.old is not None or change.new is None:
            return []
        return [claim.name for claim in mirror.claims_of(change.new.provider_id)]

    return Registration(
        name="nodeclaim.consistency",
        controller=Consistency(mirror=mirror, kube=kube, clock=loop, log=log, events=events),
        watches=[
            (NODE_CLAIMS, lambda change: (change.either.name,)),
            (NODES, claims_of_node),
        ],
        workers=10,
    )
