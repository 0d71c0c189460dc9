"""Deletes the claims of nodes that are disrupted, and says so.

Deleting a claim for a reason, and counting it once.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from dovetail.codec.quantities import show_instant
from dovetail.core.disruption.budgets import Reason
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror


class Why(msgspec.Struct, frozen=True):
    """On what grounds nodes go; ``label`` is the consolidation type of metrics."""

    reason: Reason
    label: str = ""
    decision: str = "delete"

    @property
    def labels(self) -> dict[str, str]:
        """Return it as metrics have it."""
        return {
            "decision": self.decision,
            "reason": self.reason.lower(),
            "consolidation_type": self.label,
        }


class Parting:
    """The last step of every disruption."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, loop: Loop, log: Log, events: Events, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._log = log
        self._events = events
        self._metrics = metrics

    async def delete(self, claims: Sequence[NodeClaim], why: Why) -> list[NodeClaim]:
        """Delete claims; return those that are on their way, and raise where none is."""
        results = await self._loop.together([self._delete(one) for one in claims])
        gone = [
            one
            for one, result in zip(claims, results, strict=True)
            if not isinstance(result, Exception)
        ]
        for one in gone:
            self._tell(one, why)
        failures = [one for one in results if isinstance(one, Exception)]
        if failures and not gone:
            raise failures[0]
        for error in failures:
            self._log.error("disrupting node", error=str(error))
        return gone

    async def _delete(self, claim: NodeClaim) -> None:
        try:
            await self._kube.delete(NODE_CLAIMS, claim.name, uid=claim.uid)
        except NotFound:
            return  # Somebody was quicker; the goal is met.

    def _tell(self, claim: NodeClaim, why: Why) -> None:
        nodes = self._mirror.nodes_of(claim.provider_id)
        told = [(NODES, one.name, one.uid) for one in nodes]
        for resource, name, uid in (*told, (NODE_CLAIMS, claim.name, claim.uid)):
            self._events.publish(
                resource,
                name,
                uid=uid,
                reason="DisruptionTerminating",
                message=f"Disrupting {resource.kind}: {why.reason}",
            )
        pods = [pod for one in nodes for pod in self._mirror.pods_on(one.name)]
        pool = self._mirror.pool(claim.pool)
        for name, count in (
            ("karpenter_nodeclaims_disrupted_total", 1),
            ("karpenter_pods_disruption_initiated_total", sum(map(is_reschedulable, pods))),
        ):
            self._metrics.count(
                name,
                count,
                reason=why.reason.lower(),
                nodepool=claim.pool,
                capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
                consolidation_policy=str(pool.disruption.policy) if pool is not None else "",
                termination_mode=_mode(claim),
            )


def _mode(claim: NodeClaim) -> str:
    grace = claim.termination_grace_period
    if grace is None:
        return "graceful"
    return "eventual" if grace else "forceful"


async def retire(claim: NodeClaim, reason: str, *, kube: Kube, metrics: Metrics) -> bool:
    """Have a claim go, with its machine; False when somebody else was quicker."""
    try:
        await kube.delete(NODE_CLAIMS, claim.name, uid=claim.uid)
    except (NotFound, Conflict):
        return False  # Gone, or another claim of the same name: the goal is met.
    metrics.count("karpenter_nodeclaims_disrupted_total", 1, **disruption_labels(claim, reason))
    return True


async def end_patience(claim: NodeClaim, now: datetime, *, kube: Kube) -> bool:
    """Have a claim's pods and volumes waited for no longer than now; False when it is gone."""
    annotations = {label_keys.TERMINATION_TIMESTAMP: show_instant(now)}
    try:
        await kube.patch(NODE_CLAIMS, claim.name, {"metadata": {"annotations": annotations}})
    except NotFound:
        return False
    return True


def disruption_labels(claim: NodeClaim, reason: str) -> dict[str, str]:
    """Return what metrics say of a claim that goes."""
    patient = claim.termination_grace_period is None
    return {
        "reason": reason,
        "nodepool": claim.pool,
        "capacity_type": claim.labels.get(label_keys.CAPACITY_TYPE, ""),
        "termination_mode": "graceful" if patient else "forceful",
    }
