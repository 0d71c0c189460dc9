"""Processes of ``dovetail run`` and ``dovetail virtual`` on a live cluster."""

import asyncio
import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.host.clock import SystemClock
from dovetail.operator.virtual.client import AccountClient
from dovetail.simulator.ec2.billing import LaunchRecord
from tests.live.chaos.api import NODE_CLAIMS, NODES, Api, ApiFailure
from tests.live.cluster import Cluster, wait_for
from tests.live.crds import install_crds
from tests.live.process import Process

CLUSTER = "live"
_API_TIMEOUT = 60.0
"""Seconds."""
_TEMPORARY = (0, http.client.TOO_MANY_REQUESTS)
"""Status codes: the connection is older than the API server, or its storage is not initialized."""
NODE_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
    },
}


def a_pool(name: str = "default", *, consolidate_after: str = "2s", **spec: Any) -> dict[str, Any]:
    """Return a NodePool of amd64 on-demand nodes, deleted once empty for ``consolidate_after``."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    ]
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": consolidate_after,
        "budgets": [{"nodes": "100%"}],
    }
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption, **spec},
    }


def a_deployment(name: str, replicas: int, *, cpu: str = "1", **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class DovetailProcess(Process):
    """A ``dovetail`` command as a process, and its log."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        super().__init__(name, [sys.executable, "-m", "dovetail", *arguments], log)

    def log_lines(self) -> list[dict[str, Any]]:
        """Return its JSON log lines since the first start; skip incomplete lines."""
        lines: list[dict[str, Any]] = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                fields = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(fields, dict):
                lines.append(fields)
        return lines

    def lines_with(self, message: str) -> list[dict[str, Any]]:
        """Return the log lines with a message."""
        return [line for line in self.log_lines() if line["message"] == message]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class Installation:
    """A live cluster with a virtual EC2 account, and the replicas that manage its nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self.account = DovetailProcess(
            "virtual",
            ["virtual", "--kubeconfig", str(cluster.kubeconfig), "--boot", "1s"],
            folder / "virtual.log",
        )
        self.replicas: list[DovetailProcess] = []
        self._api = Api(cluster)

    @property
    def endpoint(self) -> str:
        endpoint: str = self.account.lines_with("serving a virtual account")[-1]["endpoint"]
        return endpoint

    def start(self) -> None:
        if not self._has_crds():
            install_crds(self.cluster)
        self.cluster.apply(NODE_CLASS, a_pool())
        self.account.start()
        wait_for("the virtual account is served", self._is_served)

    def stop(self) -> None:
        for process in (*self.replicas, self.account):
            process.kill()
        self._api.close()

    def start_replica(
        self, *options: str, kubeconfig: Path | None = None, own_account: bool = False
    ) -> DovetailProcess:
        """Start another replica; replicas compete for the lease."""
        name = f"replica-{len(self.replicas)}"
        arguments = ["run", "--cloud", "virtual"]
        if not own_account:
            arguments += ["--virtual-endpoint", self.endpoint]
        arguments += ["--cluster-name", CLUSTER, "--metrics-port", "0", "--health-probe-port", "0"]
        arguments += ["--kubeconfig", str(kubeconfig or self.cluster.kubeconfig), *options]
        replica = DovetailProcess(name, arguments, self._folder / f"{name}.log")
        self.replicas.append(replica)
        replica.start()
        return replica

    def scale(self, name: str, replicas: int) -> None:
        self.cluster.kubectl("scale", f"deployment/{name}", f"--replicas={replicas}")

    def ready_replicas(self, name: str) -> int:
        """Return ``readyReplicas`` of a Deployment."""
        deployment = self.get(f"/apis/apps/v1/namespaces/default/deployments/{name}")
        return int(deployment["status"].get("readyReplicas") or 0)

    def nodes(self) -> list[dict[str, Any]]:
        # Items of a list have no kind, unless they are custom resources.
        return [{"apiVersion": "v1", "kind": "Node", **node} for node in self.get(NODES)["items"]]

    def claims(self) -> list[dict[str, Any]]:
        claims: list[dict[str, Any]] = self.get(NODE_CLAIMS)["items"]
        return claims

    def get(self, path: str) -> Any:
        """Read from the API server.

        Tests poll, and a process of kubectl for each read would take the CPU.

        As kubectl does, try again while the API server starts.
        """
        clock = SystemClock()
        deadline = clock.seconds() + _API_TIMEOUT
        while True:
            try:
                return self._api.get(path)
            except ApiFailure as error:
                if error.status not in _TEMPORARY or clock.seconds() > deadline:
                    raise
            clock.sleep(0.2)

    def launches(self) -> list[LaunchRecord]:
        """Return all instances ever launched in the account."""

        async def read() -> list[LaunchRecord]:
            client = AccountClient(self.endpoint, cluster=CLUSTER)
            try:
                return list(await client.launches())
            finally:
                await client.close()

        return asyncio.run(read())

    def running_instances(self) -> list[LaunchRecord]:
        """Return the instances that are not shutting down or terminated."""
        return [launch for launch in self.launches() if launch.shutting_down is None]

    def clear(self) -> None:
        """Delete all NodePools, Deployments, pods, NodeClaims and nodes, and stop the replicas."""
        # NodePools first: otherwise pods that are pending, or drained from a deleted node, get new
        # NodeClaims, and a node that need not be consolidated soon stays. kube-controller-manager
        # deletes a NodeClaim that is created after its NodePool was deleted.
        self.cluster.kubectl("delete", "nodepools", "--all")
        self.cluster.kubectl("delete", "deployment", "--all", "-n", "default", "--cascade=foreground")
        self.cluster.kubectl("delete", "pods", "--all", "-n", "default")
        self.cluster.kubectl("delete", "nodeclaims,nodes", "--all", "--wait=false")
        wait_for("no NodeClaim or node is left", lambda: not (self.claims() or self.nodes()), seconds=120)
        for replica in self.replicas:
            replica.stop()  # A killed replica would hold the lease until it expires.

    def tails(self) -> str:
        return "\n".join(process.tail() for process in (*self.replicas, self.account))

    def _has_crds(self) -> bool:
        """Return True if an earlier installation of this test run has left the CRDs."""
        served = self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        return {f"{each.plural}.{each.group}" for each in DEFINITIONS} <= {
            definition["metadata"]["name"] for definition in served
        }

    def _is_served(self) -> bool:
        self.account.check()
        return bool(self.account.lines_with("serving a virtual account"))


@contextmanager
def run_installation(cluster: Cluster, folder: Path) -> Iterator[Installation]:
    """Run a virtual account on a cluster for the duration of the block."""
    installation = Installation(cluster, folder)
    try:
        installation.start()
        yield installation
    except AssertionError as error:
        error.add_note(installation.tails())
        raise
    finally:
        installation.stop()
