"""Migration of hashes to NodeClaims: NP3–NP5 of the lifecycle checklist, 27 of AWS."""

import pytest

from dovetail.core.nodeclaim.hash_annotations import (
    NODECLASS_KEYS,
    NODEPOOL_KEYS,
    HashKeys,
    has_hash_drift,
    migrate_hash,
)
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition

BOTH = pytest.mark.parametrize("keys", [NODEPOOL_KEYS, NODECLASS_KEYS], ids=["nodepool", "nodeclass"])


def hashed(keys: HashKeys, value: str, version: str) -> dict[str, str]:
    return {keys.hash: value, keys.version: version}


def a_claim(annotations: dict[str, str], *, drifted: str = "") -> NodeClaim:
    conditions = {"Drifted": Condition(status=TRUE, reason=drifted)} if drifted else {}
    return NodeClaim(name="a", annotations=FrozenDict(annotations), conditions=FrozenDict(conditions))


@BOTH
def test_claim_of_another_hash_version_gets_the_new_hash(keys: HashKeys) -> None:
    karpenters, ours = hashed(keys, "1", "v3"), hashed(keys, "7", "dovetail-v1")

    assert migrate_hash(a_claim(karpenters), keys, previous=karpenters, current=ours) == ours
    assert migrate_hash(a_claim({}), keys, previous={}, current=ours) == ours
    assert (
        migrate_hash(a_claim(ours), keys, previous=karpenters, current=hashed(keys, "8", "dovetail-v1")) == {}
    )


@BOTH
def test_claim_that_differs_from_the_previous_hash_stays_drifted(keys: HashKeys) -> None:
    old, owner, ours = (hashed(keys, "1", "v3"), hashed(keys, "2", "v3"), hashed(keys, "7", "dovetail-v1"))
    claim = a_claim(old)

    patch = migrate_hash(claim, keys, previous=owner, current=ours)

    assert patch == {keys.version: "dovetail-v1"}
    migrated = NodeClaim(name="a", annotations=claim.annotations.with_items(patch))
    assert has_hash_drift(migrated, ours, keys)


@BOTH
def test_claim_drifted_for_another_reason_does_not_become_statically_drifted(keys: HashKeys) -> None:
    karpenters, ours = hashed(keys, "1", "v3"), hashed(keys, "7", "dovetail-v1")

    patch = migrate_hash(a_claim(karpenters, drifted="AMIDrift"), keys, previous=karpenters, current=ours)

    assert patch == ours


@BOTH
def test_drifted_claim_keeps_its_hash_if_the_previous_hash_is_not_comparable(keys: HashKeys) -> None:
    claim = a_claim(hashed(keys, "1", "v2"), drifted="NodePoolDrifted")
    ours = hashed(keys, "7", "dovetail-v1")

    assert migrate_hash(claim, keys, previous=hashed(keys, "1", "v3"), current=ours) == {
        keys.version: "dovetail-v1"
    }
