"""Node controllers: unreachable, unhealthy and deleted nodes, and their pods."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, LEASES, NODES, PODS, REPLICA_SETS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from tests.support.simulator.api_server import a_pod, names, with_finalizer
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, condition_of, set_pod

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def taints(cluster: WorkloadCluster, node: str) -> list[tuple[str, str]]:
    taints = get_field(cluster.get(NODES, node), "spec", "taints") or ()
    return sorted((taint["key"], taint["effect"]) for taint in taints)


def report(cluster: WorkloadCluster, node: str, **conditions: str) -> None:
    """Write conditions as the node's kubelet would, with a heartbeat."""
    said = [
        {"type": kind, "status": status, "lastHeartbeatTime": cluster.text()}
        for kind, status in conditions.items()
    ]
    patch = {"status": {"conditions": said}}
    cluster.patch(NODES, node, patch, PatchType.MERGE, subresource="status")


def taint(cluster: WorkloadCluster, node: str, *added: dict[str, str]) -> None:
    cluster.patch(NODES, node, {"spec": {"taints": list(added)}}, PatchType.MERGE)


def exists(cluster: WorkloadCluster, resource: Any, name: str, namespace: str = "") -> bool:
    try:
        cluster.get(resource, name, namespace)
    except NotFound:
        return False
    return True


def a_pod_on(cluster: WorkloadCluster, node: str, name: str = "p", **spec: Any) -> tuple[str, str]:
    cluster.create(PODS, a_pod(name, nodeName=node, **spec))
    cluster.wait(2)
    return "default", name


def is_there_and_stays(cluster: WorkloadCluster, key: tuple[str, str]) -> bool:
    there = exists(cluster, PODS, key[1], key[0])
    return there and not cluster.get(PODS, key[1], key[0])["metadata"].get("deletionTimestamp")


def test_a_node_without_a_heartbeat_for_forty_seconds_is_unknown_and_tainted() -> None:
    cluster = WorkloadCluster("steady")
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
    cluster = WorkloadCluster("steady")
    cluster.join("n", beats_for=0)

    for _ in range(20):
        cluster.wait(10)
        beat = {"spec": {"renewTime": cluster.text()}}
        cluster.patch(LEASES, "n", beat, PatchType.MERGE, "kube-node-lease")

    assert condition_of(cluster.get(NODES, "n"), "Ready")[0] == "True"


def test_a_node_that_never_reported_is_unknown_after_a_minute() -> None:
    cluster = WorkloadCluster("steady")
    cluster.create(NODES, {"metadata": {"name": "mute"}, "spec": {}})

    cluster.wait(59)
    early = condition_of(cluster.get(NODES, "mute"), "Ready")
    cluster.wait(2)

    assert early == ("", "")
    late = condition_of(cluster.get(NODES, "mute"), "Ready")
    assert late == ("Unknown", "NodeStatusNeverUpdated")


def test_a_node_that_reports_again_loses_its_taints() -> None:
    cluster = WorkloadCluster("steady")
    cluster.join("n", beats_for=0)
    cluster.wait(60)

    report(cluster, "n", Ready="True")
    cluster.wait(1)

    assert taints(cluster, "n") == []


