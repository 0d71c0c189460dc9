"""Replaces machines whose nodes stay broken, unless so many are that it would not help."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.nodeclaim_deletion import disruption_labels, end_patience, retire
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.node.drain import deadline_of
from dovetail.core.node.health import breakage, too_many
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.node import NodeObject
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODES
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror

REASON: Final = "unhealthy"
_BLOCKED: Final = Requeue(after=timedelta(minutes=5))
_BLOCKED_DEDUPE: Final = timedelta(minutes=15)


class Repair:
    """Looks at a node when its conditions change, and again when patience ends.

    Budgets, annotations and grace periods do not count: nothing runs well there.
    """

    def __init__(
        self, *, mirror: Mirror, kube: Kube, loop: Loop, log: Log, events: Events, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = loop
        self._log = log
        self._events = events
        self._metrics = metrics

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        node = self._mirror.node(name)
        claims = self._mirror.claims_of(node.provider_id) if node is not None else ()
        if node is None or len(claims) != 1:
            return None
        (claim,) = claims
        broken = breakage(node.conditions)
        if broken is None or claim.deleting or not claim.node_class.supported:
            return None

        # Decide.
        now = self._clock.now()
        if now < broken.due:
            return Requeue(after=broken.due - now)
        blocked = self._blocked(claim)
        if blocked:
            self._events.publish(
                NODES,
                node.name,
                uid=node.uid,
                reason="NodeRepairBlocked",
                message=blocked,
                warning=True,
                dedupe=_BLOCKED_DEDUPE,
            )
            return _BLOCKED

        # Act.
        if not await self._hurry(claim, now):
            return None
        pods = sum(is_reschedulable(pod) for pod in self._mirror.pods_on(node.name))
        if not await retire(claim, REASON, kube=self._kube, metrics=self._metrics):
            return None

        # Tell.
        self._log.info(
            "deleting unhealthy node", node=node.name, nodeclaim=claim.name, cause=broken.condition
        )
        self._count(claim, broken.condition, pods)
        return None

    def _blocked(self, claim: NodeClaim) -> str:
        """Return why nobody is replaced: too many are broken; empty where that is not so."""
        pool = claim.pool
        nodes = list(self._nodes_in(pool) if pool else self._mirror.nodes())
        broken = sum(breakage(one.conditions) is not None for one in nodes)
        if not too_many(broken, len(nodes)):
            return ""
        where = f"NodePool {pool!r}" if pool else "the cluster"
        return f"{broken} of {len(nodes)} nodes of {where} are unhealthy, more than 20%"

    def _nodes_in(self, pool: str) -> Iterable[NodeObject]:
        for claim in self._mirror.claims_in(pool):
            yield from self._mirror.nodes_of(claim.provider_id)

    async def _hurry(self, claim: NodeClaim, now: datetime) -> bool:
        """End all patience with the claim's pods, unless it has ended before."""
        with suppress(DovetailError):  # An annotation that is no time is written anew.
            ends = deadline_of(claim)
            if ends is not None and ends <= now:
                return True
        return await end_patience(claim, now, kube=self._kube)

    def _count(self, claim: NodeClaim, condition: str, pods: int) -> None:
        self._metrics.count(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            condition=_snake_case(condition),
            nodepool=claim.pool,
            capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
            image_id=claim.image_id,
        )
        self._metrics.count(
            "karpenter_pods_disruption_initiated_total", pods, **disruption_labels(claim, REASON)
        )


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    loop: Loop,
    log: Log,
    events: Events,
    metrics: Metrics,
    gates: Gates,
) -> Registration | None:
    """Return the controller, if it is switched on."""
    if not gates.NodeRepair:
        return None
    return Registration(
        name="node.health",
        controller=Repair(
            mirror=mirror, kube=kube, loop=loop, log=log, events=events, metrics=metrics
        ),
        watches=[(NODES, _whose_health_changed)],
    )


def _whose_health_changed(change: Change) -> Iterable[str]:
    old, new = change.old, change.new
    if new is None or (old is not None and old.conditions == new.conditions):
        return ()
    return (new.name,)


def _snake_case(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name).lstrip("_")
