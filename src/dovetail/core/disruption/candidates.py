"""Which machines may be disrupted, and for each of the others the reason why not."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from dovetail.core.pod.eligibility import blocking_budget, is_active, is_reschedulable, protection
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_groups import Alike
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.kube.workloads import DisruptionBudget
from dovetail.model.node import Node, NodeObject

_DELETION_COST_UNIT: Final = 2.0**27
_PRIORITY_UNIT: Final = 2.0**25
_MOST_COST: Final = 10.0


class Manner(StrEnum):
    """How patient a disruption is with pods that do not want to go."""

    GRACEFUL = "graceful"
    """It waits until they agree."""
    EVENTUAL = "eventual"
    """It begins anyway where the node has a termination grace period: they go by its end."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine as the cluster has it."""

    identity: str
    """Its provider id."""
    claim: NodeClaim | None = None
    node: NodeObject | None = None
    pods: tuple[Pod, ...] = ()
    alike: tuple[Alike, ...] | None = None
    """The same pods, as far as they have not ended; None: nobody has sorted them."""
    emptied: datetime | None = None
    """When the last pod that mattered left, where somebody saw it: claims say it late."""
    room_wanted: bool = False
    """A CapacityBuffer counts on the room that it has, or may."""

    @property
    def leaving(self) -> bool:
        """Whether somebody deletes it already."""
        deleting = [one.deleting for one in (self.claim, self.node) if one is not None]
        terminating = self.claim is not None and is_true(
            self.claim.conditions, "InstanceTerminating"
        )
        return any(deleting) or terminating

    @property
    def guarded(self) -> bool:
        """Whether a pod of it may say something about being disrupted."""
        return self.alike is None or any(one.guarded for one in self.alike)

    @property
    def tainted(self) -> bool:
        return self.node is not None and DISRUPTED in self.node.taints


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What else a machine's fate hangs on."""

    now: datetime
    pool: Callable[[str], NodePool | None]
    types: Callable[[NodePool], FrozenDict[str, InstanceType]]
    """What a pool can buy, by name; empty where nobody knows."""
    budgets: Callable[[Pod], tuple[DisruptionBudget, ...]]
    nominated: Callable[[str, datetime], bool]
    in_hand: frozenset[str] = frozenset()
    """Machines that a command has marked already."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A machine that may be disrupted."""

    identity: str
    claim: NodeClaim
    node: NodeObject
    pool: NodePool
    reschedulable: tuple[Pod, ...] = ()
    """Pods that would ask for another node."""
    price: float = 0.0
    """USD per hour; 0 where it is not known."""

    @cached_property
    def cost(self) -> float:
        """What moving its pods is worth avoiding; 1.0 with none."""
        return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in self.reschedulable)

    @property
    def savings_ratio(self) -> float:
        return self.price / self.cost


class Blocker(msgspec.Struct, frozen=True, order=True):
    """An object by whose wish nodes stay: somebody may change it."""

    kind: str
    name: str
    """With its namespace, if it has one."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Spared(msgspec.Struct, frozen=True):
    """A machine that is left alone, and why."""

    machine: Machine
    because: str
    """Empty where it is nobody's business: not our machine, or already seen to."""
    blocker: Blocker | None = None


def eviction_cost(pod: Pod) -> float:
    """Return what evicting a pod is worth avoiding: 1.0, more or less as its owner says.

    A deletion cost that is no number counts as none.
    """
    if not pod.priority and label_keys.POD_DELETION_COST not in pod.annotations:
        return 1.0  # Nearly all of them.
    text = pod.annotations.get(label_keys.POD_DELETION_COST, "0")
    try:
        wish = float(int(text))
    except ValueError:
        wish = 0.0
    cost = 1.0 + wish / _DELETION_COST_UNIT + pod.priority / _PRIORITY_UNIT
    return min(max(cost, -_MOST_COST), _MOST_COST)


def is_empty(pods: Iterable[Pod]) -> bool:
    """Tell whether no pod of a node is worth keeping it for."""
    return not any(is_reschedulable(pod) and eviction_cost(pod) > 0 for pod in pods)


