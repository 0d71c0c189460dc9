"""The whole lifecycle of a NodeClaim, with a crash after every single write.

A first run counts the writes; each further run crashes after one of them.
"""

import pytest

from dovetail.controllers.nodeclaim import (
    consistency,
    consolidatable,
    expiration,
    garbage_collection,
    hydration,
)
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.controllers.nodepool import counter, readiness, registration_health, validation
from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

CONTROLLERS = (
    lifecycle.controller,
    liveness.controller,
    expiration.controller,
    garbage_collection.nodeclaim_controller,
    garbage_collection.instance_controller,
    consolidatable.controller,
    consistency.controller,
    hydration.controller,
    nodeclass.controller,
    counter.controller,
    registration_health.controller,
    readiness.controller,
    nodepool_hash.controller,
    validation.controller,
)


class LifecycleRun:
    """A user and a kubelet; controllers that crashed are restarted."""

    def __init__(self, *, crash_after: int | None = None) -> None:
        self.env = ControllerEnvironment()
        if crash_after is not None:
            self.env.crash_after(crash_after)
        self.env.run(*CONTROLLERS)

    def run(self) -> ControllerEnvironment:
        env = self.env
        env.add(EC2_NODE_CLASSES, manifests.node_class(ready=None))
        env.add(NODE_POOLS, manifests.pool())
        env.add(NODE_CLAIMS, manifests.claim())
        self.restart_if_crashed()
        env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
        self.restart_if_crashed()
        assert condition(env.claim().conditions, "Ready") == ("True", "Ready")
        assert env.pool().ready
        assert env.pool().node_count == 1

        env.delete(NODE_CLAIMS, "claim")
        self.restart_if_crashed()
        env.patch(NODES, "node", {"metadata": {"finalizers": None}})
        self.restart_if_crashed()
        return env

    def restart_if_crashed(self) -> None:
        self.env.wait(2)
        if self.env.crashed:
            self.env.restart().wait(2)


def count_writes() -> int:
    return len(LifecycleRun().run().writes)


@pytest.mark.parametrize("step", range(1, count_writes() + 1))
def test_crashes_launch_no_instance_twice_and_leave_none_behind(step: int) -> None:
    env = LifecycleRun(crash_after=step).run()

    assert env.cloud.launched == ["claim"]
    assert env.cloud.instances == {}
    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.get(NODES, "node") is None
    assert env.pool().node_count == 0
