"""Pods that kube-scheduler refuses on the node that was launched for them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.live.replicas import Installation, a_deployment, a_pool, run_installation

NAMESPACE = "kube-public"
"""Of DaemonSets: the default requests of its LimitRange apply only to their pods."""
STARTUP_TAINT = {"key": "example.com/agent-not-ready", "effect": "NoSchedule"}


@pytest.fixture
def installation(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    with run_installation(control_plane, tmp_path) as installation:
        yield installation
        installation.cluster.kubectl("delete", "daemonset,limitrange", "--all", "-A")
        installation.clear()


def test_pod_refused_on_its_new_node_gets_another_within_seconds(installation: Installation) -> None:
    """Another pod takes the room before initialization, as a DaemonSet pod larger than planned."""
    pool = a_pool(consolidate_after="300s")
    pool["spec"]["template"]["spec"]["startupTaints"] = [STARTUP_TAINT]
    installation.cluster.apply(pool, a_deployment("planned", 1, cpu="1500m"))
    installation.start_replica("--disable-leader-election")
    wait_for("the node is registered", lambda: registered_nodes(installation), seconds=60)
    (first,) = registered_nodes(installation)

    installation.cluster.apply(a_pod_on(first, cpu="1500m"))
    remove_startup_taint(installation, first)
    initialized = time.monotonic()
    wait_for("a second node is launched", lambda: len(installation.claims()) == 2, seconds=60)
    took = time.monotonic() - initialized
    wait_for("the second node is registered", lambda: len(registered_nodes(installation)) == 2, seconds=60)
    (second,) = registered_nodes(installation) - {first}
    remove_startup_taint(installation, second)
    wait_for("the pod is ready", lambda: installation.ready_replicas("planned") == 1, seconds=60)

    assert took < 20, "one batch window and ten seconds"
    assert len(installation.launches()) == 2


def test_daemonset_pods_are_planned_with_the_defaults_of_a_limit_range(installation: Installation) -> None:
    """The template requests nothing; admission gives its pods 1.5 CPUs."""
    default = {"type": "Container", "defaultRequest": {"cpu": "1500m"}}
    installation.cluster.apply(
        an_object("v1", "LimitRange", "limits", {"limits": [default]}),
        a_daemon_set("agent", spec={"containers": [{"name": "main", "image": "pause"}]}),
    )
    installation.start_replica("--disable-leader-election")

    installation.cluster.apply(a_deployment("planned", 1, cpu="1500m"))
    wait_for("the pod is ready", lambda: installation.ready_replicas("planned") == 1, seconds=60)

    assert len(installation.launches()) == 1
    (agent,) = installation.cluster.read("pods", "-n", NAMESPACE)
    assert agent["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1500m"
    assert agent["spec"]["nodeName"]


def test_daemonset_pods_are_planned_with_the_overhead_of_their_runtime_class(
    installation: Installation,
) -> None:
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "1500m"}},
    }
    spec = {"runtimeClassName": "kata", "containers": [{"name": "main", "image": "pause"}]}
    installation.cluster.apply(runtime_class, a_daemon_set("agent", spec=spec))
    installation.start_replica("--disable-leader-election")

    installation.cluster.apply(a_deployment("planned", 1, cpu="1500m"))
    wait_for("the pod is ready", lambda: installation.ready_replicas("planned") == 1, seconds=60)

    assert len(installation.launches()) == 1


def test_pods_that_must_share_a_host_are_reunited_on_a_larger_node(installation: Installation) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "group"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    installation.cluster.apply(
        a_pool(consolidate_after="300s"),
        a_deployment("group", 1, cpu="1500m", affinity=affinity, terminationGracePeriodSeconds=5),
    )
    installation.start_replica("--disable-leader-election", "--feature-gates", "HostGroupReplacement=true")
    wait_for("the first pod is ready", lambda: installation.ready_replicas("group") == 1, seconds=60)
    (first,) = hosts(installation)

    installation.scale("group", 3)
    wait_for("all pods are ready", lambda: installation.ready_replicas("group") == 3, seconds=180)

    (second,) = hosts(installation)
    assert second != first
    assert len(installation.launches()) == 2


def hosts(installation: Installation) -> set[str]:
    """Return the nodes of all pods of the group."""
    pods = installation.cluster.read("pods", "-n", "default", "-l", "app=group")
    return {pod["spec"].get("nodeName", "") for pod in pods}


def an_object(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def a_daemon_set(name: str, *, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    return an_object("apps/v1", "DaemonSet", name, {"selector": selector, "template": template})


def registered_nodes(installation: Installation) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in installation.nodes()
        if node["metadata"]["labels"].get("karpenter.sh/registered") == "true"
    }


def remove_startup_taint(installation: Installation, node: str) -> None:
    installation.cluster.kubectl("taint", "node", node, f"{STARTUP_TAINT['key']}:NoSchedule-")


def a_pod_on(node: str, *, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }
