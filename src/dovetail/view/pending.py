"""Pending pods: why each has no node, and which NodeClaim it waits for."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.provisioning import is_provisionable
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.model.plan import Plan, PlannedNode, UnschedulableReason
from dovetail.view.claims import expect_initialized, get_assigned_pods
from dovetail.view.document import ObjectRef, PendingPodView, PendingReason
from dovetail.view.nodes import get_workload

_BINDING_TIME: Final = timedelta(minutes=5)
"""Time after initialization in which kube-scheduler binds the pods of a NodeClaim."""
_MAX_MESSAGES: Final = 8

_Outlook = tuple[PendingReason, tuple[str, ...], str, str]
"""Reason, messages, nearest fit, existing node."""


class PodOutlooks:
    """Consequences of a plan for each pending pod."""

    def __init__(self, plan: Plan | None) -> None:
        self._by_uid: dict[str, _Outlook] = {}
        if plan is None:
            return
        for placement in plan.existing:
            outlook = (PendingReason.FITS_EXISTING_NODE, (), "", placement.node)
            self._by_uid.update((pod.uid, outlook) for pod in placement.pods)
        for node in plan.nodes:
            planned = (PendingReason.NODE_WILL_BE_LAUNCHED, (), _describe_node(node), "")
            self._by_uid.update((pod.uid, planned) for pod in node.pods)
        for entry in plan.unschedulable:
            messages = tuple(map(_describe_reason, entry.reasons[:_MAX_MESSAGES]))
            nearest = _find_nearest(entry.reasons)
            self._by_uid[entry.pod.uid] = (PendingReason.CANNOT_BE_SCHEDULED, messages, nearest, "")

    def get(self, pod: Pod) -> _Outlook:
        return self._by_uid.get(pod.uid, (PendingReason.UNKNOWN, (), "", ""))


def build_pending_pod(
    pod: Pod, outlooks: PodOutlooks, claim: NodeClaim | None, durations: Mapping[str, timedelta]
) -> PendingPodView:
    """Return a pod without a node; ``claim`` was created for it."""
    reason, messages, nearest, node = outlooks.get(pod)
    expected = None
    if claim is not None:
        reason, messages, nearest, node = PendingReason.NODE_ON_ITS_WAY, (), "", claim.node_name
        expected = expect_initialized(claim, durations)
    elif reason is PendingReason.UNKNOWN and not is_provisionable(pod):
        reason, messages = PendingReason.NOT_PROVISIONABLE, (_explain_not_provisionable(pod),)
        node = pod.nominated_node_name
    kind, name = get_workload(pod)
    return PendingPodView(
        key=pod.key,
        namespace=pod.namespace,
        name=pod.name,
        workload=ObjectRef(kind=kind, name=f"{pod.namespace}/{name}") if kind != "Pod" else None,
        cpu=pod.spec.requests.get(CPU, 0),
        memory=pod.spec.requests.get(MEMORY, 0),
        created_at=pod.created,
        reason=reason,
        messages=messages,
        nearest_fit=nearest,
        node=node,
        node_claim=claim.name if claim is not None else "",
        expected_at=expected,
    )


def find_assigned_claims(claims: Iterable[NodeClaim], now: datetime) -> dict[str, NodeClaim]:
    """Return pod UID → NodeClaim that was created for it and may still receive it."""
    return {uid: claim for claim in _waited_for(claims, now) for uid in get_assigned_pods(claim)}


def _waited_for(claims: Iterable[NodeClaim], now: datetime) -> Iterator[NodeClaim]:
    for claim in claims:
        if claim.deleting:
            continue
        if is_true(claim.conditions, INITIALIZED):
            since = claim.conditions[INITIALIZED].last_transition_time
            if since is None or since + _BINDING_TIME < now:
                continue
        yield claim


def _describe_node(node: PlannedNode) -> str:
    return f"a {node.instance_type.name} of NodePool {node.nodepool}, {node.price:.4f} per hour"


def _describe_reason(reason: UnschedulableReason) -> str:
    return f"NodePool {reason.nodepool}: {reason.message}" if reason.nodepool else reason.message


def _find_nearest(reasons: tuple[UnschedulableReason, ...]) -> str:
    """Return the reason of the NodePool with the fewest obstacles; empty if there is no NodePool."""
    by_pool: dict[str, list[UnschedulableReason]] = {}
    for reason in reasons:
        if reason.nodepool:
            by_pool.setdefault(reason.nodepool, []).append(reason)
    if not by_pool:
        return ""
    nearest = min(by_pool, key=lambda pool: (len(by_pool[pool]), pool))
    return f"NodePool {nearest}: " + "; ".join(reason.message for reason in by_pool[nearest])


def _explain_not_provisionable(pod: Pod) -> str:
    if pod.nominated_node_name:
        return f"kube-scheduler has nominated it for {pod.nominated_node_name}, where it preempts pods"
    if pod.is_owned_by_daemon_set:
        return "a pod of a DaemonSet runs on the nodes that exist; none is launched for it"
    if not pod.unschedulable:
        return "kube-scheduler has not marked it unschedulable: it is new, gated, or waits for a volume"
    return "no node is launched for it"
