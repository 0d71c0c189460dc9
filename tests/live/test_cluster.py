"""``dovetail cluster`` with real helm and API server: create, change, destroy.

AWS is moto; ``tests/live/eks`` adds what moto lacks of EKS. A webhook authenticates AWS
tokens, node groups and Fargate profiles have nodes without instances, and third-party
charts come from a local registry.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.eks.account import EksAccount, run_eks_account
from tests.live.eks.example_cluster import ExampleCluster, children_of
from tests.live.eks.launched_instances import publish_images

IMAGE = "registry.example.com/dovetail:0.1.0"
Edit = Callable[[Any], None]


def _raise_cpu_limit(file: Any) -> None:
    file["nodePools"][0]["limits"]["cpu"] = 2000


def _set_metrics_server_replicas(file: Any) -> None:
    file["addons"]["metrics-server"] = {"values": {"replicas": 2}}


def _rename_user(file: Any) -> None:
    file["access"]["users"][0]["username"] = "bob"


def _set_one_replica(file: Any) -> None:
    file["controller"]["replicas"] = 1


def _raise_node_group_maximum(file: Any) -> None:
    file["home"]["max"] = 5


def _assert_unknown_user_is_rejected(account: EksAccount) -> None:
    keys = account.user("unknown")

    nodes = account.run_as_user("kubectl", "get", "nodes", keys=keys)
    planned = account.run("cluster", "plan", "-f", str(account.file), keys=keys)

    assert nodes.code == 1
    assert "must be logged in" in nodes.err
    assert planned.code == 1
    assert "rejects these AWS credentials" in planned.err


def _assert_user_has_new_name(account: EksAccount) -> None:
    keys = account.user("alice")

    result = account.run_as_user("kubectl", "auth", "whoami", "-o", "json", keys=keys)

    assert result.code == 0, result
    user = json.loads(result.out)["status"]["userInfo"]
    assert (user["username"], "system:masters" in user["groups"]) == ("bob", True)


def _assert_creator_is_admin(account: EksAccount) -> None:
    result = account.run_as_user("kubectl", "auth", "can-i", "delete", "nodes")

    assert result.out.strip() == "yes"


ACCESS_CHECKS: dict[str, Callable[[EksAccount], None]] = {
    "tainted-node-group": _assert_unknown_user_is_rejected,
    "fargate": _assert_creator_is_admin,
    "managed-node-group": _assert_user_has_new_name,
}
"""Check of user access through the written kubeconfig, by example."""
EDITS: dict[str, tuple[Edit, str]] = {
    "tainted-node-group": (_raise_cpu_limit, "kubernetes-object/NodePool/default"),
    "fargate": (_set_metrics_server_replicas, "helm-release/kube-system/metrics-server"),
    "managed-node-group": (_rename_user, "kubernetes-object/ConfigMap/kube-system/aws-auth"),
    "existing-cluster": (_set_one_replica, "helm-release/karpenter/karpenter"),
    "existing-vpc": (_raise_node_group_maximum, "eks-node-group/node"),
}
"""Change of one field and the resource that it updates, by example."""
RELEASES = {
    "tainted-node-group": {"dovetail", "dovetail-crd"},
    "fargate": {"dovetail", "dovetail-crd", "metrics-server"},
    "managed-node-group": {
        "dovetail",
        "dovetail-crd",
        "metrics-server",
        "kube-state-metrics",
        "keda",
        "vertical-pod-autoscaler",
        "kube-ops-view",
        "node-termination-handler",
    },
    "existing-cluster": {"karpenter", "karpenter-crd"},
    "existing-vpc": {"dovetail", "dovetail-crd", "metrics-server"},
}


_ROLE, _STS = "eks.amazonaws.com/role-arn", "eks.amazonaws.com/sts-regional-endpoints"
_ROLES = "arn:aws:iam::123456789012:role"
ACCOUNTS = {
    "tainted-node-group": ("kube-system", "dovetail", {}),
    "fargate": ("karpenter", "dovetail", {_ROLE: f"{_ROLES}/groupless-us-east-1-dovetail"}),
    "managed-node-group": ("reporting", "reports", {_ROLE: f"{_ROLES}/backend-us-east-1-reporting-reports"}),
    "existing-cluster": (
        "karpenter",
        "karpenter",
        {_ROLE: f"{_ROLES}/platform/platform-one-us-east-1-karpenter"},
    ),
    "existing-vpc": ("kube-system", "dovetail", {_STS: "true"}),
}
"""Namespace, name and annotations of a service account, by example."""
_BY_DESIGN = {"P1", "P2", "P9"}
"""The examples use the newest image, default budgets and no limits, like their sources."""
_NO_GATEWAY = {"N7", "N8"}
"""The existing networks have no gateway in moto."""
EXPECTED_FINDINGS = {
    "tainted-node-group": _BY_DESIGN,
    "fargate": _BY_DESIGN,
    "managed-node-group": _BY_DESIGN | _NO_GATEWAY | {"K8"},
    # The existing cluster has no aws-auth, and its role no policies.
    "existing-cluster": _BY_DESIGN | _NO_GATEWAY | {"I1", "I3"},
    "existing-vpc": _BY_DESIGN | _NO_GATEWAY,
}
"""Codes of the findings that ``dovetail doctor`` may report, by example."""


@pytest.fixture(scope="module")
def eks(controlplane_binary_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EksAccount]:
    with run_eks_account(controlplane_binary_path, tmp_path_factory.mktemp("eks")) as account:
        yield account


@pytest.fixture
def account(eks: EksAccount) -> EksAccount:
    eks.reset()
    return eks


@pytest.mark.parametrize("name", ["tainted-node-group", "fargate", "managed-node-group"])
def test_an_example_is_created_changed_and_destroyed(account: EksAccount, name: str) -> None:
    example = ExampleCluster(account, name)

    _create_and_change(example)
    ACCESS_CHECKS[name](account)
    destroyed = example.run("destroy", "--yes")

    assert destroyed.code == 0, destroyed
    assert "nothing is left" in destroyed.out
    example.assert_nothing_is_left()


def test_destroy_on_an_existing_cluster_keeps_the_cluster(account: EksAccount) -> None:
    example = ExampleCluster(account, "existing-cluster")

    _create_and_change(example)
    outputs = example.run("outputs", "-o", "json")
    destroyed = example.run("destroy", "--yes")

    assert outputs.code == 0, outputs
    values = json.loads(outputs.out)
    assert len(values["controllerPolicies"]) == 6
    # As the real helm rendered the chart.
    assert {"Deployment", "ServiceAccount"} <= {document["kind"] for document in values["controllerManifest"]}
    assert destroyed.code == 0, destroyed
    assert "platform-one" in account.eks.clusters
    example.assert_nothing_is_left()


def test_the_controller_launches_nodes_for_add_ons_and_destroy_terminates_them(account: EksAccount) -> None:
    publish_images("us-east-1", kubernetes="1.36")
    example = ExampleCluster(account, "existing-vpc")

    with account.containers.running(IMAGE):
        _create_and_change(example)
        wait_for("nginx runs on both architectures", lambda: _are_ready(account, "nginx"))
        instances = account.instances("us-east-1")
        destroyed = example.run("destroy", "--yes")

    # metrics-server and nginx tolerate no taint: helm waited for nodes that had to be launched.
    assert instances
    assert destroyed.code == 0, destroyed
    example.assert_nothing_is_left()


def test_after_ctrl_c_helm_finishes_and_the_next_apply_continues(account: EksAccount) -> None:
    example = ExampleCluster(account, "existing-cluster", nodes=0)

    with example.running("apply", "--yes") as process:
        wait_for("helm waits for pods", lambda: example.is_installing("karpenter"))
        os.killpg(process.pid, signal.SIGINT)
        example.scale_workers(2)
        _, errors = process.communicate(timeout=120)
    between = example.stored_releases()
    again = example.run("apply", "--yes")

    assert process.returncode == 130, errors
    assert "continue with: dovetail cluster apply" in errors
    assert between["karpenter"] == "deployed"
    assert again.code == 0, again
    assert example.run("plan").code == 0
    assert example.run("destroy", "--yes").code == 0
    example.assert_nothing_is_left()


def test_after_sigkill_while_helm_runs_the_next_apply_continues(account: EksAccount) -> None:
    example = ExampleCluster(account, "existing-cluster", nodes=0)

    with example.running("apply", "--yes") as process:
        wait_for("helm waits for pods", lambda: example.is_installing("karpenter"))
        for pid in (process.pid, *children_of(process.pid)):
            os.kill(pid, signal.SIGKILL)
    between = example.stored_releases()
    example.scale_workers(2)
    again = example.run("apply", "--yes")

    assert between["karpenter"] == "pending-install"
    assert again.code == 0, again
    assert example.stored_releases() == dict.fromkeys(RELEASES[example.name], "deployed")
    assert example.run("plan").code == 0
    assert example.run("destroy", "--yes").code == 0
    example.assert_nothing_is_left()


def _create_and_change(example: ExampleCluster) -> None:
    """Create a cluster from its file, then change one field."""
    account, name = example.account, example.name
    planned = example.run("plan")
    applied = example.run("apply", "--yes")
    again = example.run("plan")
    status = example.run("status")

    assert planned.code == 2, planned
    assert applied.code == 0, applied
    assert again.code == 0, again
    assert status.code == 0, status
    assert example.releases() == dict.fromkeys(RELEASES[name], "deployed")
    example.assert_crds_are_established()
    assert example.pools() == {pool["name"] for pool in example.file["nodePools"]}
    namespace, service_account, annotations = ACCOUNTS[name]
    metadata = account.control_plane.read("serviceaccount", service_account, "-n", namespace)["metadata"]
    assert annotations.items() <= (metadata.get("annotations") or {}).items()
    # Includes CoreDNS: on Fargate, or on the tainted node group of the controller.
    assert _are_ready(account, "")
    diagnosis = account.run("doctor", "-f", str(example.path), "-o", "json")
    findings = json.loads(diagnosis.out)["findings"]
    codes = {finding["code"] for finding in findings}
    is_failing = any(finding["severity"] != "advice" for finding in findings)
    assert diagnosis.code == (2 if is_failing else 0), diagnosis
    assert codes <= EXPECTED_FINDINGS[name], diagnosis

    edit, address = EDITS[name]
    example.edit(edit)
    different = example.run("plan", "-o", "json")
    example.run("apply", "--yes")
    settled = example.run("plan")

    assert different.code == 2
    steps = json.loads(different.out)["steps"]
    assert [f"{step['verb']} {step['kind']}/{step['name']}" for step in steps] == [f"update {address}"]
    assert settled.code == 0, settled


def _are_ready(account: EksAccount, prefix: str) -> bool:
    """Return True if all system Deployments, or those with a prefix, are ready."""
    namespaces = ("default",) if prefix else ("kube-system", "karpenter", "keda")
    deployments = [
        deployment
        for deployment in account.control_plane.read("deployments", "-A")
        if deployment["metadata"]["name"].startswith(prefix)
        and deployment["metadata"]["namespace"] in namespaces
    ]
    return bool(deployments) and all(
        deployment["status"].get("readyReplicas") == deployment["spec"]["replicas"]
        for deployment in deployments
    )
