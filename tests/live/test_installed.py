"""The process as the chart would start it, with the chart's account and nothing more.

Its environment is that of the chart's Deployment, word for word; AWS is played by moto,
and the tests play the kubelet.
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
from tests.live.plane import ControlPlane
from tests.observability.test_health import free_ports
from tests.support.charts import (
    CHART,
    CRDS,
    NAMESPACE,
    NEEDED,
    RELEASE,
    helm,
    merged,
    only,
    rendered,
)
from tests.support.moto.server import MotoAws, moto_aws
from tests.support.moto_nodeclass import REGION, Account

_NO_RIGHT = "forbidden"
_LABELS = {"app": "web"}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with moto_aws() as running:
        yield running


class Pod:
    """What the kubelet would have started, started here."""

    def __init__(self, values: dict[str, Any], kubeconfig: Path, **more: str) -> None:
        settled = merged(NEEDED, values)
        deployment = only(rendered(**settled), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        told = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        downward = {"SYSTEM_NAMESPACE": NAMESPACE, "KUBECONFIG": str(kubeconfig)}
        self.ports = (
            settled["controller"]["metrics"]["port"],
            settled["controller"]["healthProbe"]["port"],
        )
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", *container["args"]],
            env={"PATH": os.environ["PATH"]} | told | downward | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            known = json.loads(line) if line.startswith("{") else {"message": line}
            self.lines.append(known)

    def get(self, path: str) -> tuple[int, str]:
        port = self.ports[path != "/metrics"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except URLError as error:
            return 0, str(error.reason)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.lines
        return self.get("/readyz")[0] == 200

    def end(self) -> int:
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
    _account(moto)
    options = ("--kubeconfig", control_plane.kubeconfig, "--namespace", NAMESPACE)
    helm("install", "dovetail-crd", CRDS, *options)
    helm("install", RELEASE, CHART, *options, values=merged(NEEDED, {"replicas": 0}))
    account = control_plane.kubeconfig_for_account(RELEASE, NAMESPACE)
    aws = {
        "AWS_ENDPOINT_URL": moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    started = []
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
        started.append(Pod(values, account, **aws))
    yield started
    for one in started:
        one.end()
        # Shown when a test has failed.
        print(*one.lines, sep="\n")  # noqa: T201


def _account(moto: MotoAws) -> None:
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
    wanted = {
        "node.kubernetes.io/instance-type": ["m5.large"],
        "karpenter.sh/capacity-type": ["on-demand"],
    }
    requirements = [
        {"key": key, "operator": "In", "values": values} for key, values in wanted.items()
    ]
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
    """Joins for the machines that were bought."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    def claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._cluster.read("nodeclaims")
        return found

    def join(self) -> None:
        """Register a node for each claim that has a machine and no node."""
        for claim in self.claims():
            provider = claim.get("status", {}).get("providerID", "")
            if provider and "nodeName" not in claim["status"]:
                self._cluster.apply(_node(provider))
                name = provider.rpartition("/")[2]
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
                status = json.dumps({"status": {**_amounts(), "conditions": [ready]}})
                self._cluster.kubectl(
                    *("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
                )


def _amounts() -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "7Gi", "pods": "29", "ephemeral-storage": "18Gi"}
    return {"capacity": amounts, "allocatable": amounts}


def _node(provider: str) -> dict[str, Any]:
    name = provider.rpartition("/")[2]
    unregistered = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": provider, "taints": [unregistered]},
    }


def test_with_the_charts_environment_and_account_it_starts_and_is_ready(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    wait_for("both replicas are ready", lambda: all(one.is_ready() for one in pods), seconds=90)

    lease = control_plane.read("lease", "karpenter-leader-election", "-n", NAMESPACE)
    assert "_dovetail-" in lease["spec"]["holderIdentity"]
    assert [one.get("/healthz") for one in pods] == [(200, "ok\n")] * 2


def test_a_node_is_bought_filled_drained_and_given_back(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    kubelet = Kubelet(control_plane)

    def step() -> list[dict[str, Any]]:
        kubelet.join()
        return kubelet.claims()

    def placed() -> list[str]:
        found = control_plane.read("pods", "-l", "app=web")
        return [one["spec"].get("nodeName", "") for one in found]

    control_plane.apply(*_manifests())
    wait_for("the pod has a node", lambda: bool(step()) and all(placed()), seconds=120)
    (first,) = placed()
    # Drained: the pod is evicted, its Deployment makes another, for which another node is bought.
    control_plane.kubectl("delete", "node", first, "--wait=false")
    wait_for(
        "the pod has another node",
        lambda: len(step()) == 1 and all(one and one != first for one in placed()),
        seconds=120,
    )
    control_plane.kubectl("scale", "deployment", "web", "--replicas=0")
    wait_for("every node is given back", lambda: not step(), seconds=120)

    assert control_plane.read("nodes") == []
    told = {one["reason"] for one in control_plane.read("events", "-A")}
    assert {"Nominated", "Launched", "Registered", "Initialized", "Evicted"} <= told


def test_nothing_was_forbidden_and_nothing_secret_was_told(pods: list[Pod]) -> None:
    told = [json.dumps(line) for one in pods for line in one.lines]
    numbers = "".join(one.get("/metrics")[1] for one in pods)

    assert told
    assert [line for line in told if _NO_RIGHT in line.lower()] == []
    assert not any("very-secret" in text for text in (*told, numbers))


def test_the_leader_counted_what_it_did_and_the_other_nothing(pods: list[Pod]) -> None:
    def count(pod: Pod, name: str) -> float:
        lines = pod.get("/metrics")[1].splitlines()
        return sum(float(one.rpartition(" ")[2]) for one in lines if one.startswith(f"{name}{{"))

    bought = sorted(count(one, "karpenter_nodeclaims_created_total") for one in pods)
    drained = sorted(count(one, "karpenter_nodes_drained_total") for one in pods)

    assert bought == [0, 2]
    assert drained == [0, 2]


def test_sigterm_ends_both_soon_and_leaves_the_lease_free(
    control_plane: ControlPlane, pods: list[Pod]
) -> None:
    codes = [one.end() for one in pods]

    assert codes == [0, 0]
    lease = control_plane.read("lease", "karpenter-leader-election", "-n", NAMESPACE)
    assert lease["spec"]["holderIdentity"] == ""
