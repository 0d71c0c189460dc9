"""Every NodePool field has an encoder, a decoder and a place in or outside the hash."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodepool_encoding import encode_nodepool
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.core.nodepool.hash import compute_nodepool_hash
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    NodeClassRef,
    NodePool,
    NodeTemplate,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect

TAINTS = (Taint("team", TaintEffect.NO_SCHEDULE, "a"),)
NODE_CLASS = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="other")

# A new field of these structs needs a value here; without an encoder or a decoder its test fails.
TEMPLATE_FIELDS: dict[str, Any] = {
    "labels": FrozenDict({"team": "a"}),
    "annotations": FrozenDict({"team": "a"}),
    "requirements": (RequirementSpec("kubernetes.io/arch", Operator.IN, ("arm64",)),),
    "taints": TAINTS,
    "startup_taints": TAINTS,
    "node_class": NODE_CLASS,
    "expire_after": timedelta(hours=1),
    "termination_grace_period": timedelta(minutes=5),
}
DISRUPTION_FIELDS: dict[str, Any] = {
    "consolidate_after": timedelta(minutes=1),
    "policy": ConsolidationPolicy.WHEN_EMPTY,
    "budgets": (
        Budget(nodes="5", schedule="@daily", duration=timedelta(hours=1), reasons=("Empty", "Drifted")),
    ),
}
POOL_FIELDS: dict[str, Any] = {
    "template": NodeTemplate(taints=TAINTS),
    "disruption": Disruption(policy=ConsolidationPolicy.WHEN_EMPTY),
    "limits": Resources({"cpu": 4000}),
    "weight": 7,
    "replicas": 3,
}
NOT_IN_SPEC = frozenset(
    "name uid ready deleting annotations generation resource_version conditions node_class_generation "
    "resources node_count".split()
)
"""Fields of metadata and status; controllers write them with patches."""
NOT_HASHED = frozenset({"requirements"})
"""Drift compares them with the labels of each node instead."""


def pool_with(**fields: Any) -> NodePool:
    template = NodeTemplate(node_class=NodeClassRef("karpenter.k8s.aws", "EC2NodeClass", "default"))
    return NodePool(**{"name": "general", "template": template, **fields})


def template_with(**fields: Any) -> NodePool:
    return pool_with(template=msgspec.structs.replace(pool_with().template, **fields))


def decode(wire: dict[str, Any]) -> NodePool:
    context = DecodeContext(strict=True)
    pool = decode_nodepool(Field(wire, context))
    assert context.errors == []
    return pool


CHANGED = {
    **{
        f"spec.{name}": pool_with(**{name: value})
        for name, value in POOL_FIELDS.items()
        if name != "template"
    },
    **{f"spec.template.{name}": template_with(**{name: value}) for name, value in TEMPLATE_FIELDS.items()},
    **{
        f"spec.disruption.{name}": pool_with(disruption=Disruption(**{name: value}))
        for name, value in DISRUPTION_FIELDS.items()
    },
}


def test_every_field_of_the_model_has_a_value_in_this_test() -> None:
    assert set(NodePool.__struct_fields__) == POOL_FIELDS.keys() | NOT_IN_SPEC
    assert set(NodeTemplate.__struct_fields__) == TEMPLATE_FIELDS.keys()
    assert set(Disruption.__struct_fields__) == DISRUPTION_FIELDS.keys()
    (budget,) = DISRUPTION_FIELDS["budgets"]
    assert all(getattr(budget, name) != getattr(Budget(), name) for name in Budget.__struct_fields__)


@pytest.mark.parametrize("pool", CHANGED.values(), ids=CHANGED.keys())
def test_every_field_is_encoded_and_decoded(pool: NodePool) -> None:
    encoded = encode_nodepool(pool)

    assert encoded != encode_nodepool(pool_with())
    assert decode(encoded) == pool


@pytest.mark.parametrize("field", TEMPLATE_FIELDS)
def test_a_change_of_the_template_changes_the_hash_unless_drift_compares_the_field(field: str) -> None:
    changed = compute_nodepool_hash(template_with(**{field: TEMPLATE_FIELDS[field]}))

    assert (changed == compute_nodepool_hash(pool_with())) is (field in NOT_HASHED)


@pytest.mark.parametrize("field", sorted(POOL_FIELDS.keys() - {"template"}))
def test_a_change_outside_the_template_keeps_the_hash(field: str) -> None:
    changed = compute_nodepool_hash(pool_with(**{field: POOL_FIELDS[field]}))

    assert changed == compute_nodepool_hash(pool_with())
