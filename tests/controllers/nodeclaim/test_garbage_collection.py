"""Garbage collection: GC1–GC4 of the lifecycle checklist, and orphaned instances (aws.md 136)."""

from datetime import timedelta

import pytest

from dovetail.controllers.nodeclaim import garbage_collection
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

ORPHAN = "aws:///us-east-1a/i-orphan"
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def an_environment(*names: str) -> ControllerEnvironment:
    """Return an environment of NodeClaims with ready Nodes."""
    env = ControllerEnvironment().run(
        lifecycle.controller, garbage_collection.nodeclaim_controller, garbage_collection.instance_controller
    )
    for name in names:
        env.add(NODE_CLAIMS, manifests.claim(name))
        env.add(NODES, manifests.node(f"node-of-{name}", provider_id=env.claim(name).provider_id))
    return env


def lose(env: ControllerEnvironment, name: str, *, ready: bool = False) -> None:
    env.cloud.remove_instance(env.claim(name).provider_id)
    if not ready:
        env.patch(NODES, f"node-of-{name}", NOT_READY, subresource="status")


def is_deleted(env: ControllerEnvironment, name: str) -> bool:
    claim = env.cache.claim(name)
    return claim is None or claim.deleting


def test_nodeclaims_without_instance_are_deleted() -> None:
    env = an_environment("one", "two", "kept")
    lose(env, "one")
    lose(env, "two")

    env.wait(120)

    assert is_deleted(env, "one")
    assert is_deleted(env, "two")
    assert not is_deleted(env, "kept")
    metric = "karpenter_nodeclaims_disrupted_total"
    assert env.metrics.total(metric, reason="garbage_collected") == 2


def test_terminating_instance_counts_as_gone() -> None:
    env = an_environment("one")
    env.cloud.termination_delay = timedelta(hours=1)
    provider_id = env.claim("one").provider_id
    env.patch(NODES, "node-of-one", NOT_READY, subresource="status")
    env.cloud.terminate(provider_id)

    env.wait(120)

    assert is_deleted(env, "one")


def test_ready_node_takes_precedence_over_the_cloud() -> None:
    env = an_environment("one")
    lose(env, "one", ready=True)

    env.wait(600)

    assert not is_deleted(env, "one")


def test_unregistered_nodeclaim_is_left_to_its_timeout() -> None:
    env = an_environment()
    env.add(NODE_CLAIMS, manifests.claim("young"))
    env.cloud.remove_instance(env.claim("young").provider_id)

    env.wait(600)

    assert not is_deleted(env, "young")


def test_nodeclaim_without_node_is_kept_while_its_instance_runs() -> None:
    env = an_environment("one")
    env.patch(NODES, "node-of-one", {"metadata": {"finalizers": None}})
    env.delete(NODES, "node-of-one")

    env.wait(600)

    assert not is_deleted(env, "one")


def test_orphaned_instance_is_terminated_with_its_node() -> None:
    env = an_environment("one")
    env.cloud.add_instance(ORPHAN, claim="unknown")
    env.add(NODES, manifests.node("stray", provider_id=ORPHAN))

    env.wait(120)

    assert env.cloud.instances.keys() == {env.claim("one").provider_id, ORPHAN}
    assert env.cloud.instances[ORPHAN].terminating
    assert env.get(NODES, "stray") is None
    assert not env.node("node-of-one").deleting


@pytest.mark.parametrize(("age", "is_kept"), [(29, True), (30, False)])
def test_orphaned_instance_is_kept_for_thirty_seconds(age: int, is_kept: bool) -> None:
    env = an_environment()
    env.wait(120 - age)
    env.cloud.add_instance(ORPHAN)

    env.wait(age)

    assert env.cloud.instances[ORPHAN].terminating is not is_kept


def test_instance_whose_nodeclaim_has_no_provider_id_yet_is_kept() -> None:
    env = ControllerEnvironment().run(garbage_collection.instance_controller)
    env.add(NODE_CLAIMS, manifests.claim())
    env.cloud.add_instance(ORPHAN, claim="claim")

    env.wait(600)

    assert not env.cloud.instances[ORPHAN].terminating


def test_second_instance_of_a_nodeclaim_is_terminated() -> None:
    env = an_environment("one")
    env.cloud.add_instance(ORPHAN, claim="one")

    env.wait(120)

    assert env.cloud.instances[ORPHAN].terminating


def test_cloud_error_is_retried() -> None:
    env = an_environment("one")
    env.cloud.add_instance(ORPHAN)
    env.cloud.fail("list", CloudError("throttled"), CloudError("throttled"))

    env.wait(130)

    assert env.cloud.instances[ORPHAN].terminating
    assert not is_deleted(env, "one")


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment("one")
    before = env.versions()

    env.wait(600)

    assert env.versions() == before
    assert env.cloud.calls("delete") == []
