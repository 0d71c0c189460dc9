"""Disruption candidates, and why other nodes are none.

CA1 to CA24. CA22 (already in the queue): our commands end in the pass that began them, so that the
mark on the node is the queue.
"""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.candidates import (
    Candidate,
    CandidateContext,
    DisruptionBlocked,
    DisruptionClass,
    StateNode,
    check_disruptable,
    eviction_cost,
    is_empty,
    may_be_blocked_by_pods,
)
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase, PodSpec
from dovetail.model.kube.pod_groups import group_pods
from dovetail.model.kube.taints import DISRUPTED_TAINT, Toleration
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.model.node import NodeObject
from tests.support.scheduling.instance_types import DEFAULT_TYPES, ON_DEMAND, Z1
from tests.support.simulator.api_server import START

NOW = START
EC2_CLASS = NodeClassRef()
PROTECTED = FrozenDict({label_keys.DO_NOT_DISRUPT: "true"})
LABELS = {label_keys.NODEPOOL: "default", label_keys.INITIALIZED: "true"}
EVERY_DISRUPTION_CLASS = pytest.mark.parametrize("disruption_class", list(DisruptionClass))


def a_state_node(*pods: Pod, node: dict[str, Any] | None = None, **claim: Any) -> StateNode:
    node_fields = {"labels": FrozenDict(LABELS), **(node or {})}
    fields = {"labels": FrozenDict({label_keys.NODEPOOL: "default"}), **claim}
    return StateNode(
        provider_id="i-1",
        claim=NodeClaim(name="claim", provider_id="i-1", **fields),
        node=NodeObject(name="node", provider_id="i-1", **node_fields),
        pods=pods,
    )


def a_pod(owner: str = "ReplicaSet", **fields: Any) -> Pod:
    return Pod(
        name="pod",
        owner=OwnerReference("apps/v1", owner, "web"),
        phase=fields.pop("phase", PodPhase.RUNNING),
        **fields,
    )


def check(
    state_node: StateNode,
    disruption_class: DisruptionClass = DisruptionClass.GRACEFUL,
    *,
    budgets: tuple[PodDisruptionBudget, ...] = (),
    nominated: bool = False,
    pools: tuple[str, ...] = ("default",),
    node_class: NodeClassRef = EC2_CLASS,
    types: tuple[InstanceType, ...] = DEFAULT_TYPES,
    in_hand: frozenset[str] = frozenset(),
) -> Candidate | DisruptionBlocked:
    template = NodeTemplate(node_class=node_class)
    nodepools = {name: NodePool(name=name, template=template) for name in pools}
    context = CandidateContext(
        now=NOW,
        get_nodepool=nodepools.get,
        get_instance_types=lambda _: FrozenDict(
            {instance_type.name: instance_type for instance_type in types}
        ),
        get_pdbs=lambda _: budgets,
        is_nominated=lambda *_: nominated,
        tainted_by_command=in_hand,
    )
    return check_disruptable(state_node, context, disruption_class)


def why_not(
    state_node: StateNode, disruption_class: DisruptionClass = DisruptionClass.GRACEFUL, **context: Any
) -> str:
    result = check(state_node, disruption_class, **context)
    assert isinstance(result, DisruptionBlocked)
    return result.message


def may_go(
    state_node: StateNode, disruption_class: DisruptionClass = DisruptionClass.GRACEFUL, **context: Any
) -> bool:
    return isinstance(check(state_node, disruption_class, **context), Candidate)


