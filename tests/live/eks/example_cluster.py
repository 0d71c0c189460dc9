"""An example's cluster: created from an empty account, changed and destroyed."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.live.cluster import wait_for
from tests.live.eks.account import CommandResult, EksAccount

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


class ExampleCluster:
    """An example's file and its cluster; remembers what existed before."""

    def __init__(self, account: EksAccount, name: str, *, nodes: int = 2) -> None:
        """``nodes`` is the node count of the existing cluster, if the example needs one."""
        self.account, self.name = account, name
        self.path = account.file
        self.path.write_text(account.example_text(name))
        if name == "existing-cluster":
            self._create_workers(nodes)
        self._inventory = account.inventory(self.file["region"])
        self._objects = self._object_names()

    @property
    def file(self) -> Any:
        return yaml.safe_load(self.path.read_text())

    def edit(self, change: Callable[[Any], None]) -> None:
        config = self.file
        change(config)
        self.path.write_text(yaml.safe_dump(config, sort_keys=False))

    def run(self, command: str, *arguments: str) -> CommandResult:
        """Run ``dovetail cluster`` with the file."""
        return self.account.run("cluster", command, "-f", str(self.path), *arguments)

    @contextmanager
    def running(self, command: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start ``dovetail cluster`` with the file, in its own process group."""
        with self.account.start("cluster", command, "-f", str(self.path), *arguments) as process:
            try:
                yield process
            finally:
                process.kill()

    def is_installing(self, release: str) -> bool:
        return self.stored_releases().get(release) == "pending-install"

    def stored_releases(self) -> dict[str, str]:
        """Return the status of each release, from helm's Secrets."""
        secrets = self.account.control_plane.read("secrets", "-A", "-l", "owner=helm")
        labels = [secret["metadata"]["labels"] for secret in secrets]
        by_version = sorted(labels, key=lambda release: int(release["version"]))
        return {release["name"]: release["status"] for release in by_version}

    def releases(self) -> dict[str, str]:
        """Return the status of each release, by ``helm list`` with the user's kubeconfig."""
        result = self.account.run_as_user("helm", "list", "-A", "-o", "yaml")
        assert result.code == 0, result
        return {release["name"]: release["status"] for release in yaml.safe_load(result.out)}

    def pools(self) -> set[str]:
        """Return the names of the NodePools, by kubectl with the user's kubeconfig."""
        result = self.account.run_as_user("kubectl", "get", "nodepools", "-o", "name")
        assert result.code == 0, result
        return {name.rpartition("/")[2] for name in result.out.split()}

    def assert_crds_are_established(self) -> None:
        for definition in self.account.control_plane.read("customresourcedefinitions"):
            conditions = {
                condition["type"]: condition["status"] for condition in definition["status"]["conditions"]
            }
            assert conditions["Established"] == "True", definition["metadata"]["name"]

    def assert_nothing_is_left(self) -> None:
        """Assert that AWS and Kubernetes have the same resources as before."""
        assert self.account.inventory(self.file["region"]) == self._inventory

        # The data plane and the garbage collector delete asynchronously.
        try:
            wait_for("the same objects as before", lambda: not self._changed_objects(), seconds=120)
        except AssertionError as error:
            error.add_note(f"created or deleted: {self._changed_objects()}")
            raise

    def scale_workers(self, nodes: int) -> None:
        """Scale the node group of the existing cluster and wait for its nodes."""
        group = self.account.eks.parts[self.file["name"]]["node-groups"]["workers"]
        group["scalingConfig"]["desiredSize"] = nodes
        self._wait_for_workers(nodes)
        self._objects["nodes"] = self._object_names()["nodes"]

    def _create_workers(self, nodes: int) -> None:
        self.account.client("eks").create_nodegroup(
            clusterName=self.file["name"],
            nodegroupName="workers",
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": nodes},
            subnets=["subnet-1"],
            nodeRole="arn:aws:iam::123456789012:role/platform-one-worker",
        )
        self._wait_for_workers(nodes)

    def _wait_for_workers(self, nodes: int) -> None:
        read = self.account.control_plane.read
        wait_for("the cluster has its nodes", lambda: len(read("nodes")) == nodes)

    def _changed_objects(self) -> dict[str, list[str]]:
        """Return the objects created or deleted since the start, by kind."""
        names = self._object_names()
        changed = {kind: sorted({*names[kind]} ^ {*before}) for kind, before in self._objects.items()}
        return {kind: objects for kind, objects in changed.items() if objects}

    def _object_names(self) -> dict[str, list[str]]:
        return {
            kind: sorted(
                f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
                for obj in self.account.control_plane.read(kind, "-A")
            )
            for kind in _KINDS
        }


def children_of(pid: int) -> list[int]:
    """Return the process ids of a process's children."""
    command = ["ps", "-o", "pid=", "--ppid", str(pid)]
    result = subprocess.run(command, capture_output=True, check=False)
    return [int(child) for child in result.stdout.split()]
