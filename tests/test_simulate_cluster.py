"""Dumps of a cluster become the snapshot that decisions read."""

from typing import Any

from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.simulate import SimulatedSnapshot, cluster_snapshot
from tests.codec.sources import a_claim, a_deployment, a_node, a_pod, dump, owned_by, read_manifest
from tests.support.small_catalog import CATALOG, PRICES

MANAGED = {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m5.xlarge"}
UP = {**MANAGED, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}


def take_snapshot(text: str = "", *, cluster: str) -> SimulatedSnapshot:
    return cluster_snapshot(read_manifest(text, cluster=cluster), catalog=CATALOG, prices=PRICES)


def read_nodes(*objects: dict[str, Any]) -> tuple[Any, ...]:
    return take_snapshot(cluster=dump(*objects)).snapshot.nodes


def test_bound_pods_are_on_their_nodes_and_unbound_pods_are_pending() -> None:
    cluster = dump(
        a_node("n1"),
        a_pod("runs", spec={"nodeName": "n1"}, status={"phase": "Running"}),
        a_pod("done", spec={"nodeName": "n1"}, status={"phase": "Succeeded"}),
        a_pod("waits"),
    )

    result = take_snapshot(cluster=cluster)

    (node,) = result.snapshot.nodes
    assert [pod.name for pod in node.pods if not pod.is_terminal] == ["runs"]
    assert node.available()["pods"] == 57
    assert [pod.name for pod in result.snapshot.pending_pods] == ["waits"]
    assert result.snapshot.nodes[0].allocatable["cpu"] == 4000


def test_an_unmanaged_node_counts_as_registered_and_initialized() -> None:
    node = read_nodes(a_node("n1"))[0]

    assert (node.registered, node.initialized, node.is_managed) == (True, True, False)


def test_labels_of_a_managed_node_say_if_it_is_registered_and_initialized() -> None:
    cluster = dump(a_node("new", metadata={"labels": MANAGED}), a_node("up", metadata={"labels": UP}))

    new, up = take_snapshot(cluster=cluster).snapshot.nodes

    assert (new.registered, new.initialized) == (False, False)
    assert (up.registered, up.initialized) == (True, True)


def test_labels_and_taints_of_the_nodeclaim_count_until_its_node_registers() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    startup = {"key": "cni", "effect": "NoExecute"}
    claim = a_claim(
        "general-1",
        "n1",
        metadata={"labels": {**MANAGED, "from": "claim"}},
        spec={"taints": [taint], "startupTaints": [startup]},
        status={"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}},
    )
    node = a_node("n1", metadata={"labels": MANAGED}, spec={"taints": [startup]})

    joined = read_nodes(node, claim)[0]

    assert joined.claim == "general-1"
    assert joined.labels["from"] == "claim"
    assert joined.taints == (Taint("team", TaintEffect.NO_SCHEDULE, "a"),)
    assert joined.startup_taints == (Taint("cni", TaintEffect.NO_EXECUTE),)
    assert joined.effective_allocatable()["nvidia.com/gpu"] == 1


def test_labels_and_taints_of_a_registered_node_count() -> None:
    claim = a_claim("general-1", "n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    node = a_node("n1", metadata={"labels": {**UP, "from": "node"}})

    joined = read_nodes(node, claim)[0]

    assert joined.claim == "general-1"
    assert joined.labels["from"] == "node"
    assert joined.taints == ()


def test_a_launched_nodeclaim_counts_as_a_node_and_a_pending_one_does_not() -> None:
    launched = a_claim("launched", "n1", status={"allocatable": {"cpu": "3900m"}})
    asked = a_claim("asked", "n2", status={"providerID": ""})

    result = take_snapshot(cluster=dump(launched, asked))

    assert [node.name for node in result.snapshot.nodes] == ["launched"]
    assert result.snapshot.nodes[0].effective_allocatable()["cpu"] == 3900
    assert "nodeclaim asked is not launched yet; left out" in result.notes


def test_deleted_terminating_and_disrupted_nodes_are_deleting() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    disrupted = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    terminating = {"conditions": [{"type": "InstanceTerminating", "status": "True"}]}
    cluster = dump(
        a_node("a-stays", metadata={"labels": UP}),
        a_node("b-claim-deleted", metadata={"labels": UP}),
        a_claim("b", "b-claim-deleted", metadata=gone),
        a_node("c-terminating", metadata={"labels": UP}),
        a_claim("c", "c-terminating", status={"nodeName": "c-terminating", **terminating}),
        a_node("d-disrupted", metadata={"labels": UP}, spec=disrupted),
        a_node("e-deleted", metadata=gone),
    )

    nodes = take_snapshot(cluster=cluster).snapshot.nodes

    assert [(node.name[0], node.deleting) for node in nodes] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", True),
        ("e", True),
    ]


def test_a_cordoned_node_has_the_unschedulable_taint() -> None:
    node = read_nodes(a_node("n1", spec={"unschedulable": True}))[0]

    assert [taint.key for taint in node.taints] == ["node.kubernetes.io/unschedulable"]


def test_a_managed_node_without_instance_type_label_is_left_out() -> None:
    node = a_node("n1", metadata={"labels": {"karpenter.sh/nodepool": "general"}})

    result = take_snapshot(cluster=dump(node))

    assert result.snapshot.nodes == ()
    assert "node n1 has no instance type label yet; left out" in result.notes


def test_pods_of_missing_nodes_are_noted() -> None:
    result = take_snapshot(cluster=dump(a_pod("a", spec={"nodeName": "lost"})))

    assert "1 bound pod left out: nodes not given: lost" in result.notes


def test_volume_limits_come_from_the_csi_node() -> None:
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {
            "drivers": [
                {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
                {"name": "efs.csi.aws.com", "nodeID": "i"},
            ]
        },
    }

    node = read_nodes(a_node("n1"), csi)[0]

    assert dict(node.volume_limits) == {"ebs.csi.aws.com": 25}


def test_newest_pod_of_a_daemonset_has_the_node_affinity_of_the_template() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    pinned = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    def agent(name: str, cpu: str, created: str) -> dict[str, object]:
        return a_pod(
            name,
            metadata={**owned_by("DaemonSet", "agent"), "creationTimestamp": created},
            spec={
                "nodeName": "n1",
                "affinity": {"nodeAffinity": pinned},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            },
        )

    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    cluster = dump(
        a_node("n1"),
        daemon_set,
        agent("young", "300m", "2026-02-01T00:00:00Z"),
        agent("old", "100m", "2026-01-01T00:00:00Z"),
    )

    daemon_set = take_snapshot(cluster=cluster).snapshot.daemon_sets[0]

    assert daemon_set.newest_pod is not None
    assert daemon_set.newest_pod.name == "young"
    assert daemon_set.newest_pod.spec.requests["cpu"] == 300
    assert daemon_set.newest_pod.spec.node_terms == ()


def live_web(replicas: int, cpu: str = "500m", *, with_objects: bool = True) -> str:
    """Return a cluster in which Deployment web runs ``replicas`` pods on n1."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    labels = {"app": "web", "pod-template-hash": "abc"}
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web-abc", "namespace": "shop", **owned_by("Deployment", "web")},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        },
    ]
    pods = [
        a_pod(
            f"web-abc-{number}",
            metadata=owned_by("ReplicaSet", "web-abc", **labels),
            spec={"nodeName": "n1", "containers": [container]},
            status={"phase": "Running"},
        )
        for number in range(replicas)
    ]
    return dump(a_node("n1"), *(objects if with_objects else []), *pods)


def test_a_workload_of_the_cluster_gets_no_new_replicas() -> None:
    result = take_snapshot(cluster=live_web(2))

    assert result.snapshot.pending_pods == ()
    assert len(result.snapshot.nodes[0].pods) == 2
    assert [controller.name for controller in result.snapshot.workload_controllers] == ["web-abc"]


def test_scaling_up_adds_only_missing_pods() -> None:
    result = take_snapshot(a_deployment(5), cluster=live_web(2))

    assert len(result.snapshot.nodes[0].pods) == 2
    assert len(result.snapshot.pending_pods) == 3


def test_scaling_down_removes_pods_from_nodes() -> None:
    result = take_snapshot(a_deployment(1), cluster=live_web(4))

    assert len(result.snapshot.nodes[0].pods) == 1
    assert result.snapshot.pending_pods == ()


def test_a_workload_without_replica_count_keeps_that_of_the_cluster() -> None:
    result = take_snapshot(a_deployment(1, cpu="2").replace("  replicas: 1\n", ""), cluster=live_web(4))

    assert len(result.snapshot.pending_pods) == 4


def test_a_changed_template_replaces_all_pods_of_the_workload() -> None:
    result = take_snapshot(a_deployment(2, cpu="2"), cluster=live_web(2))

    assert result.snapshot.nodes[0].pods == ()
    assert [pod.spec.requests["cpu"] for pod in result.snapshot.pending_pods] == [2000, 2000]


def test_a_dump_of_pods_alone_identifies_their_workload() -> None:
    result = take_snapshot(a_deployment(3), cluster=live_web(2, with_objects=False))

    assert result.snapshot.nodes[0].pods == ()
    assert len(result.snapshot.pending_pods) == 3


def test_a_changed_daemonset_has_no_newest_pod() -> None:
    daemon_set = """
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: agent, namespace: shop}
        spec:
          selector: {matchLabels: {a: b}}
          template:
            metadata: {labels: {a: b}}
            spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
    """
    cluster = dump(
        a_node("n1"), a_pod("old", metadata=owned_by("DaemonSet", "agent"), spec={"nodeName": "n1"})
    )

    result = take_snapshot(daemon_set, cluster=cluster)

    assert [(daemon_set.name, daemon_set.newest_pod) for daemon_set in result.snapshot.daemon_sets] == [
        ("agent", None)
    ]
    assert len(result.snapshot.nodes[0].pods) == 1


LIMITS = """
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: default}
spec: {limits: [{type: Container, defaultRequest: {cpu: 700m}, max: {cpu: "1"}}]}
---
"""


def test_pods_of_manifests_get_the_default_requests_of_limit_ranges_in_the_dump() -> None:
    manifests = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web:1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: main, image: web:1}]}
"""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "default", "uid": "1"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "700m"}}]},
    }
    running = a_pod("runs", spec={"nodeName": "n1"}, status={"phase": "Running"})

    result = take_snapshot(manifests, cluster=dump(a_node("n1"), limits, running))

    requested = {pod.name: pod.spec.requests.get("cpu", 0) for pod in result.snapshot.pending_pods}
    assert requested == {"alone": 700, "web-1": 700, "web-2": 700}
    (node,) = result.snapshot.nodes
    assert node.pods[0].spec.requests == read_nodes(a_node("n1"), running)[0].pods[0].spec.requests


def test_pods_that_a_limit_range_rejects_are_left_out_with_the_reason() -> None:
    manifests = (
        LIMITS
        + """
apiVersion: apps/v1
kind: Deployment
metadata: {name: large}
spec:
  replicas: 3
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec: {containers: [{name: main, image: web:1, resources: {limits: {cpu: "2"}}}]}
"""
    )

    inputs = read_manifest(manifests, cluster=dump(a_node("n1")))

    assert inputs.pending == ()
    assert inputs.warnings == (
        "3 pods of Deployment default/large left out: rejected by LimitRange limits: per Container, "
        "the maximum of cpu is 1, but the limit is 2",
    )


def test_daemonset_of_a_manifest_has_the_overhead_of_its_runtime_class() -> None:
    manifests = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {runtimeClassName: kata, containers: [{name: main, image: agent:1}]}
"""

    (daemon,) = take_snapshot(manifests, cluster=dump(a_node("n1"))).snapshot.daemon_sets

    assert daemon.pod.spec.requests["cpu"] == 250