def a_budget(**fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(namespace="default", name="keep", **fields)


@EVERY_DISRUPTION_CLASS
@pytest.mark.parametrize("owner", ["ReplicaSet", "DaemonSet", "Node"])
def test_protected_pod_blocks_disruption_whatever_owns_it(
    owner: str, disruption_class: DisruptionClass
) -> None:
    state_node = a_state_node(a_pod(owner, annotations=PROTECTED))

    assert (
        why_not(state_node, disruption_class)
        == "Pod default/pod has the annotation karpenter.sh/do-not-disrupt"
    )


def test_pods_do_not_block_eventual_disruption_with_a_termination_grace_period() -> None:
    grace = timedelta(minutes=5)
    protected = a_state_node(a_pod(annotations=PROTECTED), termination_grace_period=grace)
    guarded = a_state_node(a_pod(), termination_grace_period=grace)

    assert may_go(protected, DisruptionClass.EVENTUAL)
    assert may_go(guarded, DisruptionClass.EVENTUAL, budgets=(a_budget(),))
    assert not may_go(protected, DisruptionClass.GRACEFUL)
    assert not may_go(guarded, DisruptionClass.GRACEFUL, budgets=(a_budget(),))


def test_pods_block_eventual_disruption_without_a_termination_grace_period() -> None:
    assert not may_go(a_state_node(a_pod(annotations=PROTECTED)), DisruptionClass.EVENTUAL)
    assert not may_go(a_state_node(a_pod()), DisruptionClass.EVENTUAL, budgets=(a_budget(),))


@pytest.mark.parametrize("gone", [{"deleting": True}, {"phase": PodPhase.FAILED}])
def test_protected_pods_that_are_deleting_or_terminal_do_not_block(gone: dict[str, Any]) -> None:
    assert may_go(a_state_node(a_pod(annotations=PROTECTED, **gone)))


@pytest.mark.parametrize(("value", "blocked"), [("true", True), ("false", False), ("1h", False)])
def test_only_the_value_true_protects_a_node(value: str, blocked: bool) -> None:
    annotations = FrozenDict({label_keys.DO_NOT_DISRUPT: value})

    assert may_go(a_state_node(node={"annotations": annotations})) is not blocked


def test_pod_with_several_pdbs_blocks_disruption() -> None:
    both = (a_budget(disruptions_allowed=9), a_budget(disruptions_allowed=9))

    assert "several PodDisruptionBudgets" in why_not(a_state_node(a_pod()), budgets=both)


@pytest.mark.parametrize("owner", ["ReplicaSet", "DaemonSet"])
def test_pdb_without_allowed_disruptions_blocks_disruption(owner: str) -> None:
    because = why_not(a_state_node(a_pod(owner)), budgets=(a_budget(disruptions_allowed=0),))

    assert because == "Pdb default/keep prevents pod evictions"


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("Node"),
        a_pod(phase=PodPhase.SUCCEEDED),
        a_pod(deleting=True),
        a_pod(spec=PodSpec(tolerations=(Toleration(operator="Exists"),))),
    ],
)
def test_pdbs_of_pods_that_are_not_evicted_do_not_block(pod: Pod) -> None:
    assert may_go(a_state_node(pod), budgets=(a_budget(disruptions_allowed=0),))


def test_state_node_without_claim_or_node_is_no_candidate() -> None:
    whole = a_state_node()

    assert why_not(StateNode(provider_id="i-1", node=whole.node)) == ""
    assert why_not(StateNode(provider_id="i-1", claim=whole.claim)) == "its node has not registered"


def test_nominated_node_is_no_candidate() -> None:
    assert "nominated for pending pods" in why_not(a_state_node(), nominated=True)


def test_node_that_is_being_deleted_is_no_candidate() -> None:
    ending = FrozenDict({"InstanceTerminating": Condition(status=TRUE)})

    assert why_not(a_state_node(deleting=True)) == "it is being deleted"
    assert why_not(a_state_node(node={"deleting": True})) == "it is being deleted"
    assert why_not(a_state_node(conditions=ending)) == "it is being deleted"


def test_tainted_node_is_candidate_only_for_the_command_that_tainted_it() -> None:
    tainted = a_state_node(node={"taints": (DISRUPTED_TAINT,)})

    assert why_not(tainted) == "it is being disrupted"
    assert may_go(tainted, in_hand=frozenset({"i-1"}))


def test_node_that_is_being_disrupted_names_the_reason() -> None:
    reason = FrozenDict({"DisruptionReason": Condition(status=TRUE, reason="Drifted")})

    tainted = a_state_node(node={"taints": (DISRUPTED_TAINT,)}, conditions=reason)

    assert why_not(tainted) == "it is being disrupted (Drifted)"


def test_uninitialized_node_is_no_candidate() -> None:
    young = a_state_node(node={"labels": FrozenDict({label_keys.NODEPOOL: "default"})})

    assert why_not(young) == "its node is not initialized"


def test_node_without_nodepool_label_is_no_candidate() -> None:
    stray = a_state_node(node={"labels": FrozenDict({label_keys.INITIALIZED: "true"})})

    assert "no label karpenter.sh/nodepool" in why_not(stray)


