"""Hashes when Karpenter hands over to Dovetail, and back: no NodeClaim becomes drifted."""

from typing import Any

import pytest

from dovetail.controllers.nodeclaim import drift
from dovetail.controllers.nodeclass import hash as nodeclass_hash
from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.karpenter.hashes import (
    NODECLASS,
    NODEPOOL,
    HashRule,
    has_condition,
    is_comparable,
    reconcile_hashes,
    static_drift,
)
from tests.support.kube import manifests

CLAIMS = ("one", "two", "three")
LAUNCHED = FrozenDict({"Launched": Condition(status=TRUE, reason="Launched")})
CONTROLLERS = (nodepool_hash.controller, nodeclass_hash.controller, drift.controller)
WRITES = 2 + 2 * len(CLAIMS)
"""One for NodePool and node class each, two for each NodeClaim."""


def as_karpenter_wrote_it(
    *, nodeclass_version: str = "v6", claim_version: str | None = None, drifted: str = ""
) -> ControllerEnvironment:
    """Return a cluster with Karpenter's annotations; NodeClaims may have an older hash version."""
    env = ControllerEnvironment()
    for resource, rule, obj in (
        (NODE_POOLS, NODEPOOL, manifests.pool()),
        (EC2_NODE_CLASSES, NODECLASS, manifests.node_class()),
    ):
        env.add(resource, obj)
        annotations = rule.annotations_for(env.get(resource, "default"))
        if rule is NODECLASS:
            annotations[rule.version_key] = nodeclass_version
        env.patch(resource, "default", {"metadata": {"annotations": annotations}})
    for name in CLAIMS:
        noted = {**annotations_of(env, NODE_POOLS), **annotations_of(env, EC2_NODE_CLASSES)}
        if claim_version is not None:
            noted[NODECLASS.version_key] = claim_version
        conditions = LAUNCHED
        if drifted:
            conditions = LAUNCHED.with_items({"Drifted": Condition(status=TRUE, reason=drifted)})
        env.add(NODE_CLAIMS, manifests.claim(name, annotations=FrozenDict(noted), conditions=conditions))
    return env


def annotations_of(env: ControllerEnvironment, resource: Any, name: str = "default") -> dict[str, str]:
    annotations: dict[str, str] = env.get(resource, name)["metadata"].get("annotations", {})
    return annotations


def hand_back(env: ControllerEnvironment) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Return NodePool, node class and NodeClaims after Karpenter has started again."""
    pool, node_class = env.get(NODE_POOLS, "default"), env.get(EC2_NODE_CLASSES, "default")
    claims = [env.get(NODE_CLAIMS, name) for name in CLAIMS]
    reconcile_hashes(NODEPOOL, pool, claims)
    reconcile_hashes(NODECLASS, node_class, claims)
    return pool, node_class, claims


def assert_not_drifted(env: ControllerEnvironment) -> None:
    assert not [name for name in CLAIMS if has_condition(env.get(NODE_CLAIMS, name), "Drifted")]


@pytest.mark.parametrize(
    ("nodeclass_version", "claim_version"),
    [("v4", "v4"), ("v5", "v5"), ("v6", "v6"), ("v6", "v4"), ("v6", "v5")],
)
def test_no_nodeclaim_is_drifted_by_a_takeover_whatever_karpenters_hash_version(
    nodeclass_version: str, claim_version: str
) -> None:
    env = as_karpenter_wrote_it(nodeclass_version=nodeclass_version, claim_version=claim_version)

    env.run(*CONTROLLERS)

    assert_not_drifted(env)
    for name in CLAIMS:
        for rule, resource in ((NODEPOOL, NODE_POOLS), (NODECLASS, EC2_NODE_CLASSES)):
            noted, expected = annotations_of(env, NODE_CLAIMS, name), annotations_of(env, resource)
            for key in (rule.hash_key, rule.version_key):
                assert noted[key] == expected[key]


def test_a_change_after_the_takeover_is_drift() -> None:
    env = as_karpenter_wrote_it()
    env.run(*CONTROLLERS)

    env.patch(NODE_POOLS, "default", {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})

    assert all(has_condition(env.get(NODE_CLAIMS, name), "Drifted") for name in CLAIMS)


@pytest.mark.parametrize("writes", range(1, WRITES + 1))
def test_no_nodeclaim_is_drifted_when_karpenter_returns_after_a_crash_at_any_write(writes: int) -> None:
    env = as_karpenter_wrote_it()
    env.crash_after(writes)
    env.run(*CONTROLLERS)

    pool, node_class, claims = hand_back(env)

    for claim in claims:
        for rule, owner in ((NODEPOOL, pool), (NODECLASS, node_class)):
            assert static_drift(rule, owner, claim) is None
            assert is_comparable(rule, owner, claim), "Karpenter would miss later changes"


@pytest.mark.parametrize("writes", range(1, WRITES + 1))
def test_a_takeover_that_crashes_at_any_write_is_finished_by_the_next_process(writes: int) -> None:
    env = as_karpenter_wrote_it()
    env.crash_after(writes)
    env.run(*CONTROLLERS)

    env.restart()

    assert_not_drifted(env)
    for name in CLAIMS:
        noted = annotations_of(env, NODE_CLAIMS, name)
        assert noted[NODEPOOL.hash_key] == annotations_of(env, NODE_POOLS)[NODEPOOL.hash_key]
        assert noted[NODECLASS.hash_key] == annotations_of(env, EC2_NODE_CLASSES)[NODECLASS.hash_key]


def test_a_nodeclaim_launched_with_karpenters_hash_during_the_takeover_gets_the_new_one() -> None:
    env = as_karpenter_wrote_it()
    karpenters = annotations_of(env, NODE_CLAIMS, "one")
    env.run(*CONTROLLERS)

    env.patch(NODE_CLAIMS, "one", {"metadata": {"annotations": karpenters}})

    noted = annotations_of(env, NODE_CLAIMS, "one")
    assert noted[NODECLASS.hash_key] == annotations_of(env, EC2_NODE_CLASSES)[NODECLASS.hash_key]


@pytest.mark.parametrize("rule", [NODEPOOL, NODECLASS], ids=["nodepool", "nodeclass"])
def test_nodeclaims_that_were_drifted_before_the_takeover_stay_drifted_after_it(rule: HashRule) -> None:
    env = as_karpenter_wrote_it()
    stale = {"metadata": {"annotations": {rule.hash_key: "1"}}}
    env.patch(NODE_CLAIMS, "one", stale)

    env.run(*CONTROLLERS)

    owner = env.get(NODE_POOLS if rule is NODEPOOL else EC2_NODE_CLASSES, "default")
    reasons = {name: static_drift(rule, owner, env.get(NODE_CLAIMS, name)) for name in CLAIMS}
    assert reasons == {"one": rule.drift_reason, "two": None, "three": None}


def test_a_takeover_does_not_change_the_reason_of_drift_to_the_hash() -> None:
    env = as_karpenter_wrote_it(drifted="AMIDrift")

    env.run(nodepool_hash.controller, nodeclass_hash.controller)

    for name in CLAIMS:
        claim = env.get(NODE_CLAIMS, name)
        for rule, resource in ((NODEPOOL, NODE_POOLS), (NODECLASS, EC2_NODE_CLASSES)):
            assert static_drift(rule, env.get(resource, "default"), claim) is None
