"""Disruption candidates, and the reasons why other nodes cannot be disrupted."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.pod.eligibility import get_blocking_pdbs, get_protection, is_active, is_reschedulable
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_groups import PodGroup
from dovetail.model.kube.resources import sum_resources
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.node import Node, NodeObject

_EKS_GROUP: Final = "eks.amazonaws.com"
"""API group of the NodeClass of EKS Auto Mode."""
# Karpenter's scale: the largest deletion cost (2**31) counts 16, the highest priority 64.
_DELETION_COST_UNIT: Final = 2.0**27
_PRIORITY_UNIT: Final = 2.0**25
_MAX_EVICTION_COST: Final = 10.0


NO_OFFERING_PRICE: Final = (
    "no offering of its NodePool has a price for its instance type, zone and capacity type"
)
"""Why a node without a price is not consolidated; its labels may still name one."""


class DisruptionClass(StrEnum):
    """Determines if pods can block a disruption."""

    GRACEFUL = "graceful"
    """Protected pods and PodDisruptionBudgets block it."""
    EVENTUAL = "eventual"
    """They do not if the node has a termination grace period, which ends the drain."""


class StateNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """NodeClaim, Node and pods of one instance."""

    provider_id: str
    """The node's name if it has no provider ID."""
    claim: NodeClaim | None = None
    node: NodeObject | None = None
    pods: tuple[Pod, ...] = ()
    pod_groups: tuple[PodGroup, ...] | None = None
    """The same pods without terminal ones, by equivalence; None: not grouped."""
    emptied_at: datetime | None = None
    """When the last reschedulable pod left, as observed: NodeClaims record it later."""
    needed_by_buffer: bool = False
    """A CapacityBuffer needs its free capacity, or may need it."""
    has_stuck_group: bool = False
    """It has no room for pods that must share its host, and is to be replaced."""

    @property
    def is_deleting(self) -> bool:
        """True if NodeClaim, Node or instance is being deleted."""
        deleting = [obj.deleting for obj in (self.claim, self.node) if obj is not None]
        terminating = self.claim is not None and is_true(self.claim.conditions, INSTANCE_TERMINATING)
        return any(deleting) or terminating

    @cached_property
    def is_empty(self) -> bool:
        """True if no pod needs rescheduling at a positive eviction cost."""
        return is_empty(self.pods)

    @cached_property
    def may_have_protected_pods(self) -> bool:
        """True if a pod may have the annotation do-not-disrupt."""
        return self.pod_groups is None or any(group.has_do_not_disrupt for group in self.pod_groups)

    @property
    def has_disrupted_taint(self) -> bool:
        return self.node is not None and DISRUPTED_TAINT in self.node.taints


class CandidateContext(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups needed to check candidates."""

    now: datetime
    get_nodepool: Callable[[str], NodePool | None]
    get_instance_types: Callable[[NodePool], Mapping[str, InstanceType]]
    """Instance types of a NodePool by name; empty: unknown."""
    get_pdbs: Callable[[Pod], tuple[PodDisruptionBudget, ...]]
    is_nominated: Callable[[str, datetime], bool]
    tainted_by_command: frozenset[str] = frozenset()
    """Provider IDs of nodes whose disrupted taint belongs to the command being checked."""
    node_cost: float | None = None
    """The setting of what nodes cost beyond their instance; see ``get_node_cost``."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node that may be disrupted."""

    provider_id: str
    claim: NodeClaim
    node: NodeObject
    pool: NodePool
    reschedulable_pods: tuple[Pod, ...] = ()
    """Pods that need another node."""
    price: float = 0.0
    """USD per hour; 0 if unknown."""
    node_cost: float = 0.0
    """USD per hour beyond the instance."""

    @property
    def name(self) -> str:
        """Name of its node."""
        return self.node.name

    @property
    def cost(self) -> float:
        """USD per hour of instance and node cost."""
        return self.price + self.node_cost

    @cached_property
    def disruption_cost(self) -> float:
        """Cost of moving its pods, in units of one ordinary pod; 1.0 without pods."""
        return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in self.reschedulable_pods)

    def with_pool(self, pool: NodePool, node_cost: float) -> "Candidate":
        """Return the candidate with the current state of its NodePool."""
        candidate = replace(self, pool=pool, node_cost=node_cost)
        if "disruption_cost" in self.__dict__:
            candidate.__dict__["disruption_cost"] = self.disruption_cost
        return candidate

    @property
    def savings_ratio(self) -> float:
        return self.cost / self.disruption_cost


