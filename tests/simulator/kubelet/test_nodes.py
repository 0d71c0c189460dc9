"""Nodes: registration, readiness, heartbeats and termination of the instance."""

from datetime import timedelta

import pytest

from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.ports.api_resources import CSI_NODES, LEASES, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.latencies import KubeletLatencies
from tests.support.simulator.api_server import START, a_pod
from tests.support.simulator.kubelets import KubeletCluster, booted_instance, condition

INSTANCE = booted_instance()


def taints_of(node: Object) -> list[str]:
    return [f"{taint['key']}:{taint['effect']}" for taint in node["spec"].get("taints") or ()]


def renewed(cluster: KubeletCluster) -> str:
    lease = cluster.get(LEASES, INSTANCE.name, "kube-node-lease")
    return str(lease["spec"]["renewTime"])


def test_a_node_registers_not_ready_with_the_taints_of_its_instance() -> None:
    cluster = KubeletCluster()

    cluster.boot(booted_instance(taints=(UNREGISTERED_TAINT,)))

    node = cluster.get(NODES, INSTANCE.name)
    assert node["spec"]["providerID"] == INSTANCE.provider_id
    assert taints_of(node) == [
        "karpenter.sh/unregistered:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
    ]
    assert condition(node, "Ready") == "False KubeletNotReady"
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == INSTANCE.name
    assert node["status"]["addresses"][0]["address"] == "10.0.0.1"


def test_a_ready_node_loses_only_the_not_ready_taint() -> None:
    cluster = KubeletCluster()
    cluster.boot(booted_instance(taints=(UNREGISTERED_TAINT,)))

    cluster.wait(5)

    node = cluster.get(NODES, INSTANCE.name)
    assert condition(node, "Ready") == "True KubeletReady"
    assert taints_of(node) == ["karpenter.sh/unregistered:NoExecute"]


def test_a_taint_removed_while_the_node_started_does_not_come_back() -> None:
    cluster = KubeletCluster()
    cluster.boot(booted_instance(taints=(UNREGISTERED_TAINT,)))
    cluster.wait(2)
    node = cluster.get(NODES, INSTANCE.name)
    left = [taint for taint in node["spec"]["taints"] if taint["key"] != UNREGISTERED_TAINT.key]
    cluster.update(NODES, {**node, "spec": {**node["spec"], "taints": left}})

    cluster.wait(5)

    assert taints_of(cluster.get(NODES, INSTANCE.name)) == []


def test_extended_resources_are_reported_only_after_their_plugin_has_started() -> None:
    cluster = KubeletCluster(KubeletLatencies(devices=timedelta(seconds=3)))
    cluster.boot(booted_instance(**{"nvidia.com/gpu": "2"}))

    cluster.wait(5)
    before = cluster.get(NODES, INSTANCE.name)["status"]["allocatable"]
    cluster.wait(3)

    assert "nvidia.com/gpu" not in before
    assert cluster.get(NODES, INSTANCE.name)["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_lease_is_renewed_every_ten_seconds_and_a_status_every_five_minutes() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)

    cluster.wait(60)
    after_a_minute = renewed(cluster)
    beats = {condition["lastHeartbeatTime"] for condition in _conditions(cluster)}
    cluster.wait(240)

    assert after_a_minute == "2026-01-01T09:01:00.000000Z"
    assert beats == {"2026-01-01T09:00:05Z"}
    assert {condition["lastHeartbeatTime"] for condition in _conditions(cluster)} == {"2026-01-01T09:05:00Z"}
    ready = next(condition for condition in _conditions(cluster) if condition["type"] == "Ready")
    assert ready["lastTransitionTime"] == "2026-01-01T09:00:05Z"


def _conditions(cluster: KubeletCluster) -> list[Object]:
    return list(cluster.get(NODES, INSTANCE.name)["status"]["conditions"])


def test_an_unresponsive_kubelet_reports_nothing() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)
    cluster.wait(20)

    cluster.kubelets.make_unresponsive(INSTANCE.provider_id)
    cluster.run(a_pod("late"), INSTANCE)
    cluster.wait(600)

    assert renewed(cluster) == "2026-01-01T09:00:20.000000Z"
    assert cluster.pod("late")["status"]["phase"] == "Pending"


def test_pods_of_a_terminated_instance_keep_their_last_status() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)
    cluster.wait(5)
    cluster.run(a_pod("web"), INSTANCE)
    cluster.wait(10)

    cluster.kubelets.stop(INSTANCE.provider_id)
    cluster.delete_pod("web")
    cluster.wait(600)

    assert cluster.pod("web")["status"]["phase"] == "Running"
    assert cluster.get(NODES, INSTANCE.name)
    assert renewed(cluster) == "2026-01-01T09:00:10.000000Z"


def test_lease_and_csinode_are_deleted_with_the_node_and_do_not_come_back() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)
    cluster.wait(20)

    cluster.delete(NODES, INSTANCE.name)
    cluster.wait(600)

    for resource, namespace in ((NODES, ""), (LEASES, "kube-node-lease"), (CSI_NODES, "")):
        with pytest.raises(NotFound):
            cluster.get(resource, INSTANCE.name, namespace)


def test_an_instance_can_reuse_the_node_name_of_a_terminated_one() -> None:
    cluster = KubeletCluster()
    cluster.boot(INSTANCE)
    cluster.wait(20)
    cluster.kubelets.stop(INSTANCE.provider_id)
    successor = booted_instance(zone="us-east-1b")

    cluster.boot(successor)
    cluster.wait(10)

    node = cluster.get(NODES, INSTANCE.name)
    assert node["spec"]["providerID"] == successor.provider_id
    assert condition(node, "Ready") == "True KubeletReady"


def test_stopping_the_kubelet_of_an_instance_that_never_booted_changes_nothing() -> None:
    cluster = KubeletCluster()

    cluster.kubelets.stop("aws:///us-east-1a/i-unknown")

    assert cluster.list(NODES).items == []
    assert cluster.clock.now() == START
