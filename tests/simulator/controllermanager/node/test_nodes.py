"""Nodes that fall silent, fall ill or vanish, and what becomes of their pods."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, LEASES, NODES, PODS, REPLICA_SETS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from tests.support.cluster import a_pod, names, with_finalizer
from tests.support.workloads import Working, a_workload, condition_of, set_pod

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def taints(cluster: Working, node: str) -> list[tuple[str, str]]:
    found = look(cluster.get(NODES, node), "spec", "taints") or ()
    return sorted((one["key"], one["effect"]) for one in found)


def report(cluster: Working, node: str, **conditions: str) -> None:
    """Write conditions as the node's kubelet would, and let it be heard from."""
    said = [
        {"type": kind, "status": status, "lastHeartbeatTime": cluster.text()}
        for kind, status in conditions.items()
    ]
    patch = {"status": {"conditions": said}}
    cluster.patch(NODES, node, patch, PatchType.MERGE, subresource="status")


def taint(cluster: Working, node: str, *added: dict[str, str]) -> None:
    cluster.patch(NODES, node, {"spec": {"taints": list(added)}}, PatchType.MERGE)


def exists(cluster: Working, resource: Any, name: str, namespace: str = "") -> bool:
    try:
        cluster.get(resource, name, namespace)
    except NotFound:
        return False
    return True


def a_pod_on(cluster: Working, node: str, name: str = "p", **spec: Any) -> tuple[str, str]:
    cluster.create(PODS, a_pod(name, nodeName=node, **spec))
    cluster.wait(2)
    return "default", name


def is_there_and_stays(cluster: Working, key: tuple[str, str]) -> bool:
    there = exists(cluster, PODS, key[1], key[0])
    return there and not cluster.get(PODS, key[1], key[0])["metadata"].get("deletionTimestamp")


def test_a_node_that_is_not_heard_from_for_forty_seconds_is_unknown_and_tainted() -> None:
    cluster = Working("steady")
    cluster.join("silent", beats_for=0)

    cluster.wait(39)
    before = condition_of(cluster.get(NODES, "silent"), "Ready")[0], taints(cluster, "silent")
    cluster.wait(2)

    assert before == ("True", [])
    silent = cluster.get(NODES, "silent")
    assert condition_of(silent, "Ready") == ("Unknown", "NodeStatusUnknown")
    assert condition_of(silent, "MemoryPressure")[0] == "Unknown"
    assert taints(cluster, "silent") == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
    assert taints(cluster, "steady") == []


def test_a_node_that_keeps_renewing_its_lease_stays_ready() -> None:
    cluster = Working("steady")
    cluster.join("n", beats_for=0)

    for _ in range(20):
        cluster.wait(10)
        beat = {"spec": {"renewTime": cluster.text()}}
        cluster.patch(LEASES, "n", beat, PatchType.MERGE, "kube-node-lease")

    assert condition_of(cluster.get(NODES, "n"), "Ready")[0] == "True"


def test_a_node_that_never_reported_is_given_a_minute() -> None:
    cluster = Working("steady")
    cluster.create(NODES, {"metadata": {"name": "mute"}, "spec": {}})

    cluster.wait(59)
    early = condition_of(cluster.get(NODES, "mute"), "Ready")
    cluster.wait(2)

    assert early == ("", "")
    late = condition_of(cluster.get(NODES, "mute"), "Ready")
    assert late == ("Unknown", "NodeStatusNeverUpdated")


def test_a_node_that_is_heard_from_again_loses_its_taints() -> None:
    cluster = Working("steady")
    cluster.join("n", beats_for=0)
    cluster.wait(60)

    report(cluster, "n", Ready="True")
    cluster.wait(1)

    assert taints(cluster, "n") == []


