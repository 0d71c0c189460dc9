"""Which machines may be disrupted, and why the others may not.

CA1 to CA24. CA22 (already in the queue): our commands end in the pass that began them, so that the
mark on the node is the queue.
"""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.candidates import (
    Candidate,
    Machine,
    Manner,
    Spared,
    Surroundings,
    consider,
    eviction_cost,
    is_empty,
)
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.pod import Owner, Phase, Pod, PodSpec
from dovetail.model.kube.taints import DISRUPTED, Toleration
from dovetail.model.kube.workloads import DisruptionBudget
from dovetail.model.node import NodeObject
from tests.support.catalog import DEFAULT_TYPES, ON_DEMAND, Z1
from tests.support.cluster import START

NOW = START
PROTECTED = FrozenDict({label_keys.DO_NOT_DISRUPT: "true"})
LABELS = {label_keys.NODEPOOL: "default", label_keys.INITIALIZED: "true"}
EVERY_MANNER = pytest.mark.parametrize("manner", list(Manner))


def a_machine(*pods: Pod, node: dict[str, Any] | None = None, **claim: Any) -> Machine:
    made = {"labels": FrozenDict(LABELS), **(node or {})}
    fields = {"labels": FrozenDict({label_keys.NODEPOOL: "default"}), **claim}
    return Machine(
        identity="i-1",
        claim=NodeClaim(name="claim", provider_id="i-1", **fields),
        node=NodeObject(name="node", provider_id="i-1", **made),
        pods=pods,
    )


def a_pod(owner: str = "ReplicaSet", **fields: Any) -> Pod:
    return Pod(
        name="pod",
        owner=Owner("apps/v1", owner, "web"),
        phase=fields.pop("phase", Phase.RUNNING),
        **fields,
    )


def verdict(
    machine: Machine,
    manner: Manner = Manner.GRACEFUL,
    *,
    budgets: tuple[DisruptionBudget, ...] = (),
    nominated: bool = False,
    pools: tuple[str, ...] = ("default",),
    types: tuple[InstanceType, ...] = DEFAULT_TYPES,
    in_hand: frozenset[str] = frozenset(),
) -> Candidate | Spared:
    known = {name: NodePool(name=name) for name in pools}
    around = Surroundings(
        now=NOW,
        pool=known.get,
        types=lambda _: FrozenDict({one.name: one for one in types}),
        budgets=lambda _: budgets,
        nominated=lambda *_: nominated,
        in_hand=in_hand,
    )
    return consider(machine, around, manner)


def why_not(machine: Machine, manner: Manner = Manner.GRACEFUL, **around: Any) -> str:
    found = verdict(machine, manner, **around)
    assert isinstance(found, Spared)
    return found.because


def may_go(machine: Machine, manner: Manner = Manner.GRACEFUL, **around: Any) -> bool:
    return isinstance(verdict(machine, manner, **around), Candidate)


def a_budget(**fields: Any) -> DisruptionBudget:
    return DisruptionBudget(namespace="default", name="keep", **fields)


@EVERY_MANNER
@pytest.mark.parametrize("owner", ["ReplicaSet", "DaemonSet", "Node"])
def test_a_protected_pod_keeps_a_machine_whoever_made_it(owner: str, manner: Manner) -> None:
    machine = a_machine(a_pod(owner, annotations=PROTECTED))

    assert (
        why_not(machine, manner) == "Pod default/pod has the annotation karpenter.sh/do-not-disrupt"
    )


def test_with_a_deadline_an_eventual_disruption_overlooks_pods_that_do_not_want_to_go() -> None:
    grace = timedelta(minutes=5)
    protected = a_machine(a_pod(annotations=PROTECTED), termination_grace_period=grace)
    guarded = a_machine(a_pod(), termination_grace_period=grace)

    assert may_go(protected, Manner.EVENTUAL)
    assert may_go(guarded, Manner.EVENTUAL, budgets=(a_budget(),))
    assert not may_go(protected, Manner.GRACEFUL)
    assert not may_go(guarded, Manner.GRACEFUL, budgets=(a_budget(),))


def test_without_a_deadline_an_eventual_disruption_heeds_them() -> None:
    assert not may_go(a_machine(a_pod(annotations=PROTECTED)), Manner.EVENTUAL)
    assert not may_go(a_machine(a_pod()), Manner.EVENTUAL, budgets=(a_budget(),))


@pytest.mark.parametrize("gone", [{"deleting": True}, {"phase": Phase.FAILED}])
def test_protected_pods_that_are_going_or_have_ended_keep_nothing(gone: dict[str, Any]) -> None:
    assert may_go(a_machine(a_pod(annotations=PROTECTED, **gone)))


@pytest.mark.parametrize(("value", "spared"), [("true", True), ("false", False), ("1h", False)])
def test_only_the_word_true_on_the_node_protects_it(value: str, spared: bool) -> None:
    annotations = FrozenDict({label_keys.DO_NOT_DISRUPT: value})

    assert may_go(a_machine(node={"annotations": annotations})) is not spared


