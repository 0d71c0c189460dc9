"""Hash of a NodePool's template: NP1 and NP2 of the lifecycle checklist, field by field."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodepool.hash import HASH_VERSION, compute_nodepool_hash
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import Disruption, NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect

A, B = Taint("a", TaintEffect.NO_SCHEDULE), Taint("b", TaintEffect.NO_EXECUTE, "x")


def hashed(template: dict[str, Any] | None = None, **pool: Any) -> str:
    return compute_nodepool_hash(NodePool(name="p", template=NodeTemplate(**(template or {})), **pool))


@pytest.mark.parametrize(
    "template",
    [
        {"labels": FrozenDict({"team": "a"})},
        {"annotations": FrozenDict({"note": "a"})},
        {"taints": (A,)},
        {"startup_taints": (A,)},
        {"node_class": NodeClassRef(name="other")},
        {"expire_after": timedelta(hours=1)},
        {"expire_after": None},
        {"termination_grace_period": timedelta(hours=1)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_template_fields_change_the_hash(template: dict[str, Any]) -> None:
    assert hashed(template) != hashed()


@pytest.mark.parametrize(
    "pool",
    [
        {"weight": 5},
        {"replicas": 2},
        {"limits": Resources({"cpu": 1})},
        {"disruption": Disruption(consolidate_after=None)},
        {"annotations": FrozenDict({"note": "a"})},
        {"generation": 7},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_nodepool_fields_outside_the_template_do_not_change_the_hash(pool: dict[str, Any]) -> None:
    assert hashed(**pool) == hashed()


def test_requirements_do_not_change_the_hash() -> None:
    zone = RequirementSpec(label_keys.ZONE, Operator.IN, ("a",))

    assert hashed({"requirements": (zone,)}) == hashed()


@given(st.permutations([A, B, Taint("c", TaintEffect.NO_SCHEDULE)]))
def test_order_does_not_change_the_hash(taints: list[Taint]) -> None:
    assert hashed({"taints": tuple(taints)}) == hashed({"taints": tuple(reversed(taints))})


def test_a_taint_is_not_a_startup_taint() -> None:
    assert hashed({"taints": (A,)}) != hashed({"startup_taints": (A,)})


def test_the_hash_is_what_it_was_in_the_last_release() -> None:
    # Nodes of all users would be replaced if this changed: then change HASH_VERSION with it.
    template = {"labels": FrozenDict({"team": "a"}), "taints": (A, B)}

    assert HASH_VERSION == "dovetail-v1"
    assert hashed(template) == "17394905270640740167"
