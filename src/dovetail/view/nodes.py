"""Nodes of the view: state, price, utilization, pods by workload, keep reason."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.cost.node_prices import get_instance_type
from dovetail.core.disruption.candidates import get_node_price
from dovetail.core.disruption.command import KeepReason
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.condition_types import (
    CONSISTENT_STATE_FOUND,
    DISRUPTION_REASON,
    DRAINED,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, READY, TRUE, Condition, Conditions, is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.node import Node, NodeObject
from dovetail.view.document import (
    ConditionView,
    KeepView,
    NodeState,
    NodeView,
    ObjectRef,
    PodView,
    PriceBasis,
    Usage,
    WorkloadView,
)
from dovetail.view.prices import FindPrice

_UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
_SHOWN_ANNOTATIONS: Final = (label_keys.DO_NOT_DISRUPT,)
_TEMPLATE_HASH: Final = "pod-template-hash"
_EKS_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
"""Label of nodes in EKS managed node groups: ON_DEMAND, SPOT or CAPACITY_BLOCK."""


class NodeInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node of the view is made from; equal inputs give equal nodes."""

    node: Node
    node_object: NodeObject | None
    claim: NodeClaim | None
    keep: KeepReason | None
    types: Mapping[str, InstanceType]
    """Instance types of its NodePool, by name."""
    node_cost: float
    find_price: FindPrice


def build_node(source: NodeInput) -> NodeView:
    """Return one node of the view; its key is the NodeClaim's name, else its own."""
    node, claim = source.node, source.claim
    requested = {CPU: 0, MEMORY: 0, PODS: 0}
    workloads = _group_pods(node.pods, requested)
    allocatable = node.effective_allocatable()
    state, since = _get_state(source)
    price, basis = _get_price(source)
    created = source.node_object.created if source.node_object is not None else None
    return NodeView(
        key=node.claim or node.name,
        name=node.name,
        node_claim=node.claim,
        node_pool=node.pool,
        state=state,
        state_since=since,
        instance_type=get_instance_type(node.labels),
        zone=node.labels.get(label_keys.ZONE, ""),
        capacity_type=get_capacity_type(node.labels),
        arch=node.labels.get(label_keys.ARCH, ""),
        instance_id=node.provider_id.rpartition("/")[2],
        price_per_hour=price,
        price_basis=basis,
        node_cost_per_hour=source.node_cost,
        created_at=claim.created if claim is not None and claim.created is not None else created,
        conditions=tuple(_get_conditions(source)),
        annotations={key: node.annotations[key] for key in _SHOWN_ANNOTATIONS if key in node.annotations},
        cordoned=any(taint.key == _UNSCHEDULABLE_TAINT for taint in node.taints),
        cpu=Usage(requested=requested[CPU], allocatable=allocatable.get(CPU, 0)),
        memory=Usage(requested=requested[MEMORY], allocatable=allocatable.get(MEMORY, 0)),
        pods=Usage(requested=requested[PODS], allocatable=allocatable.get(PODS, 0)),
        workloads=workloads,
        keep=build_keep(source.keep),
    )


def get_capacity_type(labels: Mapping[str, str]) -> str:
    """Return the capacity type of a node, also of one in an EKS managed node group."""
    capacity_type = labels.get(label_keys.CAPACITY_TYPE)
    if capacity_type is not None:
        return capacity_type
    return labels.get(_EKS_CAPACITY_TYPE, "").lower().replace("_", "-")


def get_workload(pod: Pod) -> tuple[str, str]:
    """Return kind and name of the workload that owns a pod."""
    owner = pod.owner
    if owner is None:
        return "Pod", pod.name
    if owner.kind == "ReplicaSet":
        # A Deployment's pods belong to a ReplicaSet named <deployment>-<hash>.
        name = owner.name.removesuffix(f"-{pod.labels.get(_TEMPLATE_HASH, '')}")
        return ("Deployment", name) if name != owner.name else ("ReplicaSet", name)
    return ("Pod", pod.name) if owner.kind == "Node" else (owner.kind, owner.name)


