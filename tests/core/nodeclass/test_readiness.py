"""Conditions of node classes: what a resolution that could not decide leaves as it was."""

import pytest

from dovetail.core.nodeclass.readiness import compute_conditions
from dovetail.model.karpenter.condition_types import SUBNETS_READY
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition, Conditions
from tests.support.simulator.api_server import START

UNDECIDED = {SUBNETS_READY: ("SubnetsUnknown", "throttled")}


def status_after(before: Conditions) -> str:
    node_class = EC2NodeClass(generation=2, conditions=before)
    after = compute_conditions(node_class, START, problems={}, unknown=UNDECIDED)
    return after[SUBNETS_READY].status


def a_condition(status: str, generation: int) -> Conditions:
    return Conditions({SUBNETS_READY: Condition(status=status, observed_generation=generation)})


@pytest.mark.parametrize("status", [TRUE, FALSE])
def test_an_undecided_condition_keeps_its_status_of_this_generation(status: str) -> None:
    assert status_after(a_condition(status, generation=2)) == status


@pytest.mark.parametrize(
    "before", [Conditions(), a_condition(TRUE, generation=1), a_condition(UNKNOWN, generation=2)]
)
def test_an_undecided_condition_is_unknown_without_a_status_of_this_generation(before: Conditions) -> None:
    assert status_after(before) == UNKNOWN
