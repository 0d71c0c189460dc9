"""One example on its way from an empty account to a cluster and back."""

from collections.abc import Callable
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

    def __init__(self, account: EksAccount, name: str) -> None:
        self.account, self.name = account, name
        self.path = account.folder / "cluster.yaml"
        self.path.write_text(account.written(name))
        if name == "existing-cluster":
            _make_workers(account)
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

    def _inside(self) -> dict[str, list[str]]:
        return {
            kind: sorted(
                f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
                for one in self.account.plane.read(kind, "-A")
            )
            for kind in _KINDS
        }


def _make_workers(account: EksAccount) -> None:
    """Have the nodes that a cluster has which is there already."""
    account.client("eks").create_nodegroup(
        clusterName="platform-one",
        nodegroupName="workers",
        scalingConfig={"minSize": 2, "maxSize": 2, "desiredSize": 2},
        subnets=["subnet-1"],
        nodeRole="arn:aws:iam::123456789012:role/platform-one-worker",
    )
    wait_for("its nodes have joined", lambda: len(account.plane.read("nodes")) == 2)
