"""Status of a NodePool: NP6, NP9 and NP10 of the lifecycle checklist, as decisions."""

from typing import Any

import pytest

from dovetail.core.nodepool.status import compute_usage, validate_nodepool
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.taints import Taint, TaintEffect
from tests.support.scheduling.builders import a_node

TWIN = Taint("a", TaintEffect.NO_SCHEDULE)


def wrong(**template: Any) -> list[str]:
    return validate_nodepool(NodePool(name="p", template=NodeTemplate(**template)))


def requirement_errors(key: str, *values: str, least: int | None = None) -> list[str]:
    return wrong(requirements=(RequirementSpec(key, Operator.IN, values, least),))


def test_ordinary_nodepool_is_valid() -> None:
    assert requirement_errors(label_keys.ARCH, "amd64") == []
    assert wrong(labels=FrozenDict({"team": "a"}), taints=(TWIN,)) == []


@pytest.mark.parametrize("key", ["karpenter.sh/custom", "x.karpenter.sh/a", label_keys.HOSTNAME])
def test_restricted_keys_are_errors(key: str) -> None:
    assert len(requirement_errors(key, "a")) == 1
    assert len(wrong(labels=FrozenDict({key: "a"}))) == 1


def test_nodepool_label_is_an_error() -> None:
    assert len(requirement_errors(label_keys.NODEPOOL, "other")) == 1
    assert len(wrong(labels=FrozenDict({label_keys.NODEPOOL: "other"}))) == 1


def test_duplicate_taint_across_both_lists_is_an_error() -> None:
    assert len(wrong(taints=(TWIN,), startup_taints=(TWIN,))) == 1
    assert wrong(taints=(TWIN,), startup_taints=(Taint("a", TaintEffect.NO_EXECUTE),)) == []


def test_capacity_type_requirement_needs_enough_known_values() -> None:
    assert requirement_errors(label_keys.CAPACITY_TYPE, "spot", "cheap") == []
    assert len(requirement_errors(label_keys.CAPACITY_TYPE, "cheap")) == 1
    assert len(requirement_errors(label_keys.CAPACITY_TYPE, "spot", "cheap", least=2)) == 1


def test_numeric_operators_need_one_whole_number() -> None:
    more = RequirementSpec("karpenter.k8s.aws/instance-cpu", Operator.GT, ("many",))

    assert len(wrong(requirements=(more,))) == 1


def test_node_cost_must_be_an_amount_per_hour() -> None:
    def errors(text: str) -> list[str]:
        annotations = FrozenDict({label_keys.NODE_COST_ANNOTATION: text})
        return validate_nodepool(NodePool(name="p", annotations=annotations))

    assert errors("0.02") == []
    assert errors("25") == [
        "annotation dovetail.sh/node-cost: '25' is not an amount from 0 to 10 USD per hour; "
        '15 USD a month are "0.0205"'
    ]


def test_all_validation_errors_are_returned() -> None:
    errors = wrong(labels=FrozenDict({label_keys.HOSTNAME: "a"}), taints=(TWIN, TWIN))

    assert len(errors) == 2


def test_deleting_nodes_do_not_count_as_usage() -> None:
    stays = a_node("stays", cpu=4, memory="8Gi", pool="p")
    goes = a_node("goes", cpu=4, memory="8Gi", pool="p", deleting=True)

    used, count = compute_usage([stays, goes])

    assert count == used["nodes"] == 1
    assert used["cpu"] == 4000
    assert used["ephemeral-storage"] == 0
