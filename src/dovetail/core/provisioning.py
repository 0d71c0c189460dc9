"""Provisioning rules: which pods and NodePools take part, and how NodeClaims are built."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.core.nodepool.hash import compute_nodepool_hash_annotations
from dovetail.core.scheduling.arrays.nodepools import pick_value
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.capacitybuffer import is_buffer_pod
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import READY
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.plan import PlannedNode, UnschedulablePod, UnschedulableReason

MAX_MESSAGE_LENGTH: Final = 1000
"""Characters of an Event message; Kubernetes allows 1,024."""


def is_provisionable(pod: Pod) -> bool:
    """Return True if a pod is pending and needs a node that does not exist yet."""
    return (
        pod.unschedulable
        and not pod.node_name
        and not pod.nominated_node_name
        and not pod.deleting
        and not pod.is_terminal
        and not pod.is_owned_by_daemon_set
        and not pod.is_static
    )


def can_provision(pool: NodePool) -> bool:
    """Return True if a NodePool may launch nodes for pending pods now."""
    return can_launch(pool) and pool.replicas is None


def can_launch(pool: NodePool) -> bool:
    """Return True if a NodePool may launch nodes now."""
    return (
        pool.ready
        and READY in pool.conditions  # Absent until the first reconcile: readiness is unknown.
        and not pool.deleting
        and pool.template.node_class.is_supported
    )


def build_planned_claim(planned: PlannedNode, pool: NodePool, *, name: str) -> NodeClaim:
    """Return the NodeClaim of a planned node."""
    names = [instance_type.name for instance_type in planned.instance_types]
    types = Requirement.one_of(label_keys.INSTANCE_TYPE, *names)
    pods = [pod for pod in planned.pods if not is_buffer_pod(pod)]
    assigned_pods = ",".join(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in pods)
    template_claim = build_template_claim(pool, name=name)
    return msgspec.structs.replace(
        template_claim,
        labels=FrozenDict({**planned.labels, **_get_pool_labels(pool)}),
        annotations=FrozenDict(
            {
                **template_claim.annotations,
                label_keys.MIN_VALUES_RELAXED: str(planned.min_values_relaxed).lower(),
                label_keys.ASSIGNED_PODS_ANNOTATION: assigned_pods,
                **_get_overlay_annotations(planned),
            }
        ),
        requirements=tuple(planned.requirements.intersection([types]).to_specs()),
        requests=planned.requested,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
    )


def _get_overlay_annotations(planned: PlannedNode) -> dict[str, str]:
    annotations = {}
    if any(instance_type.price_overlay_applied for instance_type in planned.instance_types):
        annotations[label_keys.PRICE_OVERLAY_APPLIED] = "true"
    if any(instance_type.capacity_overlay_applied for instance_type in planned.instance_types):
        annotations[label_keys.CAPACITY_OVERLAY_APPLIED] = "true"
    return annotations


def build_template_claim(pool: NodePool, *, name: str) -> NodeClaim:
    """Return a NodeClaim for any node that a NodePool's template allows."""
    template = pool.template
    return NodeClaim(
        name=name,
        labels=FrozenDict({**_choose_custom_labels(pool), **_get_pool_labels(pool)}),
        # Computed, because the NodePool's own annotation may be older than its last edit.
        annotations=FrozenDict({**template.annotations, **compute_nodepool_hash_annotations(pool)}),
        owner_references=(
            OwnerReference("karpenter.sh/v1", "NodePool", pool.name, pool.uid, controller=False),
        ),
        requirements=template.requirements,
        taints=template.taints,
        startup_taints=template.startup_taints,
        node_class=template.node_class,
        expire_after=template.expire_after,
        termination_grace_period=template.termination_grace_period,
    )


def _get_pool_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels of every node of a NodePool."""
    key, value = pool.template.node_class.label
    return {**pool.template.labels, label_keys.NODEPOOL: pool.name, key: value}


def _choose_custom_labels(pool: NodePool) -> dict[str, str]:
    """Return a value for each custom label that the requirements leave open.

    No instance type sets such a label. A node without it would violate its
    NodePool's requirements and be replaced as drifted again and again.
    """
    requirements = Requirements.from_specs(pool.template.requirements)
    return {
        key: value
        for key, requirement in requirements.items()
        if key not in label_keys.WELL_KNOWN
        and not label_keys.is_restricted(key)
        and (value := pick_value(requirement))
    }


def format_unschedulable(unplaced: UnschedulablePod) -> str:
    """Return one line with the unschedulable reasons of a pod, by NodePool."""
    text = "; ".join(_format_reason(reason) for reason in unplaced.reasons)
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[: MAX_MESSAGE_LENGTH - 1] + "…"


def _format_reason(reason: UnschedulableReason) -> str:
    return f"nodepool {reason.nodepool}: {reason.message}" if reason.nodepool else reason.message


def format_names(names: Iterable[str], limit: int = 5) -> str:
    """Return the first names and the number of the others."""
    names = list(names)
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} other(s)" if more > 0 else "")
