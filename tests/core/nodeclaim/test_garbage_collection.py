"""Instances without NodeClaim."""

from datetime import datetime

from dovetail.core.nodeclaim.garbage_collection import (
    MIN_ORPHAN_AGE,
    RunningInstance,
    find_orphaned_instances,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
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
