"""Deleting a claim for a reason, and counting it once."""

from datetime import datetime

from dovetail.codec.amounts import show_instant
from dovetail.model import labels as label_keys
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import Conflict, NotFound
from dovetail.ports.resources import NODE_CLAIMS
from dovetail.ports.telemetry import Metrics


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
