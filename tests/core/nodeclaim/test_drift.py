"""Drift from a NodePool: DF3–DF6, DF11–DF21 of the lifecycle checklist."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.core.nodeclaim.drift import get_instance_type_drift_reason, get_nodepool_drift_reason
from dovetail.core.nodepool.hash import compute_nodepool_hash_annotations
from dovetail.core.provisioning import build_template_claim
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from tests.support.scheduling.builders import taint
from tests.support.scheduling.instance_types import (
    ON_DEMAND,
    RESERVED,
    SPOT,
    Z1,
    Z2,
    a_type,
    offerings,
    reserved,
)

HASH, VERSION = label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION
STAMP = {HASH: "1", VERSION: "v"}
LABELS = {
    label_keys.INSTANCE_TYPE: "m5.large",
    label_keys.ZONE: Z1,
    label_keys.CAPACITY_TYPE: ON_DEMAND,
    "generation": "5",
}


def a_claim(annotations: dict[str, str] | None = None, **labels: str) -> NodeClaim:
    return NodeClaim(
        name="a",
        labels=FrozenDict({**LABELS, **labels}),
        annotations=FrozenDict(STAMP if annotations is None else annotations),
    )


def a_pool(
    *entries: tuple[str, Operator, tuple[str, ...]], annotations: dict[str, str] | None = None
) -> NodePool:
    return NodePool(
        name="default",
        annotations=FrozenDict(STAMP if annotations is None else annotations),
        template=NodeTemplate(requirements=tuple(RequirementSpec(*entry) for entry in entries)),
    )


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        (label_keys.ZONE, Operator.IN, (Z1, Z2)),
        (label_keys.ZONE, Operator.EXISTS, ()),
        ("generation", Operator.GT, ("4",)),
        ("generation", Operator.LT, ("6",)),
        ("team", Operator.DOES_NOT_EXIST, ()),
        ("team", Operator.NOT_IN, ("a",)),
    ],
)
def test_labels_that_meet_the_requirements_are_no_drift(
    key: str, operator: Operator, values: tuple[str, ...]
) -> None:
    assert get_nodepool_drift_reason(a_claim(), a_pool((key, operator, values))) is None


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        (label_keys.ZONE, Operator.IN, (Z2,)),
        (label_keys.ZONE, Operator.NOT_IN, (Z1,)),
        (label_keys.ZONE, Operator.DOES_NOT_EXIST, ()),
        ("generation", Operator.GT, ("5",)),
        ("generation", Operator.LT, ("5",)),
        ("team", Operator.IN, ("a",)),
        ("team", Operator.EXISTS, ()),
    ],
)
def test_labels_that_violate_the_requirements_are_drift(
    key: str, operator: Operator, values: tuple[str, ...]
) -> None:
    assert get_nodepool_drift_reason(a_claim(), a_pool((key, operator, values))) == "RequirementsDrifted"


def test_removed_requirement_is_no_drift() -> None:
    assert get_nodepool_drift_reason(a_claim(), a_pool()) is None


def test_only_claims_that_violate_the_requirements_have_drifted() -> None:
    pool = a_pool((label_keys.ZONE, Operator.IN, (Z1,)))
    claims = [a_claim(), a_claim(**{label_keys.ZONE: Z2})]

    assert [get_nodepool_drift_reason(claim, pool) for claim in claims] == [None, "RequirementsDrifted"]


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": FrozenDict({"a": "b"})},
        {"labels": FrozenDict({"a": "b"})},
        {"taints": (taint("a"),)},
        {"startup_taints": (taint("a"),)},
        {"node_class": NodeClassRef(name="other")},
        {"expire_after": timedelta(hours=1)},
        {"termination_grace_period": timedelta(hours=1)},
    ],
)
def test_changed_template_hash_is_drift(change: dict[str, Any]) -> None:
    before = NodePool(name="default")
    after = msgspec.structs.replace(before, template=msgspec.structs.replace(before.template, **change))
    claim = a_claim(compute_nodepool_hash_annotations(before))

    noted = compute_nodepool_hash_annotations(after)
    stamped = msgspec.structs.replace(after, annotations=FrozenDict(noted))

    assert get_nodepool_drift_reason(claim, stamped) == "NodePoolDrifted"


@pytest.mark.parametrize("noted", [{}, {HASH: "2"}, {VERSION: "v"}, {HASH: "2", VERSION: "w"}])
def test_missing_hash_or_other_hash_version_is_no_drift(noted: dict[str, str]) -> None:
    assert get_nodepool_drift_reason(a_claim(noted), a_pool()) is None
    assert get_nodepool_drift_reason(a_claim(), a_pool(annotations=noted)) is None


def sold(*offered: Offering) -> dict[str, Any]:
    return {"m5.large": a_type("m5.large", offered=offered)}


def test_offered_instance_type_has_not_drifted_even_if_unavailable() -> None:
    closed = offerings(1, [(ON_DEMAND, Z1)], closed=True)

    assert get_instance_type_drift_reason(a_claim(), sold(*closed)) is None


def test_claim_with_missing_or_unknown_instance_type_has_drifted() -> None:
    nameless = msgspec.structs.replace(a_claim(), labels=FrozenDict({label_keys.ZONE: Z1}))

    assert get_instance_type_drift_reason(nameless, sold(*offerings(1))) == "InstanceTypeNotFound"
    assert (
        get_instance_type_drift_reason(a_claim(), {"m6.large": a_type("m6.large")}) == "InstanceTypeNotFound"
    )


@pytest.mark.parametrize("where", [[], [(ON_DEMAND, Z2)], [(SPOT, Z1)]])
def test_claim_whose_zone_or_capacity_type_is_not_offered_has_drifted(where: list[tuple[str, str]]) -> None:
    assert get_instance_type_drift_reason(a_claim(), sold(*offerings(1, where))) == "InstanceTypeNotFound"


def test_reserved_instance_may_continue_as_on_demand() -> None:
    claim = a_claim(**{label_keys.CAPACITY_TYPE: RESERVED, label_keys.CAPACITY_RESERVATION_ID: "cr-old"})
    held, listed = reserved(Z1, "cr-new", 1), offerings(1, [(ON_DEMAND, Z1)])

    assert get_instance_type_drift_reason(claim, sold(held)) is None
    assert get_instance_type_drift_reason(claim, sold(*listed)) is None
    assert get_instance_type_drift_reason(claim, sold(held, *listed)) is None
    assert get_instance_type_drift_reason(claim, sold(*offerings(1, [(SPOT, Z1)]))) == "InstanceTypeNotFound"
    assert get_instance_type_drift_reason(claim, sold()) == "InstanceTypeNotFound"


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (Operator.IN, ("red", "blue")),
        (Operator.NOT_IN, ("red",)),
        (Operator.EXISTS, ()),
        (Operator.DOES_NOT_EXIST, ()),
        (Operator.GT, ("4",)),
        (Operator.LT, ("4",)),
    ],
)
def test_claim_built_from_the_template_has_not_drifted(operator: Operator, values: tuple[str, ...]) -> None:
    pool = a_pool(("example.com/room", operator, values))

    claim = build_template_claim(pool, name="static-1")

    assert (
        get_nodepool_drift_reason(claim, msgspec.structs.replace(pool, annotations=claim.annotations)) is None
    )