class Blocker(msgspec.Struct, frozen=True, order=True):
    """An object that prevents disruption and that a user may change."""

    kind: str
    name: str
    """``namespace/name`` for namespaced kinds."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class DisruptionBlocked(msgspec.Struct, frozen=True):
    """A node that cannot be disrupted, and why."""

    state_node: StateNode
    message: str
    """Empty if there is nothing to report: the node has no NodeClaim."""
    blocker: Blocker | None = None


def eviction_cost(pod: Pod) -> float:
    """Return the cost of evicting a pod: 1.0, adjusted by deletion cost and priority.

    An invalid deletion cost counts as 0.
    """
    if not pod.priority and label_keys.POD_DELETION_COST not in pod.annotations:
        return 1.0  # Fast path for nearly all pods.
    text = pod.annotations.get(label_keys.POD_DELETION_COST, "0")
    try:
        deletion_cost = float(int(text))
    except ValueError:
        deletion_cost = 0.0
    cost = 1.0 + deletion_cost / _DELETION_COST_UNIT + pod.priority / _PRIORITY_UNIT
    return min(max(cost, -_MAX_EVICTION_COST), _MAX_EVICTION_COST)


def is_empty(pods: Iterable[Pod]) -> bool:
    """Return True if no pod needs rescheduling at a positive eviction cost."""
    return not any(is_reschedulable(pod) and eviction_cost(pod) > 0 for pod in pods)


def check_disruptable(
    state_node: StateNode, context: CandidateContext, disruption_class: DisruptionClass
) -> Candidate | DisruptionBlocked:
    """Return a node as a candidate, or the first reason why it cannot be disrupted."""
    claim, node = state_node.claim, state_node.node
    if claim is None:
        return DisruptionBlocked(state_node, "")
    if node is None:
        return DisruptionBlocked(state_node, "its node has not registered")
    problem = _get_node_blocker(state_node, claim, node, context)
    if problem is not None:
        is_protected = node.annotations.get(label_keys.DO_NOT_DISRUPT) == "true"
        return DisruptionBlocked(state_node, problem, Blocker("Node", node.name) if is_protected else None)
    pool = context.get_nodepool(claim.pool)
    if pool is None:
        return DisruptionBlocked(state_node, describe_missing_nodepool(claim.pool))
    types = context.get_instance_types(pool)
    if not types:
        return DisruptionBlocked(state_node, _describe_missing_types(pool))
    # A termination grace period limits the drain, so that pods cannot block an eventual disruption.
    if disruption_class is DisruptionClass.GRACEFUL or claim.termination_grace_period is None:
        blocked = None
        if may_be_blocked_by_pods(state_node, context):
            blocked = _find_blocking_pod(state_node.pods, context)
        if blocked is not None:
            return DisruptionBlocked(state_node, *blocked)
    return Candidate(
        provider_id=state_node.provider_id,
        claim=claim,
        node=node,
        pool=pool,
        reschedulable_pods=tuple(pod for pod in state_node.pods if is_reschedulable(pod)),
        price=get_node_price(node, types, state_node.pods),
        node_cost=get_node_cost(pool, types.values(), context.node_cost),
    )


def _get_node_blocker(
    state: StateNode, claim: NodeClaim, node: NodeObject, context: CandidateContext
) -> str | None:
    """Return why the node itself blocks its disruption, or None."""
    if node.labels.get(label_keys.INITIALIZED) != "true":
        return "its node is not initialized"
    is_disrupted = state.has_disrupted_taint and state.provider_id not in context.tainted_by_command
    if state.is_deleting or is_disrupted:
        return describe_disruption(state)
    if context.is_nominated(state.provider_id, context.now):
        return "it is nominated for pending pods"
    if node.annotations.get(label_keys.DO_NOT_DISRUPT) == "true":
        return f"its node has the annotation {label_keys.DO_NOT_DISRUPT}"
    if not node.labels.get(label_keys.NODEPOOL) or not claim.pool:
        return f"its node has no label {label_keys.NODEPOOL}"
    return None


def describe_missing_nodepool(name: str) -> str:
    """Return that a NodePool does not exist, in the words of Karpenter's Events."""
    return f"NodePool {name!r} not found"