def consider(machine: Machine, around: Surroundings, manner: Manner) -> Candidate | Spared:
    """Return a machine as a candidate, or the first reason why it is none."""
    claim, node = machine.claim, machine.node
    if claim is None:
        return Spared(machine, "")
    if node is None:
        return Spared(machine, "its node has not joined")
    problem = _problem_of_node(machine, claim, node, around)
    if problem is not None:
        wish = node.annotations.get(label_keys.DO_NOT_DISRUPT) == "true"
        return Spared(machine, problem, Blocker("Node", node.name) if wish else None)
    pool = around.pool(claim.pool)
    types = around.types(pool) if pool is not None else FrozenDict()
    if pool is None or not types:
        return Spared(machine, f"NodePool {claim.pool!r} not found")
    # With a deadline for draining, pods cannot hold up for ever what has to be done.
    if manner is Manner.GRACEFUL or claim.termination_grace_period is None:
        held = _held_by_pods(machine.pods, around) if _may_hold(machine, around) else None
        if held is not None:
            return Spared(machine, *held)
    return Candidate(
        identity=machine.identity,
        claim=claim,
        node=node,
        pool=pool,
        reschedulable=tuple(pod for pod in machine.pods if is_reschedulable(pod)),
        price=price_of(node, types),
    )


def _problem_of_node(
    machine: Machine, claim: NodeClaim, node: NodeObject, around: Surroundings
) -> str | None:
    """Return why a machine is spared for its own sake: None for no reason, empty for none told."""
    if node.labels.get(label_keys.INITIALIZED) != "true":
        return "its node is not initialized"
    if machine.leaving:
        return "it is being deleted"
    if machine.tainted and machine.identity not in around.in_hand:
        return "it is marked for deletion"
    if around.nominated(machine.identity, around.now):
        return "pods that wait were sent to it just now"
    if node.annotations.get(label_keys.DO_NOT_DISRUPT) == "true":
        return f"its node has the annotation {label_keys.DO_NOT_DISRUPT}"
    if not node.labels.get(label_keys.NODEPOOL) or not claim.pool:
        return f"its node has no label {label_keys.NODEPOOL}"
    return None


def _may_hold(machine: Machine, around: Surroundings) -> bool:
    """Tell whether it is worth asking each pod: replicas have the same budgets."""
    return machine.guarded or any(around.budgets(one.pods[0]) for one in machine.alike or ())


def _held_by_pods(pods: Iterable[Pod], around: Surroundings) -> tuple[str, Blocker] | None:
    """Return what keeps a node with these pods from being disrupted, and who could end that."""
    for pod in pods:
        if is_active(pod) and protection(pod, around.now).active:
            because = f"Pod {pod.key} has the annotation {label_keys.DO_NOT_DISRUPT}"
            return because, Blocker("Pod", pod.key)
    for pod in pods:
        blocking = blocking_budget(pod, around.budgets(pod), around.now)
        if len(blocking) > 1:
            names = ", ".join(f"{one.namespace}/{one.name}" for one in blocking)
            because = f"Pod {pod.key} has several PodDisruptionBudgets: {names}"
            return because, Blocker("PodDisruptionBudget", names)
        if blocking:
            (only,) = blocking
            name = f"{only.namespace}/{only.name}"
            return f"Pdb {name} prevents pod evictions", Blocker("PodDisruptionBudget", name)
    return None


def price_of(node: NodeObject | Node, types: Mapping[str, InstanceType]) -> float:
    """Return what the machine costs in USD per hour, available or not; 0 where nobody knows."""
    kind = types.get(node.labels.get(label_keys.INSTANCE_TYPE, ""))
    place = (node.labels.get(label_keys.ZONE), node.labels.get(label_keys.CAPACITY_TYPE))
    for offering in kind.offerings if kind is not None else ():
        if (offering.zone, offering.capacity_type) == place:
            # NaN is equal to nothing, not even to itself.
            return offering.price if offering.price == offering.price else 0.0
    return 0.0
