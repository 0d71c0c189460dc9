"""Controller processes with the environment and service account of the chart.

moto stands in for AWS, and the tests for the kubelet.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError

import boto3
import pytest

from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.observability.test_health import free_ports
from tests.support.aws.nodeclass_account import REGION, Account
from tests.support.helm.charts import (
    CHART,
    CRDS,
    NAMESPACE,
    RELEASE,
    REQUIRED_VALUES,
    helm,
    merged,
    only,
    rendered,
)
from tests.support.moto.server import MotoAws, moto_aws

_FORBIDDEN = "forbidden"
_LABELS = {"app": "web"}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as moto:
        yield moto


class Pod:
    """The controller's container as a local process."""

    def __init__(self, values: dict[str, Any], kubeconfig: Path, **more: str) -> None:
        values = merged(REQUIRED_VALUES, values)
        deployment = only(rendered(**values), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        variables = {env["name"]: env["value"] for env in container["env"] if "value" in env}
        downward = {"SYSTEM_NAMESPACE": NAMESPACE, "KUBECONFIG": str(kubeconfig)}
        self.ports = (values["controller"]["metrics"]["port"], values["controller"]["healthProbe"]["port"])
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", *container["args"]],
            env={"PATH": os.environ["PATH"]} | variables | downward | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line) if line.startswith("{") else {"message": line})

    def get(self, path: str) -> tuple[int, str]:
        port = self.ports[path != "/metrics"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except URLError as error:
            return 0, str(error.reason)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.lines
        return self.get("/readyz")[0] == 200

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=20)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def pods(control_plane: ControlPlane, moto: MotoAws) -> Iterator[list[Pod]]:
    """Both replicas of an installed release."""
    _create_account(moto)
    options = ("--kubeconfig", control_plane.kubeconfig, "--namespace", NAMESPACE)
    helm("install", "dovetail-crd", CRDS, *options)
    helm("install", RELEASE, CHART, *options, values=merged(REQUIRED_VALUES, {"replicas": 0}))
    account = control_plane.kubeconfig_for_account(RELEASE, NAMESPACE)
    aws = {
        "AWS_ENDPOINT_URL": moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    pods = []
    for _ in range(2):
        metrics, probes = free_ports()
        values = {
            "settings": {
                "region": REGION,
                "clusterEndpoint": "https://demo.example.com",
                "batchIdleDuration": "200ms",
            },
            "controller": {"metrics": {"port": metrics}, "healthProbe": {"port": probes}},
        }
        pods.append(Pod(values, account, **aws))
    yield pods
    for pod in pods:
        pod.stop()
        # Shown if a test failed.
        print(*pod.lines, sep="\n")  # noqa: T201


def _create_account(moto: MotoAws) -> None:
    session = boto3.Session("test", "test", region_name=REGION)
    account = Account(moto)
    account.network(session.client("ec2", endpoint_url=moto.url))
    account.role(session.client("iam", endpoint_url=moto.url))
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")


def _manifests() -> list[dict[str, Any]]:
    tagged = [{"tags": {"team": "a"}}]
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "amiFamily": "Custom",
            "amiSelectorTerms": [{"id": "ami-mine"}],
            "subnetSelectorTerms": tagged,
            "securityGroupSelectorTerms": tagged,
            "role": "nodes",
            "userData": "#!/bin/sh\nexit 0\n",
        },
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    labels = {"node.kubernetes.io/instance-type": ["m5.large"], "karpenter.sh/capacity-type": ["on-demand"]}
    requirements = [{"key": key, "operator": "In", "values": values} for key, values in labels.items()]
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"},
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
        },
    }
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _LABELS},
            "template": {
                "metadata": {"labels": _LABELS},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
    return [node_class, pool, web]


class Kubelet:
    """Registers nodes for launched instances."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    def claims(self) -> list[dict[str, Any]]:
        claims: list[dict[str, Any]] = self._cluster.read("nodeclaims")
        return claims

    def join(self) -> None:
        """Register a node for each NodeClaim that has an instance and no node."""
        for claim in self.claims():
            provider = claim.get("status", {}).get("providerID", "")
            if provider and "nodeName" not in claim["status"]:
                self._cluster.apply(_node(provider))
                name = provider.rpartition("/")[2]
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
                status = json.dumps({"status": {**_resources(), "conditions": [ready]}})
                self._cluster.kubectl(
                    *("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
                )


def _resources() -> dict[str, Any]:
    resources = {"cpu": "2", "memory": "7Gi", "pods": "29", "ephemeral-storage": "18Gi"}
    return {"capacity": resources, "allocatable": resources}


def _node(provider: str) -> dict[str, Any]:
    name = provider.rpartition("/")[2]
    unregistered = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": provider, "taints": [unregistered]},
    }


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

    control_plane.apply(*_manifests())
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
    assert not any("very-secret" in text for text in (*lines, metrics))


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
