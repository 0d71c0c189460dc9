"""Nodes: registration, readiness, heartbeats, and the end of a machine."""

from datetime import timedelta

import pytest

from dovetail.model.kube.taints import UNREGISTERED
from dovetail.ports.api_resources import CSI_NODES, LEASES, NODES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.kubelet.latencies import Latencies
from tests.support.cluster import START, a_pod
from tests.support.machines import Hosted, a_machine, condition

MACHINE = a_machine()


def taints_of(node: Object) -> list[str]:
    return [f"{one['key']}:{one['effect']}" for one in node["spec"].get("taints") or ()]


def renewed(cluster: Hosted) -> str:
    lease = cluster.get(LEASES, MACHINE.name, "kube-node-lease")
    return str(lease["spec"]["renewTime"])


def test_a_node_registers_not_ready_with_the_taints_of_its_machine() -> None:
    cluster = Hosted()

    cluster.boot(a_machine(taints=(UNREGISTERED,)))

    node = cluster.get(NODES, MACHINE.name)
    assert node["spec"]["providerID"] == MACHINE.provider_id
    assert taints_of(node) == [
        "karpenter.sh/unregistered:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
    ]
    assert condition(node, "Ready") == "False KubeletNotReady"
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == MACHINE.name
    assert node["status"]["addresses"][0]["address"] == "10.0.0.1"


def test_a_node_becomes_ready_and_sheds_only_the_taint_that_said_it_was_not() -> None:
    cluster = Hosted()
    cluster.boot(a_machine(taints=(UNREGISTERED,)))

    cluster.wait(5)

    node = cluster.get(NODES, MACHINE.name)
    assert condition(node, "Ready") == "True KubeletReady"
    assert taints_of(node) == ["karpenter.sh/unregistered:NoExecute"]


def test_a_taint_that_somebody_took_away_while_the_node_started_does_not_come_back() -> None:
    cluster = Hosted()
    cluster.boot(a_machine(taints=(UNREGISTERED,)))
    cluster.wait(2)
    node = cluster.get(NODES, MACHINE.name)
    left = [one for one in node["spec"]["taints"] if one["key"] != UNREGISTERED.key]
    cluster.update(NODES, {**node, "spec": {**node["spec"], "taints": left}})

    cluster.wait(5)

    assert taints_of(cluster.get(NODES, MACHINE.name)) == []


def test_extended_resources_are_reported_only_after_their_plugin_has_started() -> None:
    cluster = Hosted(Latencies(devices=timedelta(seconds=3)))
    cluster.boot(a_machine(**{"nvidia.com/gpu": "2"}))

    cluster.wait(5)
    before = cluster.get(NODES, MACHINE.name)["status"]["allocatable"]
    cluster.wait(3)

    assert "nvidia.com/gpu" not in before
    assert cluster.get(NODES, MACHINE.name)["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_lease_is_renewed_every_ten_seconds_and_a_status_every_five_minutes() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)

    cluster.wait(60)
    after_a_minute = renewed(cluster)
    beats = {one["lastHeartbeatTime"] for one in _conditions(cluster)}
    cluster.wait(240)

    assert after_a_minute == "2026-01-01T09:01:00.000000Z"
    assert beats == {"2026-01-01T09:00:05Z"}
    assert {one["lastHeartbeatTime"] for one in _conditions(cluster)} == {"2026-01-01T09:05:00Z"}
    ready = next(one for one in _conditions(cluster) if one["type"] == "Ready")
    assert ready["lastTransitionTime"] == "2026-01-01T09:00:05Z"


def _conditions(cluster: Hosted) -> list[Object]:
    return list(cluster.get(NODES, MACHINE.name)["status"]["conditions"])


def test_nothing_is_heard_of_a_silent_kubelet() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)
    cluster.wait(20)

    cluster.kubelets.silent(MACHINE.provider_id)
    cluster.run(a_pod("late"), MACHINE)
    cluster.wait(600)

    assert renewed(cluster) == "2026-01-01T09:00:20.000000Z"
    assert cluster.pod("late")["status"]["phase"] == "Pending"


def test_the_pods_of_a_machine_that_is_gone_stay_as_they_were_last_seen() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)
    cluster.wait(5)
    cluster.run(a_pod("web"), MACHINE)
    cluster.wait(10)

    cluster.kubelets.halt(MACHINE.provider_id)
    cluster.delete_pod("web")
    cluster.wait(600)

    assert cluster.pod("web")["status"]["phase"] == "Running"
    assert cluster.get(NODES, MACHINE.name)
    assert renewed(cluster) == "2026-01-01T09:00:10.000000Z"


def test_lease_and_csi_node_go_with_the_node_and_do_not_come_back() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)
    cluster.wait(20)

    cluster.delete(NODES, MACHINE.name)
    cluster.wait(600)

    for resource, namespace in ((NODES, ""), (LEASES, "kube-node-lease"), (CSI_NODES, "")):
        with pytest.raises(NotFound):
            cluster.get(resource, MACHINE.name, namespace)


def test_a_machine_can_take_over_the_name_of_one_that_is_gone() -> None:
    cluster = Hosted()
    cluster.boot(MACHINE)
    cluster.wait(20)
    cluster.kubelets.halt(MACHINE.provider_id)
    successor = a_machine(zone="us-east-1b")

    cluster.boot(successor)
    cluster.wait(10)

    node = cluster.get(NODES, MACHINE.name)
    assert node["spec"]["providerID"] == successor.provider_id
    assert condition(node, "Ready") == "True KubeletReady"


def test_halting_a_machine_that_never_booted_changes_nothing() -> None:
    cluster = Hosted()

    cluster.kubelets.halt("aws:///us-east-1a/i-unknown")

    assert cluster.list(NODES).items == []
    assert cluster.engine.now() == START
