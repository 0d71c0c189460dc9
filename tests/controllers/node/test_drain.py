"""Drain: which pods are evicted, in which order, and which are deleted.

TM8, TM9, TM10, TM11, TM12, TM13, TM14, TM15, TM16, TM20, TM21, TM22, TM23, TM24, TM25, E2E5, E2E6.
"""

from typing import Any

import pytest

from dovetail.controllers.node import eviction, termination
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.options import DeleteOptions
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import (
    add_owner,
    add_pdb,
    add_pod,
    add_running_node,
    in_seconds,
    is_terminating,
    stop_pod,
)

DO_NOT_DISRUPT = {label_keys.DO_NOT_DISRUPT: "true"}


def an_environment() -> ControllerEnvironment:
    env = ControllerEnvironment()
    add_running_node(env)
    return env


def drain(env: ControllerEnvironment, *, grace: float | None = None) -> ControllerEnvironment:
    """Delete the node, with a deadline ``grace`` seconds from now."""
    if grace is not None:
        deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(env, grace)}
        env.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    return env.run(termination.controller, eviction.controller).delete(NODES, "node")


def exists(env: ControllerEnvironment) -> bool:
    return env.get(NODES, "node") is not None


def ends_at(env: ControllerEnvironment, pod: str) -> str:
    return str(env.get(PODS, pod, "default")["metadata"]["deletionTimestamp"])


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        {"operator": "Exists"},
    ],
)
def test_pods_that_tolerate_the_disrupted_taint_are_neither_evicted_nor_awaited(
    toleration: dict[str, Any],
) -> None:
    env = an_environment()
    add_pod(env, tolerations=[toleration])

    drain(env)
    evicted = is_terminating(env)
    env.wait(8)

    assert not evicted
    assert not exists(env)


def test_pods_that_tolerate_only_the_unschedulable_taint_are_evicted() -> None:
    env = an_environment()
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    add_pod(env, tolerations=[cordon])

    drain(env)

    assert is_terminating(env)
    assert exists(env)


def test_pods_without_owner_are_evicted() -> None:
    env = an_environment()
    add_pod(env)

    drain(env)

    assert is_terminating(env)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_pods_do_not_block_the_drain(phase: str) -> None:
    env = an_environment()
    add_pod(env, phase=phase)

    drain(env).wait(3)

    assert not exists(env)


def test_static_pods_are_not_evicted_and_do_not_block_the_drain() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "Node", "node"))

    drain(env)
    evicted = is_terminating(env)
    env.wait(3)

    assert not evicted
    assert not exists(env)


def test_blocking_pdb_keeps_the_node() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "ReplicaSet"), labels={"app": "web"})
    add_pdb(env, minAvailable=1)

    drain(env).wait(120)

    assert exists(env)
    assert not is_terminating(env)
    assert "FailedDraining" in env.events.reasons("node")


def test_pods_are_evicted_in_four_tiers_each_after_the_previous_is_gone() -> None:
    env = an_environment()
    critical = {"priorityClassName": "system-node-critical"}
    add_pod(env, "web", owner=add_owner(env, "ReplicaSet"))
    add_pod(env, "agent", owner=add_owner(env, "DaemonSet", "agents"))
    add_pod(env, "dns", owner=add_owner(env, "ReplicaSet"), priorityClassName="system-cluster-critical")
    add_pod(env, "network", owner=add_owner(env, "DaemonSet", "agents"), **critical)
    order = ["web", "agent", "dns", "network"]

    drain(env)

    for turn, name in enumerate(order):
        evicted = [pod for pod in order if is_terminating(env, pod)]
        assert evicted == order[: turn + 1]
        stop_pod(env, name)
    assert env.wait(6).get(NODES, "node") is None


def test_tier_is_not_queued_before_the_previous_is_gone() -> None:
    env = an_environment()
    add_pod(env, "web", owner=add_owner(env, "ReplicaSet"), labels={"app": "web"})
    add_pod(env, "agent", owner=add_owner(env, "DaemonSet", "agents"))
    add_pdb(env, minAvailable=1)

    drain(env).wait(60)

    agent = env.get(PODS, "agent", "default")["metadata"]["uid"]
    assert env.evictions.get(("default", "agent", agent)) is None


def test_high_priority_value_makes_no_pod_critical() -> None:
    env = an_environment()
    add_pod(env, "high", priority=1_000_000)
    add_pod(env, "low")

    drain(env)

    assert is_terminating(env, "high")
    assert is_terminating(env, "low")


