"""The hash of a pool's template: NP1 and NP2 of the lifecycle checklist, field by field."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodepool.hash import HASH_VERSION, Stamp, pool_hash, restamped
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Disruption, NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Effect, Taint

A, B = Taint("a", Effect.NO_SCHEDULE), Taint("b", Effect.NO_EXECUTE, "x")


def hashed(template: dict[str, Any] | None = None, **pool: Any) -> str:
    return pool_hash(NodePool(name="p", template=NodeTemplate(**(template or {})), **pool))


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
    ids=lambda one: next(iter(one)),
)
def test_what_nodes_are_made_from_changes_the_hash(template: dict[str, Any]) -> None:
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
    ids=lambda one: next(iter(one)),
)
def test_what_concerns_the_pool_alone_does_not(pool: dict[str, Any]) -> None:
    assert hashed(**pool) == hashed()


def test_requirements_are_compared_otherwise() -> None:
    zone = RequirementSpec(label_keys.ZONE, Operator.IN, ("a",))

    assert hashed({"requirements": (zone,)}) == hashed()


@given(st.permutations([A, B, Taint("c", Effect.NO_SCHEDULE)]))
def test_order_does_not_matter(taints: list[Taint]) -> None:
    assert hashed({"taints": tuple(taints)}) == hashed({"taints": tuple(reversed(taints))})


def test_a_taint_is_not_a_startup_taint() -> None:
    assert hashed({"taints": (A,)}) != hashed({"startup_taints": (A,)})


def test_the_hash_is_what_it_was_in_the_last_release() -> None:
    # Nodes of all users would be replaced if this changed: then change HASH_VERSION with it.
    template = {"labels": FrozenDict({"team": "a"}), "taints": (A, B)}

    assert HASH_VERSION == "dovetail-v1"
    assert hashed(template) == "17394905270640740167"


def test_a_claim_of_another_version_is_stamped_anew_unless_it_drifted() -> None:
    stamp = Stamp("7")
    old = FrozenDict({label_keys.NODEPOOL_HASH: "1", label_keys.NODEPOOL_HASH_VERSION: "v3"})
    drifted = FrozenDict({"Drifted": Condition(status=TRUE)})

    assert restamped(NodeClaim(name="c", annotations=old), stamp) == stamp.annotations()
    kept = restamped(NodeClaim(name="c", annotations=old, conditions=drifted), stamp)
    assert kept == {label_keys.NODEPOOL_HASH_VERSION: HASH_VERSION}
    current = FrozenDict(stamp.annotations())
    assert restamped(NodeClaim(name="c", annotations=current), Stamp("8")) == {}
