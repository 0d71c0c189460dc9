"""One example on its way from an empty account to a cluster and back."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.live.cluster import wait_for
from tests.live.eks.account import EksAccount, Said

_KINDS = (
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "deployments",
    "daemonsets",
    "services",
    "secrets",
    "configmaps",
    "serviceaccounts",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "poddisruptionbudgets",
    "flowschemas",
    "horizontalpodautoscalers",
)


class Story:
    """An example's file, which may be edited, and what was there before it."""

    def __init__(self, account: EksAccount, name: str, *, nodes: int = 2) -> None:
        """``nodes``: of the cluster that is there before, if the example is about one."""
        self.account, self.name = account, name
        self.path = account.file
        self.path.write_text(account.written(name))
        if name == "existing-cluster":
            self._make_workers(nodes)
        self._aws = account.inventory(self.file["region"])
        self._objects = self._inside()

    @property
    def file(self) -> Any:
        return yaml.safe_load(self.path.read_text())

    def edit(self, change: Callable[[Any], None]) -> None:
        whole = self.file
        change(whole)
        self.path.write_text(yaml.safe_dump(whole, sort_keys=False))

    def run(self, command: str, *words: str) -> Said:
        """Run ``dovetail cluster`` with the file."""
        return self.account.run("cluster", command, "-f", str(self.path), *words)

    @contextmanager
    def begun(self, command: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start ``dovetail cluster`` with the file; a group of its own, as in a terminal."""
        with self.account.begin("cluster", command, "-f", str(self.path), *words) as process:
            try:
                yield process
            finally:
                process.kill()

    def is_under_way(self, release: str) -> bool:
        return self.releases_seen().get(release) == "pending-install"

    def releases_seen(self) -> dict[str, str]:
        """Return releases and their states, as the API server's own administrator sees them."""
        found = self.account.plane.read("secrets", "-A", "-l", "owner=helm")
        labels = [one["metadata"]["labels"] for one in found]
        by_age = sorted(labels, key=lambda one: int(one["version"]))
        return {one["name"]: one["status"] for one in by_age}

    def releases(self) -> dict[str, str]:
        """Return releases and their states, as helm itself tells whoever has the kubeconfig."""
        told = self.account.as_user("helm", "list", "-A", "-o", "yaml")
        assert told.code == 0, told
        return {one["name"]: one["status"] for one in yaml.safe_load(told.out)}

    def pools(self) -> set[str]:
        """Return the NodePools, as kubectl tells whoever has the kubeconfig."""
        told = self.account.as_user("kubectl", "get", "nodepools", "-o", "name")
        assert told.code == 0, told
        return {one.rpartition("/")[2] for one in told.out.split()}

    def assert_kinds_are_established(self) -> None:
        for one in self.account.plane.read("customresourcedefinitions"):
            conditions = {it["type"]: it["status"] for it in one["status"]["conditions"]}
            assert conditions["Established"] == "True", one["metadata"]["name"]

    def assert_nothing_is_left(self) -> None:
        """See that AWS and Kubernetes hold what they held before, and nothing else."""
        assert self.account.inventory(self.file["region"]) == self._aws

        # EKS's own part takes a moment: nodes leave, the garbage collector comes around.
        wait_for("the same objects as before", lambda: self._inside() == self._objects, seconds=30)

    def scale_workers(self, nodes: int) -> None:
        """Have so many nodes in the cluster that is there before us, and wait for them."""
        group = self.account.eks.parts[self.file["name"]]["node-groups"]["workers"]
        group["scalingConfig"]["desiredSize"] = nodes
        self._wait_for_workers(nodes)
        self._objects["nodes"] = self._inside()["nodes"]

    def _make_workers(self, nodes: int) -> None:
        self.account.client("eks").create_nodegroup(
            clusterName=self.file["name"],
            nodegroupName="workers",
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": nodes},
            subnets=["subnet-1"],
            nodeRole="arn:aws:iam::123456789012:role/platform-one-worker",
        )
        self._wait_for_workers(nodes)

    def _wait_for_workers(self, nodes: int) -> None:
        read = self.account.plane.read
        wait_for("the cluster has its nodes", lambda: len(read("nodes")) == nodes)

    def _inside(self) -> dict[str, list[str]]:
        return {
            kind: sorted(
                f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
                for one in self.account.plane.read(kind, "-A")
            )
            for kind in _KINDS
        }


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and not yet seen end."""
    words = ["ps", "-o", "pid=", "--ppid", str(pid)]
    told = subprocess.run(words, capture_output=True, check=False)
    return [int(one) for one in told.stdout.split()]