def _describe_missing_types(pool: NodePool) -> str:
    node_class = pool.template.node_class
    cause = f"EC2NodeClass {node_class.name!r} is missing or not ready"
    if node_class.group == _EKS_GROUP:
        cause = f"its {node_class.kind} {node_class.name!r} belongs to EKS Auto Mode"
    elif not node_class.is_supported:
        cause = f"its {node_class.kind} {node_class.name!r} is not an EC2NodeClass"
    return f"NodePool {pool.name!r} has no instance types: {cause}"


def describe_disruption(state: StateNode) -> str:
    """Return how a node ends that is being deleted or has the disrupted taint."""
    if state.is_deleting:
        return "it is being deleted"
    condition = state.claim.conditions.get(DISRUPTION_REASON) if state.claim is not None else None
    return "it is being disrupted" + (f" ({condition.reason})" if condition is not None else "")


def may_be_blocked_by_pods(state: StateNode, context: CandidateContext) -> bool:
    """Return False if no pod can block: pods of a group have the same PodDisruptionBudgets."""
    if state.may_have_protected_pods:
        return True
    budgets = (context.get_pdbs(group.pods[0]) for group in state.pod_groups or ())
    return any(len(pdbs) > 1 or (pdbs and pdbs[0].disruptions_allowed <= 0) for pdbs in budgets)


def _find_blocking_pod(pods: Iterable[Pod], context: CandidateContext) -> tuple[str, Blocker] | None:
    """Return why pods block the disruption of their node, and the object that blocks."""
    for pod in pods:
        if is_active(pod) and get_protection(pod, context.now).active:
            message = f"Pod {pod.key} has the annotation {label_keys.DO_NOT_DISRUPT}"
            return message, Blocker("Pod", pod.key)
    for pod in pods:
        blocking = get_blocking_pdbs(pod, context.get_pdbs(pod), context.now)
        if len(blocking) > 1:
            names = ", ".join(f"{pdb.namespace}/{pdb.name}" for pdb in blocking)
            message = f"Pod {pod.key} has several PodDisruptionBudgets: {names}"
            return message, Blocker("PodDisruptionBudget", names)
        if blocking:
            (pdb,) = blocking
            name = f"{pdb.namespace}/{pdb.name}"
            return f"Pdb {name} prevents pod evictions", Blocker("PodDisruptionBudget", name)
    return None


def get_node_price(
    node: NodeObject | Node, types: Mapping[str, InstanceType], pods: Iterable[Pod] = ()
) -> float:
    """Return a node's price in USD per hour, even if unavailable; 0: unknown.

    Surplus credits for the requests of its pods are included.
    """
    instance_type = types.get(node.labels.get(label_keys.INSTANCE_TYPE, ""))
    key = (node.labels.get(label_keys.ZONE), node.labels.get(label_keys.CAPACITY_TYPE))
    for offering in instance_type.offerings if instance_type is not None else ():
        if (offering.zone, offering.capacity_type) == key:
            # An offering without a price has NaN, which is not equal to itself.
            if instance_type is None or offering.price != offering.price:
                return 0.0
            return offering.price + price_surplus(instance_type, pods)
    return 0.0


def price_surplus(instance_type: InstanceType, pods: Iterable[Pod]) -> float:
    """Return USD per hour of surplus credits for the requests of a node's pods."""
    if instance_type.cpu_credits is None:
        return 0.0  # Nearly all nodes: do not add up requests.
    running = (pod.spec.requests for pod in pods if not pod.is_terminal)
    return instance_type.price_surplus(sum_resources(running))