def test_node_of_a_missing_nodepool_is_no_candidate() -> None:
    assert why_not(a_state_node(), pools=()) == "NodePool 'default' not found"


@pytest.mark.parametrize(
    ("node_class", "cause"),
    [
        (EC2_CLASS, "EC2NodeClass 'default' is missing or not ready"),
        (
            NodeClassRef("eks.amazonaws.com", "NodeClass", "default"),
            "its NodeClass 'default' belongs to EKS Auto Mode",
        ),
        (NodeClassRef("example.com", "OtherNodeClass", "x"), "its OtherNodeClass 'x' is not an EC2NodeClass"),
    ],
)
def test_node_of_a_nodepool_without_instance_types_names_the_node_class(
    node_class: NodeClassRef, cause: str
) -> None:
    message = why_not(a_state_node(), node_class=node_class, types=())

    assert message == f"NodePool 'default' has no instance types: {cause}"


def test_node_without_offering_is_a_candidate_without_a_price() -> None:
    candidate = check(a_state_node())

    assert isinstance(candidate, Candidate)
    assert candidate.price == 0.0


def test_price_is_that_of_instance_type_zone_and_capacity_type() -> None:
    kind = DEFAULT_TYPES[0]
    labels = {
        **LABELS,
        label_keys.INSTANCE_TYPE: kind.name,
        label_keys.ZONE: Z1,
        label_keys.CAPACITY_TYPE: ON_DEMAND,
    }

    candidate = check(a_state_node(node={"labels": FrozenDict(labels)}))

    assert isinstance(candidate, Candidate)
    assert candidate.price == kind.offerings[0].price
    assert candidate.savings_ratio == candidate.price


def test_eviction_cost_of_an_ordinary_pod_is_one() -> None:
    assert eviction_cost(a_pod()) == 1.0
    candidate = check(a_state_node(a_pod(), a_pod("DaemonSet")))
    assert isinstance(candidate, Candidate)
    assert candidate.disruption_cost == 2.0


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_higher_deletion_cost_never_lowers_the_eviction_cost(first: int, second: int) -> None:
    low, high = sorted((first, second))

    costs = [
        eviction_cost(a_pod(annotations=FrozenDict({label_keys.POD_DELETION_COST: str(deletion_cost)})))
        for deletion_cost in (low, high)
    ]

    assert -10 <= costs[0] <= costs[1] <= 10


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_higher_priority_never_lowers_the_eviction_cost(first: int, second: int) -> None:
    low, high = sorted((first, second))

    assert eviction_cost(a_pod(priority=low)) <= eviction_cost(a_pod(priority=high))


def test_invalid_deletion_cost_counts_as_zero() -> None:
    odd = FrozenDict({label_keys.POD_DELETION_COST: "cheap"})

    assert eviction_cost(a_pod(annotations=odd)) == 1.0


def test_node_is_empty_without_pods_of_positive_eviction_cost() -> None:
    worthless = FrozenDict({label_keys.POD_DELETION_COST: str(-(2**31))})

    assert is_empty([a_pod("DaemonSet"), a_pod("Node"), a_pod(deleting=True)])
    assert is_empty([a_pod(annotations=worthless)])
    assert not is_empty([a_pod()])
    assert not is_empty([a_pod("StatefulSet", deleting=True)])


@pytest.mark.parametrize(("allowed", "blocks"), [(0, True), (1, False)])
def test_a_budget_without_disruptions_left_blocks_a_group_of_pods(allowed: int, blocks: bool) -> None:
    pods = (a_pod(),)
    state_node = msgspec.structs.replace(a_state_node(*pods), pod_groups=group_pods(pods))

    assert may_go(state_node, budgets=(a_budget(disruptions_allowed=allowed),)) is not blocks


def test_one_group_of_pods_that_a_budget_blocks_is_enough() -> None:
    pods = (a_pod(labels=FrozenDict({"app": "free"})), a_pod(labels=FrozenDict({"app": "kept"})))
    state_node = msgspec.structs.replace(a_state_node(*pods), pod_groups=group_pods(pods))
    context = CandidateContext(
        now=NOW,
        get_nodepool={}.get,
        get_instance_types=lambda _: FrozenDict(),
        get_pdbs=lambda pod: (a_budget(),) if pod.labels["app"] == "kept" else (),
        is_nominated=lambda *_: False,
    )

    assert may_be_blocked_by_pods(state_node, context)
