"""Finalizer: NF1–NF13 of the lifecycle checklist.

NF4 differs: the instance is polled after 1, 2, then every 5 s.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import CloudError
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

FINALIZER = label_keys.TERMINATION_FINALIZER


def a_ready_claim(**claim: object) -> ControllerEnvironment:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim(**claim))
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id))
    return env


def finish_drain(env: ControllerEnvironment, name: str = "node") -> ControllerEnvironment:
    """Remove the Node's finalizer, as node termination does at its end."""
    env.patch(NODES, name, {"metadata": {"finalizers": None}})
    return env


def test_node_instance_and_nodeclaim_are_deleted_in_this_order() -> None:
    env = a_ready_claim()
    provider_id = env.claim().provider_id

    env.delete(NODE_CLAIMS, "claim")
    assert env.node().deleting
    assert env.cloud.calls("delete") == []
    finish_drain(env)
    assert env.cloud.calls("delete") == [provider_id]
    assert env.claim().deleting
    env.wait(1)

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}
    assert len(env.log.entries("deleted nodeclaim")) == 1
    assert env.metrics.total("karpenter_nodeclaims_terminated_total", nodepool="default") == 1


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.add(NODE_CLAIMS, manifests.claim(node_class=manifests.FOREIGN_NODE_CLASS, finalizers=[FINALIZER]))

    env.delete(NODE_CLAIMS, "claim")

    assert env.claim().finalizers == (FINALIZER,)


def test_nodeclaim_whose_instance_terminates_stays_ready() -> None:
    env = a_ready_claim()
    env.cloud.termination_delay = timedelta(minutes=1)

    finish_drain(env.delete(NODE_CLAIMS, "claim"))

    assert condition(env.claim().conditions, "InstanceTerminating")[0] == "True"
    assert condition(env.claim().conditions, "Ready") == ("True", "Ready")


def test_failed_termination_is_retried_and_the_nodeclaim_kept() -> None:
    env = a_ready_claim()
    env.cloud.fail("delete", CloudError("throttled"))

    finish_drain(env.delete(NODE_CLAIMS, "claim"))

    assert env.claim().finalizers == (FINALIZER,)
    env.wait(2)
    assert env.get(NODE_CLAIMS, "claim") is None


def test_nodeclaim_is_kept_until_its_instance_is_gone_with_growing_poll_interval() -> None:
    env = a_ready_claim()
    env.cloud.termination_delay = timedelta(seconds=12)

    finish_drain(env.delete(NODE_CLAIMS, "claim"))
    # Asked at 0, 1, 3, 8 and 13 seconds.
    env.wait(12)
    before = env.get(NODE_CLAIMS, "claim")
    env.wait(1)

    assert before is not None
    assert env.get(NODE_CLAIMS, "claim") is None
    assert len(env.cloud.calls("delete")) == 5


def test_all_nodes_of_the_instance_are_deleted_and_the_nodeclaim_waits_for_the_last() -> None:
    env = a_ready_claim()
    provider_id = env.claim().provider_id
    env.add(NODES, manifests.node("twin", provider_id=provider_id, finalizers=[FINALIZER]))

    env.delete(NODE_CLAIMS, "claim")
    assert env.node("node").deleting
    assert env.node("twin").deleting
    finish_drain(env, "node")
    assert env.cloud.calls("delete") == []
    finish_drain(env, "twin").wait(1)

    assert env.get(NODE_CLAIMS, "claim") is None


def test_unlaunched_nodeclaim_is_deleted_without_cloud_call() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    env.cloud.fail("create", *[CloudError("no")] * 1000)
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node("nobodys", provider_id=""))

    env.delete(NODE_CLAIMS, "claim")

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.calls("delete") == []
    assert not env.node("nobodys").deleting


def test_unregistered_node_is_not_deleted() -> None:
    env = ControllerEnvironment().run()
    env.add(NODE_CLAIMS, manifests.claim())
    for name in ("one", "two"):
        env.add(NODES, manifests.node(name, provider_id="aws:///us-east-1a/i-00000000000000000"))
    env.crash().run(lifecycle.controller)
    assert condition(env.claim().conditions, "Registered")[0] == "False"

    env.delete(NODE_CLAIMS, "claim").wait(1)

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}
    assert not env.node("one").deleting


def test_without_termination_grace_period_there_is_no_deadline() -> None:
    env = a_ready_claim()

    env.delete(NODE_CLAIMS, "claim")

    assert label_keys.TERMINATION_TIMESTAMP not in env.claim().annotations


def test_deadline_is_deletion_time_plus_termination_grace_period() -> None:
    env = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    env.wait(30)

    env.delete(NODE_CLAIMS, "claim")

    deadline = env.claim().annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == "2026-01-01T09:05:30Z"
    assert env.events.reasons("claim") == ["TerminationGracePeriodExpiring"]


def test_existing_deadline_is_kept() -> None:
    early = FrozenDict({label_keys.TERMINATION_TIMESTAMP: "2026-01-01T09:00:01Z"})
    env = a_ready_claim(termination_grace_period=timedelta(minutes=5), annotations=early)

    env.delete(NODE_CLAIMS, "claim")

    deadline = env.claim().annotations[label_keys.TERMINATION_TIMESTAMP]
    assert deadline == "2026-01-01T09:00:01Z"


def test_nodeclaim_with_unusual_quantities_is_deleted() -> None:
    env = ControllerEnvironment().run(lifecycle.controller)
    odd = manifests.claim()
    odd["spec"]["resources"] = {"requests": {"cpu": "0.5", "memory": "1048576Ki"}}
    env.add(NODE_CLAIMS, odd)

    env.delete(NODE_CLAIMS, "claim").wait(1)

    assert env.get(NODE_CLAIMS, "claim") is None


@pytest.mark.parametrize("writes", range(1, 5))
def test_controllers_that_crash_after_any_write_leave_nothing_behind(writes: int) -> None:
    env = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    env.crash_after(writes)

    env.delete(NODE_CLAIMS, "claim")
    for _ in range(2):
        env.restart()
        if env.get(NODES, "node") is not None:
            finish_drain(env)
        env.wait(1)

    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}


def test_second_reconcile_changes_nothing() -> None:
    env = a_ready_claim(termination_grace_period=timedelta(minutes=5))
    env.delete(NODE_CLAIMS, "claim")
    before = env.versions()

    env.manager.enqueue("nodeclaim.lifecycle", "claim")
    env.wait(60)

    assert env.versions() == before
