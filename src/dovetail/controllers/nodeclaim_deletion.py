"""Deletion of a NodeClaim: one call, one set of metric labels.

All controllers that delete a NodeClaim do it here: expiration, repair,
interruption, garbage collection, launch failures and timeouts, static
scale-down and voluntary disruption. The lifecycle controller's finalizer then
deletes the Node, which drains, and terminates the instance.
"""

from datetime import datetime

from dovetail.codec.quantities import encode_time
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.ports.metrics import NODECLAIMS_DISRUPTED, PODS_DISRUPTION_INITIATED, DisruptionLabels


async def delete_nodeclaim(
    context: ControllerContext, claim: NodeClaim, reason: str, *, consolidation_policy: str = ""
) -> bool:
    """Delete a NodeClaim and count it and its pods as disrupted.

    ``reason`` is a metric label in snake case, ``consolidation_policy`` empty
    unless consolidation is the cause. Returns False, and counts nothing, if the
    NodeClaim is gone or another one has its name by now.
    """
    try:
        await context.kube.delete(NODE_CLAIMS, claim.name, uid=claim.uid)
    except (NotFound, Conflict):
        return False
    labels = DisruptionLabels(
        reason=reason,
        nodepool=claim.pool,
        capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
        consolidation_policy=consolidation_policy,
        termination_mode=termination_mode(claim),
    )
    context.metrics.inc(NODECLAIMS_DISRUPTED, labels)
    nodes = context.cache.nodes_of(claim.provider_id)
    if nodes:
        pods = [pod for node in nodes for pod in context.cache.pods_on(node.name)]
        context.metrics.inc(PODS_DISRUPTION_INITIATED, labels, by=sum(map(is_reschedulable, pods)))
    return True


def termination_mode(claim: NodeClaim) -> str:
    """Return how long a drain of this NodeClaim may take, as a metric label.

    ``graceful``: no terminationGracePeriod, the drain waits for all pods.
    ``eventual``: pods are deleted when the period ends. ``forceful``: the
    period is zero, pods are deleted at once.
    """
    period = claim.termination_grace_period
    if period is None:
        return "graceful"
    return "eventual" if period else "forceful"


async def set_termination_deadline(context: ControllerContext, claim: NodeClaim, deadline: datetime) -> bool:
    """Annotate a NodeClaim with the time at which its drain must end.

    Returns False if the NodeClaim is gone.
    """
    patch = annotations_patch({label_keys.TERMINATION_TIMESTAMP: encode_time(deadline)})
    return await patch_if_exists(context.kube, NODE_CLAIMS, claim.name, patch)


def to_snake_case(name: str) -> str:
    """Return a name in camel case as metric label, such as ``when_empty``."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
