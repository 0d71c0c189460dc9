"""Node termination.

TM1, TM2, TM3, TM4, TM5, TM6, TM7, TM17, TM18, TM19, TM26, TM27, TM28, TM29, TM30, TM31.
The drain itself is in test_drain.py.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.node import drain, eviction, termination
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.kube_errors import Conflict
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.controllers.running_nodes import (
    add_attached_volume,
    add_pod,
    add_running_node,
    in_seconds,
    provider_id_of,
    stop_pod,
)
from tests.support.kube import manifests

BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"


def an_environment(*nodes: str) -> ControllerEnvironment:
    env = ControllerEnvironment()
    for node in nodes or ("node",):
        add_running_node(env, node)
    return env


def start(env: ControllerEnvironment) -> ControllerEnvironment:
    return env.run(termination.controller, eviction.controller)


def exists(env: ControllerEnvironment, node: str = "node") -> bool:
    return env.get(NODES, node) is not None


def test_empty_node_is_removed_after_its_instance_is_gone() -> None:
    env = start(an_environment())
    env.cloud.termination_delay = timedelta(seconds=3)

    env.delete(NODES, "node").wait(2)
    exists_while_terminating = exists(env)
    env.wait(3)

    assert exists_while_terminating
    assert not exists(env)
    assert env.cloud.instances == {}
    assert env.log.entries("deleted node") == [{"node": "node"}]


def test_deleting_a_node_deletes_its_nodeclaim() -> None:
    env = start(an_environment())

    env.delete(NODES, "node")

    assert env.claim().deleting


def test_draining_node_is_tainted_and_excluded_from_load_balancers() -> None:
    env = start(an_environment())

    env.delete(NODES, "node")

    assert DISRUPTED_TAINT in env.node().taints
    assert env.node().labels[BALANCERS] == "karpenter"


def test_taint_with_the_same_key_and_another_effect_is_replaced() -> None:
    env = an_environment()
    other = {"key": DISRUPTED_TAINT.key, "effect": "NoExecute"}
    foreign = {"key": "team", "value": "a", "effect": "NoSchedule"}
    env.patch(NODES, "node", {"spec": {"taints": [other, foreign]}})

    start(env).delete(NODES, "node")

    assert env.get(NODES, "node")["spec"]["taints"] == [
        foreign,
        {"key": DISRUPTED_TAINT.key, "effect": "NoSchedule"},
    ]


def test_node_without_nodeclaim_is_removed_and_no_instance_terminated() -> None:
    env = an_environment()
    env.patch(NODE_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    env.delete(NODE_CLAIMS, "claim")

    start(env).delete(NODES, "node").wait(1)

    assert not exists(env)
    assert env.cloud.calls("delete") == []


def test_node_with_two_nodeclaims_is_removed_and_no_instance_terminated() -> None:
    env = an_environment()
    twin = manifests.claim("twin", provider_id=provider_id_of("node"), node_name="node")
    env.add(NODE_CLAIMS, twin)

    start(env).delete(NODES, "node").wait(1)

    assert not exists(env)
    assert env.cloud.calls("delete") == []


def test_unmanaged_node_is_ignored() -> None:
    env = an_environment()
    env.patch(NODES, "node", {"metadata": {"labels": {label_keys.EC2_NODE_CLASS: None}}})

    start(env).delete(NODES, "node").wait(60)

    assert exists(env)
    assert env.writes == []


def test_many_nodes_terminate_at_once_each_with_its_own_instance() -> None:
    names = [f"node-{number}" for number in range(30)]
    env = start(an_environment(*names))

    for name in names:
        env.api.delete(NODES, name)
    env.wait(3)

    assert [name for name in names if exists(env, name)] == []
    assert env.cloud.instances == {}
    assert env.log.entries("reconciler error") == []


def test_node_waits_until_its_pods_are_gone() -> None:
    env = an_environment()
    add_pod(env)

    start(env).delete(NODES, "node").wait(20)
    waiting = env.get(PODS, "pod", "default")["metadata"].get("deletionTimestamp")
    existed_before = exists(env)
    stop_pod(env)
    env.wait(2)

    assert waiting
    assert existed_before
    assert not exists(env)


def test_unready_node_is_removed_at_once_if_its_instance_is_gone() -> None:
    env = ControllerEnvironment()
    add_running_node(env, ready=False)
    add_pod(env)
    env.cloud.remove_instance(provider_id_of("node"))

    start(env).delete(NODES, "node")

    assert not exists(env)
    assert env.cloud.calls("delete") == []


def test_ready_node_is_drained_even_if_the_cloud_reports_its_instance_gone() -> None:
    env = an_environment()
    add_pod(env)
    env.cloud.remove_instance(provider_id_of("node"))

    start(env).delete(NODES, "node").wait(10)
    existed_before = exists(env)
    stop_pod(env)

    assert existed_before
    assert not exists(env)


def test_unready_node_is_drained_while_its_instance_exists() -> None:
    env = ControllerEnvironment()
    add_running_node(env, ready=False)
    add_pod(env)

    start(env).delete(NODES, "node").wait(10)

    assert exists(env)


def test_empty_node_is_drained_after_one_second_without_pending_pods() -> None:
    env = start(an_environment())

    env.delete(NODES, "node")
    at_start = condition(env.claim().conditions, "Drained")
    env.wait(0.9)
    shortly_before = condition(env.claim().conditions, "Drained")
    env.wait(0.1)

    assert at_start == shortly_before == ("Unknown", "Draining")
    assert condition(env.claim().conditions, "Drained") == ("True", "Drained")


@pytest.mark.parametrize("who", ["a pod waits", "a pod was there", "a pod came just before"])
def test_empty_node_is_drained_after_five_seconds_with_pending_pods(who: str) -> None:
    env = an_environment()
    if who == "a pod waits":
        add_pod(env, node="")
    elif who == "a pod was there":
        add_pod(env)
    else:
        event = {"status": {"lastPodEventTime": in_seconds(env, 0)}}
        env.patch(NODE_CLAIMS, "claim", event, subresource="status")
    start(env).delete(NODES, "node")
    if who == "a pod was there":
        stop_pod(env)

    env.wait(4.9)
    shortly_before = condition(env.claim().conditions, "Drained")
    env.wait(0.1)

    assert shortly_before == ("Unknown", "Draining")
    assert condition(env.claim().conditions, "Drained") == ("True", "Drained")


def test_pod_bound_just_before_the_taint_is_drained_too() -> None:
    env = an_environment()
    add_pod(env, "late", node="")
    start(env).delete(NODES, "node").wait(3)

    env.api.bind("late", "default", {"target": {"name": "node"}})
    env.wait(5)

    assert exists(env)
    assert "deletionTimestamp" in env.get(PODS, "late", "default")["metadata"]


def test_node_waits_for_attached_volumes() -> None:
    env = an_environment()
    add_attached_volume(env)

    start(env).delete(NODES, "node").wait(30)
    waiting = condition(env.claim().conditions, "VolumesDetached")
    env.delete(VOLUME_ATTACHMENTS, "attachment-volume").wait(2)

    assert waiting == ("Unknown", "AwaitingVolumeDetachment")
    assert "AwaitingVolumeDetachment" in env.events.reasons("node")
    assert not exists(env)


def test_volumes_of_undrained_pods_are_not_awaited() -> None:
    env = an_environment()
    add_attached_volume(env)
    add_pod(
        env,
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "volume"}}],
    )

    start(env).delete(NODES, "node").wait(3)

    assert not exists(env)


def test_generic_ephemeral_volumes_are_found_by_the_names_of_their_pods() -> None:
    env = an_environment()
    add_attached_volume(env, "pod-scratch")
    add_pod(
        env,
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
    )

    start(env).delete(NODES, "node").wait(3)

    assert not exists(env)


def test_volumes_are_not_awaited_after_the_deadline() -> None:
    env = ControllerEnvironment()
    deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(env, 20)}
    add_running_node(env)
    env.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    add_attached_volume(env)

    start(env).delete(NODES, "node").wait(20)
    before = condition(env.claim().conditions, "VolumesDetached")
    env.wait(2)

    assert before == ("Unknown", "AwaitingVolumeDetachment")
    assert condition(env.claim().conditions, "VolumesDetached") == ("False", "TerminationGracePeriodElapsed")
    assert "TerminationGracePeriodExpiring" in env.events.reasons("node")
    assert not exists(env)


def test_instance_is_terminated_and_then_polled() -> None:
    env = start(an_environment())

    env.delete(NODES, "node").wait(1)
    calls = len(env.cloud.calls("delete"))
    terminating = condition(env.claim().conditions, "InstanceTerminating")
    existed_before = exists(env)
    env.wait(1)

    assert (calls, terminating, existed_before) == (1, ("True", "InstanceTerminating"), True)
    assert len(env.cloud.calls("delete")) == 2
    assert not exists(env)


def test_slow_termination_is_polled_less_often() -> None:
    env = an_environment()
    env.cloud.termination_delay = timedelta(seconds=300)
    start(env).delete(NODES, "node").wait(60)

    calls = len(env.cloud.calls("delete"))
    env.wait(60)

    assert len(env.cloud.calls("delete")) - calls == 12


def test_cloud_error_keeps_the_node_and_records_completed_stages() -> None:
    env = an_environment()
    env.cloud.fail("delete", CloudError("throttled"))

    start(env).delete(NODES, "node").wait(1)
    drained = condition(env.claim().conditions, "Drained")
    existed_before = exists(env)
    env.wait(3)

    assert existed_before
    assert drained == ("True", "Drained")
    assert not exists(env)


def test_invalid_termination_deadline_stops_the_drain() -> None:
    env = an_environment()
    garbage = {"metadata": {"annotations": {label_keys.TERMINATION_TIMESTAMP: "soon"}}}
    env.patch(NODE_CLAIMS, "claim", garbage)
    add_pod(env)

    start(env).delete(NODES, "node").wait(1)

    assert not env.node().taints
    assert "is not a timestamp: 'soon'" in env.log.entries("reconciler error")[0]["error"]


def test_write_conflict_is_retried() -> None:
    env = an_environment()
    env.failing_client.fail("patch", NODES, Conflict("changed"))
    env.failing_client.fail("patch status", NODE_CLAIMS, Conflict("changed"))

    start(env).delete(NODES, "node").wait(4)

    assert not exists(env)
    assert env.log.entries("reconciler error") == []


def test_other_finalizers_are_kept() -> None:
    env = an_environment()
    both = ["example.com/other", label_keys.TERMINATION_FINALIZER]
    env.patch(NODES, "node", {"metadata": {"finalizers": both}})

    start(env).delete(NODES, "node").wait(3)

    assert env.get(NODES, "node")["metadata"]["finalizers"] == ["example.com/other"]


def test_termination_is_measured() -> None:
    env = an_environment().wait(100)

    start(env).delete(NODES, "node").wait(3)

    values = env.metrics.values
    labels = {"nodepool": "default", "zone": "us-east-1a"}
    assert values["karpenter_nodes_terminated_total"] == [(1, labels)]
    assert env.metrics.total("karpenter_nodes_drained_total", nodepool="default") == 1
    assert env.metrics.total("karpenter_nodes_termination_duration_seconds") == 2
    assert env.metrics.total("karpenter_nodes_lifetime_duration_seconds") == 102


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment()
    add_pod(env)
    start(env).delete(NODES, "node").wait(10)
    before = env.versions()

    env.manager.enqueue(termination.NAME, "node")
    env.wait(0)

    assert env.versions() == before


def test_waiting_for_a_pod_needs_few_reconciles() -> None:
    env = an_environment()
    add_pod(env, tolerations=[{"key": "other", "operator": "Exists"}], grace=3000)
    start(env).delete(NODES, "node")
    published = len(env.events.published)

    env.wait(600)

    assert len(env.events.published) - published <= 600 / drain.RESYNC_INTERVAL.total_seconds() + 1