def _group_pods(pods: Iterable[Pod], requested: dict[str, int]) -> tuple[WorkloadView, ...]:
    """Group pods by workload, and add their requests to ``requested``."""
    groups: dict[tuple[str, str, str], list[PodView]] = {}
    for pod in pods:
        if pod.is_terminal:
            continue
        requests = pod.spec.requests
        cpu, memory = requests.get(CPU, 0), requests.get(MEMORY, 0)
        requested[CPU] += cpu
        requested[MEMORY] += memory
        requested[PODS] += 1
        groups.setdefault((pod.namespace, *get_workload(pod)), []).append(
            PodView(
                name=pod.name,
                cpu=cpu,
                memory=memory,
                phase=pod.phase.value,
                ready=pod.ready,
                deleting=pod.deleting,
                do_not_disrupt=pod.annotations.get(label_keys.DO_NOT_DISRUPT, "false") != "false",
                created_at=pod.created,
            )
        )
    return tuple(
        WorkloadView(
            namespace=key[0],
            kind=key[1],
            name=key[2],
            cpu=sum([pod.cpu for pod in groups[key]]),
            memory=sum([pod.memory for pod in groups[key]]),
            pods=tuple(sorted(groups[key], key=lambda pod: pod.name)),
        )
        for key in sorted(groups)
    )


def _get_state(source: NodeInput) -> tuple[NodeState, datetime | None]:
    node, node_object, claim = source.node, source.node_object, source.claim
    conditions: Conditions = claim.conditions if claim is not None else Conditions()
    deleted = [obj.deleted_at for obj in (claim, node_object) if obj is not None and obj.deleting]
    if deleted or is_true(conditions, INSTANCE_TERMINATING):
        for condition_type in (INSTANCE_TERMINATING, DRAINED):
            if is_true(conditions, condition_type):
                return NodeState.TERMINATING, conditions[condition_type].last_transition_time
        return NodeState.DRAINING, min((at for at in deleted if at is not None), default=None)
    if node_object is not None and DISRUPTED_TAINT in node_object.taints:
        return NodeState.DISRUPTED, _get_transition(conditions, DISRUPTION_REASON)
    if claim is not None and not claim.provider_id:
        return NodeState.LAUNCHING, claim.created
    # A node of a NodePool without its NodeClaim, as in some dumps, has no lifecycle to show.
    if claim is not None and not node.initialized:
        return NodeState.JOINING, _get_transition(conditions, LAUNCHED)
    if node_object is not None and not node_object.ready:
        return NodeState.NOT_READY, _get_transition(node_object.conditions, READY)
    return NodeState.READY, _get_transition(conditions, INITIALIZED)


def _get_transition(conditions: Conditions, condition_type: str) -> datetime | None:
    condition = conditions.get(condition_type)
    return None if condition is None else condition.last_transition_time


def _get_price(source: NodeInput) -> tuple[float | None, PriceBasis]:
    node = source.node
    price = get_node_price(node, source.types, node.pods)
    if price:
        return price, PriceBasis.OFFERING
    match = source.find_price(node)
    return (None, PriceBasis.UNKNOWN) if match is None else (match, PriceBasis.PRICE_BOOK)


def _get_conditions(source: NodeInput) -> Iterator[ConditionView]:
    """Return what is wrong: conditions of the node, and drift or inconsistency of its NodeClaim."""
    if source.node_object is not None:
        for name, condition in source.node_object.conditions.items():
            # Agents add their own: StorageReady, KernelReady, FrequentKubeletRestart …
            expected = TRUE if name.endswith("Ready") else FALSE
            if condition.status != expected:
                yield _show_condition(name, condition)
    if source.claim is not None:
        for name, reported in ((DRIFTED, TRUE), (CONSISTENT_STATE_FOUND, FALSE)):
            match = source.claim.conditions.get(name)
            if match is not None and match.status == reported:
                yield _show_condition(name, match)


def _show_condition(name: str, condition: Condition) -> ConditionView:
    return ConditionView(
        type=name,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        since=condition.last_transition_time,
    )


def build_keep(keep: KeepReason | None) -> KeepView | None:
    """Return why a node is kept, as the view shows it."""
    if keep is None:
        return None
    blocker = keep.blocker
    return KeepView(
        code=keep.code,
        message=keep.message,
        blocker=ObjectRef(kind=blocker.kind, name=blocker.name) if blocker is not None else None,
        saving_per_hour=keep.saving,
    )