def test_a_pod_with_several_budgets_keeps_its_machine() -> None:
    both = (a_budget(allowed=9), a_budget(allowed=9))

    assert "several PodDisruptionBudgets" in why_not(a_machine(a_pod()), budgets=both)


@pytest.mark.parametrize("owner", ["ReplicaSet", "DaemonSet"])
def test_a_budget_that_lets_nobody_go_keeps_the_machine(owner: str) -> None:
    because = why_not(a_machine(a_pod(owner)), budgets=(a_budget(allowed=0),))

    assert because == "Pdb default/keep prevents pod evictions"


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("Node"),
        a_pod(phase=Phase.SUCCEEDED),
        a_pod(deleting=True),
        a_pod(spec=PodSpec(tolerations=(Toleration(operator="Exists"),))),
    ],
)
def test_budgets_over_pods_that_nobody_would_evict_keep_nothing(pod: Pod) -> None:
    assert may_go(a_machine(pod), budgets=(a_budget(allowed=0),))


def test_a_machine_without_claim_or_node_is_no_candidate() -> None:
    whole = a_machine()

    assert why_not(Machine(identity="i-1", node=whole.node)) == ""
    assert why_not(Machine(identity="i-1", claim=whole.claim)) == "its node has not joined"


def test_a_machine_that_pods_were_sent_to_is_no_candidate() -> None:
    assert "pods that wait" in why_not(a_machine(), nominated=True)


def test_a_machine_that_is_going_already_is_no_candidate() -> None:
    ending = FrozenDict({"InstanceTerminating": Condition(status=TRUE)})

    assert why_not(a_machine(deleting=True)) == "it is being deleted"
    assert why_not(a_machine(node={"deleting": True})) == "it is being deleted"
    assert why_not(a_machine(conditions=ending)) == "it is being deleted"


def test_a_machine_that_is_marked_is_no_candidate_unless_it_was_us_just_now() -> None:
    marked = a_machine(node={"taints": (DISRUPTED,)})

    assert why_not(marked) == "it is marked for deletion"
    assert may_go(marked, in_hand=frozenset({"i-1"}))


def test_a_machine_that_has_not_started_up_is_no_candidate() -> None:
    young = a_machine(node={"labels": FrozenDict({label_keys.NODEPOOL: "default"})})

    assert why_not(young) == "its node is not initialized"


def test_a_machine_of_no_pool_is_no_candidate() -> None:
    stray = a_machine(node={"labels": FrozenDict({label_keys.INITIALIZED: "true"})})

    assert "no label karpenter.sh/nodepool" in why_not(stray)


def test_a_machine_of_a_pool_that_is_not_there_is_no_candidate() -> None:
    assert why_not(a_machine(), pools=()) == "NodePool 'default' not found"
    assert why_not(a_machine(), types=()) == "NodePool 'default' not found"


def test_a_machine_of_unknown_kind_or_place_is_a_candidate_without_a_price() -> None:
    found = verdict(a_machine())

    assert isinstance(found, Candidate)
    assert found.price == 0.0


def test_the_price_is_that_of_its_kind_zone_and_capacity_type() -> None:
    kind = DEFAULT_TYPES[0]
    labels = {
        **LABELS,
        label_keys.INSTANCE_TYPE: kind.name,
        label_keys.ZONE: Z1,
        label_keys.CAPACITY_TYPE: ON_DEMAND,
    }

    found = verdict(a_machine(node={"labels": FrozenDict(labels)}))

    assert isinstance(found, Candidate)
    assert found.price == kind.offerings[0].price
    assert found.savings_ratio == found.price


def test_moving_a_plain_pod_costs_one() -> None:
    assert eviction_cost(a_pod()) == 1.0
    found = verdict(a_machine(a_pod(), a_pod("DaemonSet")))
    assert isinstance(found, Candidate)
    assert found.cost == 2.0


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_a_higher_deletion_cost_never_makes_a_pod_cheaper_to_move(one: int, other: int) -> None:
    low, high = sorted((one, other))

    costs = [
        eviction_cost(a_pod(annotations=FrozenDict({label_keys.POD_DELETION_COST: str(wish)})))
        for wish in (low, high)
    ]

    assert -10 <= costs[0] <= costs[1] <= 10


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_a_higher_priority_never_makes_a_pod_cheaper_to_move(one: int, other: int) -> None:
    low, high = sorted((one, other))

    assert eviction_cost(a_pod(priority=low)) <= eviction_cost(a_pod(priority=high))


def test_a_deletion_cost_that_is_no_number_counts_as_none() -> None:
    odd = FrozenDict({label_keys.POD_DELETION_COST: "cheap"})

    assert eviction_cost(a_pod(annotations=odd)) == 1.0


def test_a_node_is_empty_when_no_pod_on_it_is_worth_keeping_it_for() -> None:
    worthless = FrozenDict({label_keys.POD_DELETION_COST: str(-(2**31))})

    assert is_empty([a_pod("DaemonSet"), a_pod("Node"), a_pod(deleting=True)])
    assert is_empty([a_pod(annotations=worthless)])
    assert not is_empty([a_pod()])
    assert not is_empty([a_pod("StatefulSet", deleting=True)])