def test_pod_a_minute_past_its_grace_period_is_not_awaited() -> None:
    env = an_environment()
    add_pod(env, grace=10)

    drain(env).wait(70)
    existed_until_then = exists(env)
    env.wait(3)

    assert existed_until_then
    assert not exists(env)


def test_new_pod_with_the_name_of_a_queued_one_is_not_evicted() -> None:
    env = an_environment()
    add_running_node(env, "node-2")
    add_pod(env, annotations=DO_NOT_DISRUPT)
    drain(env).wait(2)

    stop_pod(env)
    add_pod(env, node="node-2")
    env.wait(30)

    assert not is_terminating(env)


def test_do_not_disrupt_pod_with_a_grace_period_up_to_the_deadline_is_deleted_at_once() -> None:
    env = an_environment()
    add_pod(env, grace=300, annotations=DO_NOT_DISRUPT)

    drain(env, grace=300)

    assert ends_at(env, "pod") == in_seconds(env, 300)
    assert env.events.reasons("pod") == ["Disrupted"]


def test_critical_pod_that_would_miss_the_deadline_is_deleted_while_others_drain() -> None:
    env = an_environment()
    add_pod(env, "web", grace=10, annotations=DO_NOT_DISRUPT)
    add_pod(env, "dns", grace=200, priorityClassName="system-cluster-critical")

    drain(env, grace=100)

    assert is_terminating(env, "dns")
    assert not is_terminating(env, "web")


def test_do_not_disrupt_pod_is_deleted_just_in_time_for_the_deadline() -> None:
    env = an_environment()
    add_pod(env, grace=60, annotations=DO_NOT_DISRUPT)

    drain(env, grace=300).wait(90)
    early = is_terminating(env)
    env.wait(149)
    just_before = is_terminating(env)
    env.wait(1)

    assert (early, just_before) == (False, False)
    assert is_terminating(env)
    assert ends_at(env, "pod") == in_seconds(env, 60)


def test_grace_period_is_shortened_to_meet_the_deadline() -> None:
    env = an_environment()
    add_pod(env, grace=600)
    env.api.delete(PODS, "pod", "default")

    drain(env, grace=100)
    grace_seconds = env.get(PODS, "pod", "default")["metadata"]["deletionGracePeriodSeconds"]
    deleted = [write for write in env.writes if write == ("delete", "Pod/pod")]
    env.wait(50)

    assert grace_seconds == 100
    assert [write for write in env.writes if write[1] == "Pod/pod"] == deleted


def test_pods_get_one_second_after_the_deadline() -> None:
    env = an_environment()
    add_pod(env, annotations=DO_NOT_DISRUPT)

    drain(env, grace=-10)

    meta = env.get(PODS, "pod", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_pods_are_evicted_when_their_do_not_disrupt_duration_ends() -> None:
    env = an_environment()
    for name, value in (("one", "1m"), ("two", "2m"), ("ever", "true")):
        add_pod(env, name, annotations={label_keys.DO_NOT_DISRUPT: value})

    drain(env).wait(50)
    before = [is_terminating(env, name) for name in ("one", "two", "ever")]
    env.wait(25)
    after_a_minute = [is_terminating(env, name) for name in ("one", "two", "ever")]
    env.wait(60)
    after_two = [is_terminating(env, name) for name in ("one", "two", "ever")]

    assert before == [False, False, False]
    assert after_a_minute == [True, False, False]
    assert after_two == [True, True, False]
    assert "DoNotDisruptUntil" in env.events.reasons("two")


def test_removing_the_do_not_disrupt_annotation_continues_the_drain() -> None:
    env = an_environment()
    add_pod(env, annotations=DO_NOT_DISRUPT)
    drain(env).wait(60)

    nothing = {"metadata": {"annotations": {label_keys.DO_NOT_DISRUPT: None}}}
    env.patch(PODS, "pod", nothing, "default")
    env.wait(10)

    assert is_terminating(env)


def test_pods_are_never_deleted_with_grace_period_zero() -> None:
    env = an_environment()
    add_pod(env, "quick", grace=0, annotations=DO_NOT_DISRUPT)

    drain(env, grace=0)

    meta = env.get(PODS, "quick", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_pod_deleted_by_another_client_is_no_error() -> None:
    env = an_environment()
    add_pod(env, annotations=DO_NOT_DISRUPT)
    drain(env).wait(10)

    env.api.delete(PODS, "pod", "default", options=DeleteOptions(grace_period_seconds=0))
    env.wait(10)

    assert not exists(env)
