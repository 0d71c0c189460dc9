"""Pending NodeClaims in the cache: SG1–SG4 of the lifecycle checklist.

Karpenter has a controller that removes deleted NodeClaims from its state. The
cluster cache mirrors the API server, so there is nothing to remove.
"""

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import CloudError
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests


def pending(env: ControllerEnvironment) -> list[str]:
    return [claim.name for claim in env.cache.pending_claims()]


def test_nodeclaim_deleted_before_its_launch_is_not_pending() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.fail("create", *[CloudError("no")] * 1000)
    env.add(NODE_CLAIMS, manifests.claim("kept"))
    env.add(NODE_CLAIMS, manifests.claim("deleted"))

    env.delete(NODE_CLAIMS, "deleted")

    assert pending(env) == ["kept"]
    assert [claim.name for claim in env.cache.claims()] == ["kept"]


def test_launched_nodeclaim_is_not_pending() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)

    env.add(NODE_CLAIMS, manifests.claim())

    assert pending(env) == []
    assert env.cache.joined_node(env.claim().provider_id) is not None
