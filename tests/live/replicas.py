"""``dovetail run`` and its virtual cloud as processes of their own, on a live cluster."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.operator.virtual.client import Wire
from dovetail.simulator.ec2.billing import Purchase
from tests.live.cluster import Cluster, wait_for
from tests.live.crds import install_crds
from tests.live.process import Process

CLUSTER = "live"
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


def a_pool(name: str = "default", *, settle: str = "2s", **spec: Any) -> dict[str, Any]:
    """A NodePool of plain machines, given back when they have been empty for ``settle``."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {
            "key": "karpenter.k8s.aws/instance-category",
            "operator": "In",
            "values": ["c", "m", "r"],
        },
    ]
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": settle,
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


class Dovetail(Process):
    """A command of ours as a process, and what it has said."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        super().__init__(name, [sys.executable, "-m", "dovetail", *arguments], log)

    def said(self) -> list[dict[str, Any]]:
        """Return its lines, of all its lives; the last may be half written."""
        lines: list[dict[str, Any]] = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict):
                lines.append(found)
        return lines

    def fields(self, message: str) -> list[dict[str, Any]]:
        return [one for one in self.said() if one["message"] == message]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class Site:
    """A cluster whose nodes are virtual, and the replicas that buy them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self.account = Dovetail(
            "virtual",
            ["virtual", "--kubeconfig", str(cluster.kubeconfig), "--boot", "1s"],
            folder / "virtual.log",
        )
        self.replicas: list[Dovetail] = []

    @property
    def endpoint(self) -> str:
        found: str = self.account.fields("serving a virtual account")[-1]["endpoint"]
        return found

    def start(self) -> None:
        install_crds(self.cluster)
        self.cluster.apply(NODE_CLASS, a_pool())
        self.account.start()
        wait_for("the virtual account is served", self._is_served)

    def stop(self) -> None:
        for one in (*self.replicas, self.account):
            one.kill()

    def replica(
        self, *options: str, kubeconfig: Path | None = None, own_account: bool = False
    ) -> Dovetail:
        """Start one more replica; several compete for the lease."""
        name = f"replica-{len(self.replicas)}"
        arguments = ["run", "--cloud", "virtual"]
        if not own_account:
            arguments += ["--virtual-endpoint", self.endpoint]
        arguments += ["--cluster-name", CLUSTER, "--metrics-port", "0", "--health-probe-port", "0"]
        arguments += ["--kubeconfig", str(kubeconfig or self.cluster.kubeconfig), *options]
        made = Dovetail(name, arguments, self._folder / f"{name}.log")
        self.replicas.append(made)
        made.start()
        return made

    def scale(self, name: str, replicas: int) -> None:
        self.cluster.kubectl("scale", f"deployment/{name}", f"--replicas={replicas}")

    def ready(self, name: str) -> int:
        """Return how many pods of a Deployment are ready, as its controller counts them."""
        found = self.cluster.read("deployment", name, "-n", "default")
        return int(found["status"].get("readyReplicas") or 0)

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.read("nodes")
        return found

    def claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.read("nodeclaims")
        return found

    def purchases(self) -> list[Purchase]:
        """Return everything that was ever bought in the account."""

        async def ask() -> list[Purchase]:
            wire = Wire(self.endpoint, cluster=CLUSTER)
            try:
                return list(await wire.purchases())
            finally:
                await wire.close()

        return asyncio.run(ask())

    def held(self) -> list[Purchase]:
        """Return what is still paid for."""
        return [one for one in self.purchases() if one.shutting_down is None]

    def clear(self) -> None:
        """Have nobody want anything and nothing left, for whoever comes next."""
        self.cluster.kubectl("delete", "deployment", "--all", "-n", "default")
        self.cluster.kubectl("delete", "nodeclaims,nodes", "--all", "--wait=false")
        wait_for("nothing is left", lambda: not (self.claims() or self.nodes()), seconds=120)
        for one in self.replicas:
            one.stop()  # Whoever is killed keeps the lease for a while.

    def tails(self) -> str:
        return "\n".join(one.tail() for one in (*self.replicas, self.account))

    def _is_served(self) -> bool:
        self.account.check()
        return bool(self.account.fields("serving a virtual account"))


@contextmanager
def a_site(cluster: Cluster, folder: Path) -> Iterator[Site]:
    """Have virtual nodes in a cluster as long as the block lasts."""
    site = Site(cluster, folder)
    try:
        site.start()
        yield site
    except AssertionError as error:
        error.add_note(site.tails())
        raise
    finally:
        site.stop()
