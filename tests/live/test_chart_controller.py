"""Controller processes with the environment and service account of the chart.

moto stands in for AWS, and the tests for the kubelet.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.kube.auth.kubeconfig import SERVICE_ACCOUNT_DIR
from tests.live.chart_pod import SECRET, Kubelet, Pod, aws_environment, create_account, workload
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.support.helm.binary import helm_binary
from tests.support.helm.charts import CHART, CRDS, NAMESPACE, RELEASE, REQUIRED_VALUES, helm, merged
from tests.support.moto.server import MotoAws, moto_aws

_FORBIDDEN = "forbidden"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as moto:
        yield moto


@pytest.fixture(scope="module")
def pods(control_plane: ControlPlane, moto: MotoAws) -> Iterator[list[Pod]]:
    """Both replicas of an installed release."""
    create_account(moto)
    options = ("--kubeconfig", control_plane.kubeconfig, "--namespace", NAMESPACE)
    helm("install", "dovetail-crd", CRDS, *options)
    helm("install", RELEASE, CHART, *options, values=merged(REQUIRED_VALUES, {"replicas": 0}))
    account = control_plane.kubeconfig_for_account(RELEASE, NAMESPACE)
    local = {"PATH": os.environ["PATH"], "KUBECONFIG": str(account)}
    program = [sys.executable, "-m", "dovetail"]
    pods = [Pod(program, local | aws_environment(moto)) for _ in range(2)]
    yield pods
    for pod in pods:
        pod.stop()
        # Shown if a test failed.
        print(*pod.lines, sep="\n")  # noqa: T201


def test_both_replicas_become_ready_with_the_charts_environment_and_service_account(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    wait_for("both replicas are ready", lambda: all(pod.is_ready() for pod in pods), seconds=90)

    lease = control_plane.read("lease", "karpenter-leader-election", "-n", NAMESPACE)
    assert "_dovetail-" in lease["spec"]["holderIdentity"]
    assert [pod.get("/healthz") for pod in pods] == [(200, "ok\n")] * 2


def test_a_node_is_launched_drained_replaced_and_terminated(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    kubelet = Kubelet(control_plane)

    def claims() -> list[dict[str, Any]]:
        kubelet.join()
        return kubelet.claims()

    def pod_nodes() -> list[str]:
        web = control_plane.read("pods", "-l", "app=web")
        return [pod["spec"].get("nodeName", "") for pod in web]

    control_plane.apply(*workload())
    wait_for("the pod has a node", lambda: bool(claims()) and all(pod_nodes()), seconds=120)
    (first,) = pod_nodes()
    # Drain evicts the pod; its Deployment creates another, which needs another node.
    control_plane.kubectl("delete", "node", first, "--wait=false")
    wait_for(
        "the pod has another node",
        lambda: len(claims()) == 1 and all(node and node != first for node in pod_nodes()),
        seconds=120,
    )
    control_plane.kubectl("scale", "deployment", "web", "--replicas=0")
    wait_for("every NodeClaim is deleted", lambda: not claims(), seconds=120)

    assert control_plane.read("nodes") == []
    reasons = {event["reason"] for event in control_plane.read("events", "-A")}
    assert {"Nominated", "Launched", "Registered", "Initialized", "Evicted"} <= reasons


def test_no_request_was_forbidden_and_no_secret_was_logged(pods: list[Pod]) -> None:
    lines = [json.dumps(line) for pod in pods for line in pod.lines]
    metrics = "".join(pod.get("/metrics")[1] for pod in pods)

    assert lines
    assert [line for line in lines if _FORBIDDEN in line.lower()] == []
    assert not any(SECRET in text for text in (*lines, metrics))


def test_only_the_leader_counts_created_claims_and_drained_nodes(pods: list[Pod]) -> None:
    def count(pod: Pod, name: str) -> float:
        lines = pod.get("/metrics")[1].splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))

    created = sorted(count(pod, "karpenter_nodeclaims_created_total") for pod in pods)
    drained = sorted(count(pod, "karpenter_nodes_drained_total") for pod in pods)

    assert created == [0, 2]
    assert drained == [0, 2]


def test_sigterm_stops_both_replicas_and_releases_the_lease(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    codes = [pod.stop() for pod in pods]

    assert codes == [0, 0]
    lease = control_plane.read("lease", "karpenter-leader-election", "-n", NAMESPACE)
    assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.usefixtures("pods")
def test_helm_test_fails_without_a_ready_replica_and_passes_with_one(control_plane: ControlPlane) -> None:
    without = _helm_test(control_plane)
    control_plane.kubectl("scale", "deployment", RELEASE, "-n", NAMESPACE, "--replicas=1")
    selector = ("-n", NAMESPACE, "-l", f"app.kubernetes.io/name={RELEASE}")
    wait_for("the replica exists", lambda: bool(control_plane.read("pods", *selector)))
    (replica,) = control_plane.read("pods", *selector)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    _patch_status(control_plane, replica["metadata"]["name"], ready)

    assert without.startswith("Failed")
    assert "K17" in without
    assert _helm_test(control_plane).startswith("Succeeded")


def _helm_test(cluster: ControlPlane) -> str:
    """Run `helm test` and its pod, as the kubelet does; return the phase and the pod's output."""
    options = ("--kubeconfig", cluster.kubeconfig, "--namespace", NAMESPACE, "--timeout", "120s")
    name = f"{RELEASE}-test"
    # The hook is created again for each test.
    cluster.kubectl("delete", "pod", name, "-n", NAMESPACE, "--ignore-not-found", "--force")
    with subprocess.Popen(
        [helm_binary(), "test", RELEASE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as test:
        wait_for(
            "the pod exists", lambda: name in cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name")
        )
        (container,) = cluster.read("pod", name, "-n", NAMESPACE)["spec"]["containers"]
        done = subprocess.run(
            [sys.executable, "-m", "dovetail", *container["args"]],
            env={"PATH": os.environ["PATH"], **_account_environment(cluster, container)},
            capture_output=True,
            text=True,
            check=False,
        )
        phase = "Failed" if done.returncode else "Succeeded"
        _patch_status(cluster, name, {"phase": phase})
        output, _ = test.communicate(timeout=120)
    assert (test.returncode == 0) == (phase == "Succeeded"), output
    return f"{phase}\n{done.stdout}{done.stderr}"


def _account_environment(cluster: ControlPlane, container: dict[str, Any]) -> dict[str, str]:
    """Return access with the pod's account, if the API server added its token to the container."""
    mounts = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
    if str(SERVICE_ACCOUNT_DIR) not in mounts:
        return {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    return {"KUBECONFIG": str(cluster.kubeconfig_for_account(RELEASE, NAMESPACE))}


def _patch_status(cluster: ControlPlane, pod: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "pod", pod, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch)
