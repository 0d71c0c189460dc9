"""The controller's pod as a local process, with what it needs of AWS and the kubelet."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError

import boto3

from tests.live.control_plane import ControlPlane
from tests.observability.test_health import free_ports
from tests.support.aws.nodeclass_account import REGION, Account
from tests.support.helm.charts import NAMESPACE, REQUIRED_VALUES, merged, only, rendered
from tests.support.moto.server import MotoAws

_LABELS = {"app": "web"}
SECRET = "very-secret"  # noqa: S105 - no request may reach AWS, and no log may contain it


class Pod:
    """The controller's container as a local process."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run a program with the container's arguments and variables, and these variables."""
        self.ports = free_ports()
        metrics, probes = self.ports
        values = {
            "settings": {
                "region": REGION,
                "clusterEndpoint": "https://demo.example.com",
                "batchIdleDuration": "200ms",
            },
            "controller": {"metrics": {"port": metrics}, "healthProbe": {"port": probes}},
        }
        deployment = only(rendered(**merged(REQUIRED_VALUES, values)), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        variables = {env["name"]: env["value"] for env in container["env"] if "value" in env}
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [*program, *container["args"]],
            env={**variables, "SYSTEM_NAMESPACE": NAMESPACE, **environment},
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


def aws_environment(moto: MotoAws) -> dict[str, str]:
    """Return the variables of a process that uses moto."""
    return {
        "AWS_ENDPOINT_URL": moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def create_account(moto: MotoAws) -> None:
    """Create network, role and image for an EC2NodeClass."""
    session = boto3.Session("test", "test", region_name=REGION)
    account = Account(moto)
    account.network(session.client("ec2", endpoint_url=moto.url))
    account.role(session.client("iam", endpoint_url=moto.url))
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")


def workload() -> list[dict[str, Any]]:
    """Return a node class, a NodePool, and a Deployment whose pod needs a node."""
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
