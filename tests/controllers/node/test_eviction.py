"""Eviction queue.

EV1, EV2, EV3, EV4, EV5, EV6, EV7, EV8, EV9, EV10, EV11, EV12, EV13, EV14.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.node import eviction
from dovetail.model import labels as label_keys
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import ApiError, Conflict, Forbidden, NotFound
from dovetail.state.pods.evictions import PodKey
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import (
    add_owner,
    add_pdb,
    add_pod,
    add_running_node,
    is_terminating,
    stop_pod,
)

WEB = {"app": "web"}


def an_environment(**node_fields: object) -> ControllerEnvironment:
    env = ControllerEnvironment()
    add_running_node(env, **node_fields)  # type: ignore[arg-type]
    add_pod(env, owner=add_owner(env, "ReplicaSet"), labels=WEB)
    return env.run(eviction.controller)


def evict(env: ControllerEnvironment, name: str = "pod", *, within: float | None = None) -> PodKey:
    """Add a pod to the queue, as the drain of its node does."""
    pod = env.cache.pod("default", name)
    assert pod is not None
    deadline = None if within is None else env.now + timedelta(seconds=within)
    env.evictions.add(pod, deadline=deadline)
    env.wait(0)
    return ("default", name, pod.uid)


def requests(env: ControllerEnvironment) -> list[str]:
    values = env.metrics.values.get("karpenter_pods_eviction_requests_total", [])
    return [labels["code"] for _, labels in values]


def test_pod_without_pdb_is_evicted() -> None:
    env = an_environment()

    key = evict(env)

    assert is_terminating(env)
    assert env.events.reasons("pod") == ["Evicted"]
    assert requests(env) == ["200"]
    assert env.evictions.get(key) is None


def test_pod_whose_pdb_allows_it_is_evicted() -> None:
    env = an_environment()
    add_pod(env, "twin", owner=add_owner(env, "ReplicaSet"), labels=WEB)
    add_pdb(env, minAvailable=1, allowed=1)

    evict(env)

    assert is_terminating(env)
    assert not is_terminating(env, "twin")


def test_missing_pod_is_no_error() -> None:
    env = an_environment()
    pod = env.cache.pod("default", "pod")
    assert pod is not None
    stop_pod(env)

    env.evictions.add(pod, deadline=None)
    env.wait(0)

    assert env.events.published == []
    assert env.evictions.get(("default", "pod", pod.uid)) is None
    assert env.log.entries("reconciler error") == []


@pytest.mark.parametrize("answer", [NotFound("no such pod"), Conflict("another uid")])
def test_pod_deleted_during_the_eviction_is_no_error(answer: ApiError) -> None:
    env = an_environment()
    env.failing_client.fail("evict", PODS, answer)

    key = evict(env)

    assert env.events.published == []
    assert requests(env) == [str(answer.code)]
    assert env.evictions.get(key) is None
    assert env.log.entries("reconciler error") == []


def test_another_pod_of_the_same_name_is_not_evicted() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    evict(env)

    stop_pod(env)
    env.delete(POD_DISRUPTION_BUDGETS, "budget", "default")
    add_pod(env, owner=add_owner(env, "ReplicaSet"), labels=WEB)
    env.wait(30)

    assert not is_terminating(env)
    assert "Evicted" not in env.events.reasons("pod")


def test_blocked_pod_stays_queued_with_a_growing_backoff() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)

    key = evict(env)
    env.wait(1.4)
    early = len(requests(env))
    env.wait(60)
    late = len(requests(env))
    env.wait(60)

    assert env.evictions.get(key) is not None
    assert early == 4
    assert len(requests(env)) - late == 6
    assert set(requests(env)) == {"429"}
    assert env.events.reasons("node")[0] == "FailedDraining"
    assert not is_terminating(env)
    assert env.log.entries("reconciler error") == []


def test_pod_with_two_pdbs_stays_queued() -> None:
    env = an_environment()
    add_pdb(env, "one", minAvailable=0, allowed=1)
    add_pdb(env, "two", minAvailable=0, allowed=1)

    key = evict(env)

    assert env.evictions.get(key) is not None
    assert requests(env) == ["500"]
    assert env.events.reasons("node") == ["FailedDraining"]


def test_pod_is_evicted_once_its_pdb_allows_it() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    key = evict(env)

    add_pod(env, "twin", owner=add_owner(env, "ReplicaSet"), labels=WEB)
    env.wait(10)

    assert is_terminating(env)
    assert env.evictions.get(key) is None


def test_other_api_errors_are_logged_and_retried() -> None:
    env = an_environment()
    env.failing_client.fail("evict", PODS, Forbidden("no rights"))

    evict(env)
    env.wait(1)

    assert requests(env) == ["403", "200"]
    assert len(env.log.entries("reconciler error")) == 1


def test_pods_of_a_node_without_disruption_reason_are_counted_as_forceful() -> None:
    env = an_environment()

    evict(env)

    reason = "Forceful Termination"
    assert env.metrics.total("karpenter_pods_drained_total", reason=reason) == 1


def test_pods_are_counted_by_disruption_reason() -> None:
    chosen = Condition(status=TRUE, reason="Drifted", observed_generation=1)
    env = an_environment(conditions={"DisruptionReason": chosen})

    evict(env)

    assert env.metrics.total("karpenter_pods_drained_total", reason="Drifted") == 1


def test_pods_of_a_node_without_nodeclaim_are_counted_without_a_reason() -> None:
    env = an_environment()
    add_pod(env, "stray", node="elsewhere")

    evict(env, "stray")

    assert env.metrics.total("karpenter_pods_drained_total", reason="") == 1


def test_near_deadline_overrules_the_pdb() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)

    evict(env, within=20)

    assert is_terminating(env)
    assert env.events.reasons("pod") == ["Disrupted"]


def test_queued_pod_is_deleted_when_it_gets_a_deadline() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    evict(env)
    env.wait(60)

    evict(env, within=5)

    assert is_terminating(env)


def test_queued_pod_is_deleted_just_in_time_for_its_deadline() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    evict(env, within=100)

    env.wait(69.9)
    before = is_terminating(env)
    env.wait(0.1)

    assert not before
    assert is_terminating(env)


def test_later_deadline_changes_nothing() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    key = evict(env, within=100)

    evict(env, within=200)

    kept = env.evictions.get(key)
    assert kept is not None
    assert kept.deadline == env.now + timedelta(seconds=100)


def test_deleted_pod_is_removed_from_the_queue() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    key = evict(env)

    stop_pod(env)
    env.wait(10)

    assert env.evictions.get(key) is None


def test_forced_grace_period_is_at_least_one_second() -> None:
    env = an_environment()

    evict(env, within=-100)

    meta = env.get(PODS, "pod", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_adding_a_pod_during_its_eviction_does_no_harm() -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)

    for _ in range(5):
        evict(env)
    request_count = len(requests(env))

    assert request_count == 1


def test_invalid_do_not_disrupt_annotation_is_published_and_ignored() -> None:
    env = an_environment()
    add_pod(env, "odd", annotations={label_keys.DO_NOT_DISRUPT: "false"})

    evict(env, "odd")

    assert is_terminating(env, "odd")
    assert "InvalidDoNotDisruptAnnotation" in env.events.reasons("odd")


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    key = evict(env)
    before = env.versions()

    env.manager.enqueue(eviction.NAME, key)
    env.wait(0)

    assert env.versions() == before


def test_pdb_that_allows_one_more_disruption_evicts_one_more_pod_at_once() -> None:
    env = an_environment()
    add_pod(env, "twin", owner=add_owner(env, "ReplicaSet"), labels=WEB)
    add_pdb(env, minAvailable=2)
    evict(env)
    evict(env, "twin")
    env.wait(60)
    request_count = len(requests(env))

    add_pod(env, "third", owner=add_owner(env, "ReplicaSet"), labels=WEB)
    allowed = {"status": {"disruptionsAllowed": 1}}
    env.patch(POD_DISRUPTION_BUDGETS, "budget", allowed, "default", subresource="status")

    assert [is_terminating(env, name) for name in ("pod", "twin")] == [True, False]
    assert len(requests(env)) == request_count + 1


def test_deleted_pdb_evicts_all_its_pods_at_once() -> None:
    env = an_environment()
    add_pod(env, "twin", owner=add_owner(env, "ReplicaSet"), labels=WEB)
    add_pdb(env, minAvailable=2)
    evict(env)
    evict(env, "twin")
    env.wait(60)

    env.delete(POD_DISRUPTION_BUDGETS, "budget", "default")

    assert [is_terminating(env, name) for name in ("pod", "twin")] == [True, True]
