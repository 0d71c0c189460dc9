"""Instances without NodeClaim, and NodeClaims without instance."""

from datetime import datetime

import msgspec

from dovetail.core.nodeclaim.garbage_collection import (
    MIN_ORPHAN_AGE,
    RunningInstance,
    find_claims_without_instance,
    find_orphaned_instances,
)
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.node import NodeObject
from tests.support.simulator.api_server import START

NOW = START + MIN_ORPHAN_AGE


def orphans(*claims: NodeClaim, launched: datetime | None = START) -> list[str]:
    instance = RunningInstance(provider_id="aws:///i-1", claim="default-1", launched=launched)
    return [orphan.provider_id for orphan in find_orphaned_instances([instance], claims, NOW)]


def test_an_instance_is_an_orphan_if_no_claim_has_or_awaits_it() -> None:
    assert orphans() == ["aws:///i-1"]
    assert orphans(NodeClaim(name="default-1", provider_id="aws:///i-2")) == ["aws:///i-1"]
    assert orphans(NodeClaim(name="other", provider_id="aws:///i-1")) == []
    assert orphans(NodeClaim(name="default-1")) == []


def test_a_new_instance_and_one_of_unknown_age_are_no_orphans() -> None:
    assert orphans(launched=NOW) == []
    assert orphans(launched=None) == []


REGISTERED_CLAIM = NodeClaim(
    name="default-1", provider_id="aws:///i-1", conditions=FrozenDict({REGISTERED: Condition(status=TRUE)})
)


def vanished(claim: NodeClaim, *nodes: NodeObject, running: str = "aws:///i-2") -> bool:
    instances = [RunningInstance(provider_id=running)]
    return find_claims_without_instance([claim], instances, lambda _: nodes) == [claim]


def test_a_registered_claim_is_without_instance_if_the_cloud_has_none_and_no_node_is_ready() -> None:
    ready = NodeObject(name="a", conditions=FrozenDict({"Ready": Condition(status=TRUE)}))
    unready = NodeObject(name="b", conditions=FrozenDict({"Ready": Condition(status=FALSE)}))

    assert vanished(REGISTERED_CLAIM)
    assert vanished(REGISTERED_CLAIM, unready)
    assert not vanished(REGISTERED_CLAIM, running="aws:///i-1")
    assert not vanished(REGISTERED_CLAIM, unready, ready)


def test_claims_that_are_deleting_or_not_registered_are_left_to_others() -> None:
    assert not vanished(msgspec.structs.replace(REGISTERED_CLAIM, deleting=True))
    assert not vanished(msgspec.structs.replace(REGISTERED_CLAIM, conditions=FrozenDict()))
