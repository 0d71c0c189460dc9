"""Deletes claims that have reached their age; draining is what it always is."""

from dovetail.controllers.nodeclaim_deletion import disruption_labels, retire
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclaim.lifecycle import expires_at
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Mirror


class Expiration:
    """Looks at a claim when it is due; no budget and no annotation holds it back."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, clock: Clock, log: Log, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._log = log
        self._metrics = metrics

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        claim = self._mirror.claim(name)
        if claim is None or claim.deleting or not claim.node_class.supported:
            return None

        # Decide.
        due, now = expires_at(claim), self._clock.now()
        if due is None:
            return None
        if now < due:
            return Requeue(after=due - now)

        # Act.
        pods = self._pods_that_need_another_node(claim)
        if not await retire(claim, "expired", kube=self._kube, metrics=self._metrics):
            return None

        # Tell.
        self._log.debug("deleting expired nodeclaim", nodeclaim=claim.name)
        self._metrics.count(
            "karpenter_pods_disruption_initiated_total", pods, **disruption_labels(claim, "expired")
        )
        return None

    def _pods_that_need_another_node(self, claim: NodeClaim) -> int:
        return sum(is_reschedulable(pod) for pod in self._mirror.pods_on(claim.node_name))


def registration(
    *, mirror: Mirror, kube: Kube, loop: Loop, log: Log, metrics: Metrics
) -> Registration:
    """Return the controller."""
    return Registration(
        name="nodeclaim.expiration",
        controller=Expiration(mirror=mirror, kube=kube, clock=loop, log=log, metrics=metrics),
        # Age and expiry of a claim never change, so it needs one look, and one more when due.
        watches=[
            (NODE_CLAIMS, lambda change: (change.new.name,) if change.old is None else ()),
        ],
    )
