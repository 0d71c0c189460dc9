"""DaemonSet controller."""

from collections import Counter

from dovetail.ports.api_resources import DAEMON_SETS, NODES, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from tests.support.simulator.api_server import names
from tests.support.simulator.controller_manager import (
    WorkloadCluster,
    a_template,
    a_workload,
    images,
    new_image,
    set_pod,
)

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def daemons(*nodes: str, **spec: object) -> WorkloadCluster:
    cluster = WorkloadCluster(*nodes)
    cluster.create(DAEMON_SETS, a_workload("agent", **spec))
    cluster.wait(5)
    return cluster


def where(cluster: WorkloadCluster) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in cluster.pods())


def status(cluster: WorkloadCluster) -> Object:
    written: Object = cluster.get(DAEMON_SETS, "agent", "default")["status"]
    return written


def taint(cluster: WorkloadCluster, node: str, *taints: dict[str, str]) -> None:
    cluster.patch(NODES, node, {"spec": {"taints": list(taints)}}, PatchType.MERGE)


def test_every_node_gets_one_pod_and_so_does_a_new_node() -> None:
    cluster = daemons("n1", "n2")

    cluster.join("n3")
    cluster.wait(5)

    assert where(cluster) == ["n1", "n2", "n3"]
    assert status(cluster) == {
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 3,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
    }


def test_a_daemon_pod_is_pinned_to_its_node_and_has_the_daemon_tolerations() -> None:
    cluster = daemons("n1")

    (pod,) = cluster.pods()
    assert get_field(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    ) == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }
    tolerated = {(toleration["key"], toleration["effect"]) for toleration in pod["spec"]["tolerations"]}
    assert tolerated == {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    }


def test_the_node_selector_follows_the_labels_of_nodes() -> None:
    cluster = daemons("n1", template=a_template("agent", nodeSelector={"gpu": "yes"}))
    cluster.join("n2", gpu="yes")
    cluster.wait(5)
    before = where(cluster)

    cluster.patch(NODES, "n2", {"metadata": {"labels": {"gpu": None}}}, PatchType.MERGE)
    cluster.patch(NODES, "n1", {"metadata": {"labels": {"gpu": "yes"}}}, PatchType.MERGE)
    cluster.wait(5)

    assert before == ["n2"]
    assert where(cluster) == ["n1"]


def test_required_affinity_selects_nodes_by_any_of_its_terms() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    template = a_template("agent", affinity={"nodeAffinity": required})
    cluster = daemons("plain", template=template)

    cluster.join("in-a", zone="a")
    cluster.join("large", zone="b", cores="16")
    cluster.join("small", zone="b", cores="4")
    cluster.wait(5)

    assert where(cluster) == ["in-a", "large"]


def test_a_taint_prevents_new_daemons_and_only_no_execute_removes_running_ones() -> None:
    cluster = daemons("n1", "n2")

    taint(cluster, "n1", TAINT)
    cluster.wait(5)
    with_taint, misscheduled = where(cluster), status(cluster)["numberMisscheduled"]
    taint(cluster, "n1", {**TAINT, "effect": "NoExecute"})
    cluster.wait(5)

    assert (with_taint, misscheduled) == (["n1", "n2"], 1)
    assert where(cluster) == ["n2"]
    assert status(cluster)["desiredNumberScheduled"] == 1


def test_a_node_gets_its_daemon_when_the_taint_is_removed() -> None:
    cluster = daemons("n1")
    node = {"metadata": {"name": "n2"}, "spec": {"taints": [TAINT]}}
    cluster.create(NODES, node)
    cluster.wait(5)
    before = where(cluster)

    taint(cluster, "n2")
    cluster.wait(5)

    assert before == ["n1"]
    assert where(cluster) == ["n1", "n2"]


def test_a_cordoned_node_keeps_and_gets_daemons() -> None:
    cluster = daemons("n1")
    cordoned = {"spec": {"unschedulable": True}}
    cluster.patch(NODES, "n1", cordoned, PatchType.MERGE)
    (pod,) = names(cluster.pods())

    cluster.delete(PODS, pod, "default")
    cluster.wait(5)

    assert where(cluster) == ["n1"]
    assert names(cluster.pods()) != [pod]


def test_a_failed_pod_is_replaced_after_a_delay() -> None:
    cluster = daemons("n1")
    (failed,) = names(cluster.pods())

    set_pod(cluster, ("default", failed), phase="Failed", ready=False)
    cluster.wait(10)

    assert where(cluster) == ["n1"]
    assert names(cluster.pods()) != [failed]


def test_an_update_replaces_one_pod_at_a_time() -> None:
    cluster = daemons("n1", "n2", "n3", "n4")

    cluster.change(DAEMON_SETS, "agent", new_image("app:2"))
    history = []
    for _ in range(12):
        cluster.wait(1)
        history.append(status(cluster).get("numberUnavailable", 0))

    assert images(cluster.pods()) == ["app:2"] * 4
    assert max(history) == 1
    assert status(cluster)["updatedNumberScheduled"] == 4
    assert status(cluster)["observedGeneration"] == 2


def test_an_update_replaces_max_unavailable_pods_at_a_time() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    cluster = daemons("n1", "n2", "n3", "n4", updateStrategy=strategy)

    cluster.change(DAEMON_SETS, "agent", new_image("app:2"))
    cluster.wait(1)

    assert Counter(images(cluster.pods())) == {"app:1": 2, "app:2": 2}


def test_on_delete_updates_only_deleted_pods() -> None:
    cluster = daemons("n1", "n2", updateStrategy={"type": "OnDelete"})
    cluster.change(DAEMON_SETS, "agent", new_image("app:2"))
    cluster.wait(10)
    untouched = images(cluster.pods())

    (first, _) = names(cluster.pods())
    cluster.delete(PODS, first, "default")
    cluster.wait(5)

    assert untouched == ["app:1", "app:1"]
    assert images(cluster.pods()) == ["app:1", "app:2"]


def test_a_deleted_daemonset_deletes_its_pods_and_can_be_created_again() -> None:
    cluster = daemons("n1", "n2")

    cluster.delete(DAEMON_SETS, "agent", "default")
    cluster.wait(5)
    deleted = cluster.pods()
    cluster.create(DAEMON_SETS, a_workload("agent"))
    cluster.wait(5)

    assert deleted == []
    assert where(cluster) == ["n1", "n2"]


def test_a_node_heartbeat_causes_no_writes() -> None:
    cluster = daemons("n1", "n2")
    beat = {"status": {"images": [{"names": ["app:1"]}]}}
    cluster.patch(NODES, "n1", beat, PatchType.MERGE, subresource="status")
    before = cluster.resource_version

    cluster.wait(10)

    assert cluster.resource_version == before