def test_pods_on_a_silent_node_are_not_ready() -> None:
    cluster = Working("steady")
    cluster.join("n", beats_for=0)
    key = a_pod_on(cluster, "n")
    before = condition_of(cluster.get(PODS, "p", "default"), "Ready")[0]

    cluster.wait(50)

    assert before == "True"
    assert condition_of(cluster.get(PODS, "p", "default"), "Ready")[0] == "False"
    assert is_there_and_stays(cluster, key)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Ready": "False"}, [(NOT_READY, "NoExecute"), (NOT_READY, "NoSchedule")]),
        (
            {"Ready": "True", "DiskPressure": "True"},
            [("node.kubernetes.io/disk-pressure", "NoSchedule")],
        ),
        ({"Ready": "True", "DiskPressure": "False"}, []),
    ],
    ids=str,
)
def test_what_a_kubelet_reports_becomes_taints(
    conditions: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    cluster = Working("n")

    report(cluster, "n", **conditions)
    cluster.wait(1)

    assert taints(cluster, "n") == expected


def test_a_cordoned_node_has_the_taint_for_it_until_it_is_uncordoned_and_others_stay() -> None:
    cluster = Working("n")
    taint(cluster, "n", {"key": "mine", "effect": "NoSchedule"})

    cluster.patch(NODES, "n", {"spec": {"unschedulable": True}}, PatchType.MERGE)
    cluster.wait(1)
    cordoned = taints(cluster, "n")
    cluster.patch(NODES, "n", {"spec": {"unschedulable": None}}, PatchType.MERGE)
    cluster.wait(1)

    assert cordoned == [("mine", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")]
    assert taints(cluster, "n") == [("mine", "NoSchedule")]


def test_pods_leave_a_silent_node_five_minutes_after_it_is_tainted_and_daemons_stay() -> None:
    cluster = Working("steady", stop=3600)
    cluster.join("n", beats_for=0)
    cluster.create(DAEMON_SETS, a_workload("agent"))
    key = a_pod_on(cluster, "n")
    daemon = next(one for one in cluster.pods(app="agent") if one["spec"]["nodeName"] == "n")

    cluster.wait(330)
    early = is_there_and_stays(cluster, key)
    cluster.wait(20)

    assert early
    assert not is_there_and_stays(cluster, key)
    gone = cluster.get(PODS, "p", "default")
    assert condition_of(gone, "DisruptionTarget") == ("True", "DeletionByTaintManager")
    assert is_there_and_stays(cluster, ("default", daemon["metadata"]["name"]))


def test_pods_stay_on_a_node_that_comes_back_in_time() -> None:
    cluster = Working("n")
    key = a_pod_on(cluster, "n")
    report(cluster, "n", Ready="False")
    cluster.wait(200)

    report(cluster, "n", Ready="True")
    cluster.wait(600)

    assert is_there_and_stays(cluster, key)


def test_a_pod_leaves_at_once_where_it_does_not_tolerate_at_all() -> None:
    cluster = Working("n")
    key = a_pod_on(cluster, "n")
    patient = [{"key": "karpenter.sh/unregistered", "operator": "Exists"}]
    stays = a_pod_on(cluster, "n", "patient", tolerations=patient)

    taint(cluster, "n", {"key": "karpenter.sh/unregistered", "effect": "NoExecute"})
    cluster.wait(0)

    assert not is_there_and_stays(cluster, key)
    assert is_there_and_stays(cluster, stays)


def test_a_pod_that_lands_on_a_tainted_node_leaves_after_the_time_it_tolerates() -> None:
    cluster = Working("n")
    taint(cluster, "n", {"key": "full", "effect": "NoExecute"})
    for_ten = [{"key": "full", "operator": "Exists", "tolerationSeconds": 10}]
    cluster.wait(60)

    cluster.create(PODS, a_pod("at-once", nodeName="n"))
    cluster.create(PODS, a_pod("late", nodeName="n", tolerations=for_ten))
    cluster.wait(0)

    assert not is_there_and_stays(cluster, ("default", "at-once"))
    assert not is_there_and_stays(cluster, ("default", "late"))


def test_pods_say_how_long_they_tolerate_a_lost_node_unless_they_have_their_own_view() -> None:
    cluster = Working("n")
    own = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

    cluster.create(PODS, a_pod("plain"))
    cluster.create(PODS, a_pod("own", tolerations=[own]))
    cluster.create(PODS, a_pod("all", tolerations=[{"operator": "Exists"}]))

    def said(name: str) -> list[tuple[str, int]]:
        found = cluster.get(PODS, name, "default")["spec"]["tolerations"]
        return [(one.get("key", ""), one.get("tolerationSeconds", -1)) for one in found]

    assert said("plain") == [(NOT_READY, 300), (UNREACHABLE, 300)]
    assert said("own") == [(NOT_READY, 5), (UNREACHABLE, 300)]
    assert said("all") == [("", -1)]


def test_a_node_whose_instance_is_gone_is_deleted_soon_after_it_is_not_ready() -> None:
    alive = {"aws:///us-east-1a/i-kept"}
    cluster = Working("kept", "lost", "fine", instance_exists=lambda name: name in alive)
    report(cluster, "kept", Ready="False")
    report(cluster, "lost", Ready="False")

    cluster.wait(6)

    assert names(cluster.list(NODES).items) == ["fine", "kept"]


def test_a_cloud_that_cannot_answer_costs_no_node() -> None:
    answers: list[bool | None] = [None, None, None]
    cluster = Working("n", instance_exists=lambda _: answers.pop() if answers else False)
    report(cluster, "n", Ready="False")

    cluster.wait(16)
    early = names(cluster.list(NODES).items)
    cluster.wait(5)

    assert early == ["n"]
    assert names(cluster.list(NODES).items) == []


def test_a_lost_node_with_a_finalizer_is_asked_to_go_once() -> None:
    cluster = Working("other", instance_exists=lambda name: name.endswith("other"))
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    node: Object = {"metadata": {"name": "n"}, "spec": {"providerID": "i-n"}, "status": status}
    cluster.create(NODES, with_finalizer(node, "karpenter.sh/termination"))

    cluster.wait(6)
    first = cluster.get(NODES, "n")
    cluster.wait(60)

    assert first["metadata"]["deletionTimestamp"]
    assert cluster.get(NODES, "n")["metadata"] == first["metadata"]


def test_pods_of_a_node_that_is_gone_are_removed_and_replaced_elsewhere() -> None:
    cluster = Working("n1", stop=3600)
    cluster.create(REPLICA_SETS, a_workload(replicas=2))
    cluster.wait(5)

    cluster.delete(NODES, "n1")
    cluster.join("n2")
    cluster.wait(45)

    assert [one["spec"]["nodeName"] for one in cluster.pods()] == ["n2", "n2"]


def test_pods_of_a_node_that_registers_again_in_time_are_kept() -> None:
    cluster = Working("n1")
    key = a_pod_on(cluster, "n1")
    node = cluster.delete(NODES, "n1")

    cluster.wait(20)
    cluster.create(NODES, {"metadata": {"name": "n1"}, "spec": {}, "status": node["status"]})
    cluster.wait(120)

    assert is_there_and_stays(cluster, key)


def test_a_pod_bound_to_a_node_that_never_was_is_removed() -> None:
    cluster = Working("n1")
    cluster.create(PODS, a_pod("p", nodeName="nowhere"))

    cluster.wait(45)

    assert not exists(cluster, PODS, "p", "default")


def test_a_pod_that_ended_stays_to_be_looked_at() -> None:
    cluster = Working("n1")
    key = a_pod_on(cluster, "n1")

    set_pod(cluster, key, phase="Succeeded", ready=False)
    cluster.wait(3600)

    assert is_there_and_stays(cluster, key)