def test_pods_on_an_unreachable_node_are_not_ready() -> None:
    cluster = WorkloadCluster("steady")
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
        ({"Ready": "True", "DiskPressure": "True"}, [("node.kubernetes.io/disk-pressure", "NoSchedule")]),
        ({"Ready": "True", "DiskPressure": "False"}, []),
    ],
    ids=str,
)
def test_reported_conditions_become_taints(
    conditions: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    cluster = WorkloadCluster("n")

    report(cluster, "n", **conditions)
    cluster.wait(1)

    assert taints(cluster, "n") == expected


def test_a_cordoned_node_has_the_unschedulable_taint_and_other_taints_stay() -> None:
    cluster = WorkloadCluster("n")
    taint(cluster, "n", {"key": "mine", "effect": "NoSchedule"})

    cluster.patch(NODES, "n", {"spec": {"unschedulable": True}}, PatchType.MERGE)
    cluster.wait(1)
    cordoned = taints(cluster, "n")
    cluster.patch(NODES, "n", {"spec": {"unschedulable": None}}, PatchType.MERGE)
    cluster.wait(1)

    assert cordoned == [("mine", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")]
    assert taints(cluster, "n") == [("mine", "NoSchedule")]


def test_pods_are_evicted_from_an_unreachable_node_after_five_minutes_and_daemons_stay() -> None:
    cluster = WorkloadCluster("steady", stop=3600)
    cluster.join("n", beats_for=0)
    cluster.create(DAEMON_SETS, a_workload("agent"))
    key = a_pod_on(cluster, "n")
    daemon = next(pod for pod in cluster.pods(app="agent") if pod["spec"]["nodeName"] == "n")

    cluster.wait(330)
    early = is_there_and_stays(cluster, key)
    cluster.wait(20)

    assert early
    assert not is_there_and_stays(cluster, key)
    deleted = cluster.get(PODS, "p", "default")
    assert condition_of(deleted, "DisruptionTarget") == ("True", "DeletionByTaintManager")
    assert is_there_and_stays(cluster, ("default", daemon["metadata"]["name"]))


def test_pods_stay_on_a_node_that_reports_again_in_time() -> None:
    cluster = WorkloadCluster("n")
    key = a_pod_on(cluster, "n")
    report(cluster, "n", Ready="False")
    cluster.wait(200)

    report(cluster, "n", Ready="True")
    cluster.wait(600)

    assert is_there_and_stays(cluster, key)


def test_a_pod_without_a_toleration_is_evicted_at_once() -> None:
    cluster = WorkloadCluster("n")
    key = a_pod_on(cluster, "n")
    tolerations = [{"key": "karpenter.sh/unregistered", "operator": "Exists"}]
    tolerating = a_pod_on(cluster, "n", "tolerating", tolerations=tolerations)

    taint(cluster, "n", {"key": "karpenter.sh/unregistered", "effect": "NoExecute"})
    cluster.wait(0)

    assert not is_there_and_stays(cluster, key)
    assert is_there_and_stays(cluster, tolerating)


def test_a_pod_bound_to_a_tainted_node_is_evicted_after_its_toleration_seconds() -> None:
    cluster = WorkloadCluster("n")
    taint(cluster, "n", {"key": "full", "effect": "NoExecute"})
    for_ten = [{"key": "full", "operator": "Exists", "tolerationSeconds": 10}]
    cluster.wait(60)

    cluster.create(PODS, a_pod("at-once", nodeName="n"))
    cluster.create(PODS, a_pod("late", nodeName="n", tolerations=for_ten))
    cluster.wait(0)

    assert not is_there_and_stays(cluster, ("default", "at-once"))
    assert not is_there_and_stays(cluster, ("default", "late"))


def test_pods_get_default_toleration_seconds_unless_they_set_their_own() -> None:
    cluster = WorkloadCluster("n")
    own = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

    cluster.create(PODS, a_pod("plain"))
    cluster.create(PODS, a_pod("own", tolerations=[own]))
    cluster.create(PODS, a_pod("all", tolerations=[{"operator": "Exists"}]))

    def said(name: str) -> list[tuple[str, int]]:
        tolerations = cluster.get(PODS, name, "default")["spec"]["tolerations"]
        return [
            (toleration.get("key", ""), toleration.get("tolerationSeconds", -1)) for toleration in tolerations
        ]

    assert said("plain") == [(NOT_READY, 300), (UNREACHABLE, 300)]
    assert said("own") == [(NOT_READY, 5), (UNREACHABLE, 300)]
    assert said("all") == [("", -1)]


def test_a_node_whose_instance_is_gone_is_deleted_once_it_is_not_ready() -> None:
    alive = {"aws:///us-east-1a/i-kept"}
    cluster = WorkloadCluster("kept", "lost", "fine", instance_exists=lambda name: name in alive)
    report(cluster, "kept", Ready="False")
    report(cluster, "lost", Ready="False")

    cluster.wait(6)

    assert names(cluster.list(NODES).items) == ["fine", "kept"]


def test_no_node_is_deleted_while_the_cloud_cannot_be_asked() -> None:
    answers: list[bool | None] = [None, None, None]
    cluster = WorkloadCluster("n", instance_exists=lambda _: answers.pop() if answers else False)
    report(cluster, "n", Ready="False")

    cluster.wait(16)
    early = names(cluster.list(NODES).items)
    cluster.wait(5)

    assert early == ["n"]
    assert names(cluster.list(NODES).items) == []


def test_a_node_with_a_finalizer_is_deleted_once() -> None:
    cluster = WorkloadCluster("other", instance_exists=lambda name: name.endswith("other"))
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    node: Object = {"metadata": {"name": "n"}, "spec": {"providerID": "i-n"}, "status": status}
    cluster.create(NODES, with_finalizer(node, "karpenter.sh/termination"))

    cluster.wait(6)
    first = cluster.get(NODES, "n")
    cluster.wait(60)

    assert first["metadata"]["deletionTimestamp"]
    assert cluster.get(NODES, "n")["metadata"] == first["metadata"]


def test_pods_of_a_deleted_node_are_removed_and_replaced() -> None:
    cluster = WorkloadCluster("n1", stop=3600)
    cluster.create(REPLICA_SETS, a_workload(replicas=2))
    cluster.wait(5)

    cluster.delete(NODES, "n1")
    cluster.join("n2")
    cluster.wait(45)

    assert [pod["spec"]["nodeName"] for pod in cluster.pods()] == ["n2", "n2"]


def test_pods_of_a_node_that_registers_again_in_time_are_kept() -> None:
    cluster = WorkloadCluster("n1")
    key = a_pod_on(cluster, "n1")
    node = cluster.delete(NODES, "n1")

    cluster.wait(20)
    cluster.create(NODES, {"metadata": {"name": "n1"}, "spec": {}, "status": node["status"]})
    cluster.wait(120)

    assert is_there_and_stays(cluster, key)


def test_a_pod_bound_to_a_node_that_never_existed_is_removed() -> None:
    cluster = WorkloadCluster("n1")
    cluster.create(PODS, a_pod("p", nodeName="nowhere"))

    cluster.wait(45)

    assert not exists(cluster, PODS, "p", "default")


def test_a_terminated_pod_is_kept() -> None:
    cluster = WorkloadCluster("n1")
    key = a_pod_on(cluster, "n1")

    set_pod(cluster, key, phase="Succeeded", ready=False)
    cluster.wait(3600)

    assert is_there_and_stays(cluster, key)
