"""What a NodePool says of itself: NP6, NP9 and NP10 of the lifecycle checklist, as decisions."""

from typing import Any

import pytest

from dovetail.core.nodepool.status import mistakes, usage
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.taints import Effect, Taint
from tests.support.build import a_node

TWIN = Taint("a", Effect.NO_SCHEDULE)


def wrong(**template: Any) -> list[str]:
    return mistakes(NodePool(name="p", template=NodeTemplate(**template)))


def wants(key: str, *values: str, least: int | None = None) -> list[str]:
    return wrong(requirements=(RequirementSpec(key, Operator.IN, values, least),))


def test_an_ordinary_pool_is_sound() -> None:
    assert wants(label_keys.ARCH, "amd64") == []
    assert wrong(labels=FrozenDict({"team": "a"}), taints=(TWIN,)) == []


@pytest.mark.parametrize("key", ["karpenter.sh/custom", "x.karpenter.sh/a", label_keys.HOSTNAME])
def test_keys_that_are_ours_to_set_are_refused(key: str) -> None:
    assert len(wants(key, "a")) == 1
    assert len(wrong(labels=FrozenDict({key: "a"}))) == 1


def test_a_pool_cannot_choose_its_own_name() -> None:
    assert len(wants(label_keys.NODEPOOL, "other")) == 1
    assert len(wrong(labels=FrozenDict({label_keys.NODEPOOL: "other"}))) == 1


def test_the_same_taint_may_not_be_there_twice_across_both_lists() -> None:
    assert len(wrong(taints=(TWIN,), startup_taints=(TWIN,))) == 1
    assert wrong(taints=(TWIN,), startup_taints=(Taint("a", Effect.NO_EXECUTE),)) == []


def test_capacity_types_need_one_that_there_is_and_as_many_as_are_asked_for() -> None:
    assert wants(label_keys.CAPACITY_TYPE, "spot", "cheap") == []
    assert len(wants(label_keys.CAPACITY_TYPE, "cheap")) == 1
    assert len(wants(label_keys.CAPACITY_TYPE, "spot", "cheap", least=2)) == 1


def test_numbers_are_numbers() -> None:
    more = RequirementSpec("karpenter.k8s.aws/instance-cpu", Operator.GT, ("many",))

    assert len(wrong(requirements=(more,))) == 1


def test_all_mistakes_are_named() -> None:
    found = wrong(labels=FrozenDict({label_keys.HOSTNAME: "a"}), taints=(TWIN, TWIN))

    assert len(found) == 2


def test_nodes_that_go_do_not_count() -> None:
    stays = a_node("stays", cpu=4, memory="8Gi", pool="p")
    goes = a_node("goes", cpu=4, memory="8Gi", pool="p", deleting=True)

    used, count = usage([stays, goes])

    assert count == used["nodes"] == 1
    assert used["cpu"] == 4000
    assert used["ephemeral-storage"] == 0
