"""``dovetail cluster`` from an empty account to a cluster and back: real helm, real Kubernetes.

AWS is moto. What it lacks of EKS is beside these tests: the API server is a real one that
asks our authenticator who a token is of, node groups and Fargate are nodes without
machines, and the hosts that charts come from answer on loopback, with charts of ours.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.eks.account import EksAccount, an_eks_account
from tests.live.eks.bought import publish_images
from tests.live.eks.story import Story

IMAGE = "registry.example.com/dovetail:0.1.0"
Edit = Callable[[Any], None]


def _more_cpu(file: Any) -> None:
    file["nodePools"][0]["limits"]["cpu"] = 2000


def _two_metrics_servers(file: Any) -> None:
    file["addons"]["metrics-server"] = {"values": {"replicas": 2}}


def _bob_instead_of_alice(file: Any) -> None:
    file["access"]["users"][0]["username"] = "bob"


def _one_replica(file: Any) -> None:
    file["controller"]["replicas"] = 1


def _larger_group(file: Any) -> None:
    file["home"]["max"] = 5


EDITS: dict[str, tuple[Edit, str]] = {
    "tainted-node-group": (_more_cpu, "kubernetes-object/NodePool/default"),
    "fargate": (_two_metrics_servers, "helm-release/kube-system/metrics-server"),
    "managed-node-group": (
        _bob_instead_of_alice,
        "kubernetes-object/ConfigMap/kube-system/aws-auth",
    ),
    "existing-cluster": (_one_replica, "helm-release/karpenter/karpenter"),
    "existing-vpc": (_larger_group, "eks-node-group/node"),
}
"""For each example: one field that is changed, and what has to be written for it."""
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


@pytest.fixture(scope="module")
def eks(
    controlplane_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EksAccount]:
    with an_eks_account(controlplane_program, tmp_path_factory.mktemp("eks")) as account:
        yield account


@pytest.fixture
def account(eks: EksAccount) -> EksAccount:
    eks.forget()
    return eks


@pytest.mark.parametrize("name", ["tainted-node-group", "fargate", "managed-node-group"])
def test_an_example_is_made_changed_and_taken_away_by_the_real_programs(
    account: EksAccount, name: str
) -> None:
    story = Story(account, name)

    _there_and_changed(story)
    gone = story.run("destroy", "--yes")

    assert gone.code == 0, gone
    assert "nothing is left" in gone.out
    story.assert_nothing_is_left()


def test_a_guest_is_made_changed_and_taken_away_and_the_house_stays(account: EksAccount) -> None:
    story = Story(account, "existing-cluster")

    _there_and_changed(story)
    gone = story.run("destroy", "--yes")

    assert gone.code == 0, gone
    assert "platform-one" in account.eks.clusters
    story.assert_nothing_is_left()


def test_the_controller_buys_nodes_for_what_is_installed_and_gives_them_back_in_the_end(
    account: EksAccount,
) -> None:
    publish_images("us-east-1", kubernetes="1.36")
    story = Story(account, "existing-vpc")

    with account.programs.running(IMAGE):
        _there_and_changed(story)
        wait_for("nginx runs on both kinds of machines", lambda: _ready(account, "nginx"))
        bought = account.machines("us-east-1")
        gone = story.run("destroy", "--yes")

    # metrics-server and nginx tolerate no taint: helm waited for nodes that had to be bought.
    assert bought
    assert gone.code == 0, gone
    story.assert_nothing_is_left()


def _there_and_changed(story: Story) -> None:
    """Go from nothing to a cluster that is as its file says, and change one field of that."""
    account, name = story.account, story.name
    planned = story.run("plan")
    applied = story.run("apply", "--yes")
    again = story.run("plan")
    status = story.run("status")

    assert planned.code == 2, planned
    assert applied.code == 0, applied
    assert again.code == 0, again
    assert status.code == 0, status
    assert story.releases() == dict.fromkeys(RELEASES[name], "deployed")
    story.assert_kinds_are_established()
    assert story.pools() == {one["name"] for one in story.file["nodePools"]}
    assert _ready(account, "")
    examined = account.run("doctor", "-f", str(story.path), "-o", "json")
    assert examined.code in (0, 2), examined
    assert "K" not in {one["code"][0] for one in json.loads(examined.out)["findings"]}, examined

    edit, address = EDITS[name]
    story.edit(edit)
    different = story.run("plan", "-o", "json")
    story.run("apply", "--yes")
    settled = story.run("plan")

    assert different.code == 2
    steps = json.loads(different.out)["steps"]
    assert [f"{one['verb']} {one['kind']}/{one['name']}" for one in steps] == [f"change {address}"]
    assert settled.code == 0, settled


def _ready(account: EksAccount, prefix: str) -> bool:
    """Tell whether all system's Deployments, or those called so, have the pods that they want."""
    found = account.plane.read("deployments", "-A")
    spaces = ("default",) if prefix else ("kube-system", "karpenter", "keda")
    looked_at = [
        one
        for one in found
        if one["metadata"]["name"].startswith(prefix) and one["metadata"]["namespace"] in spaces
    ]
    return bool(looked_at) and all(
        one["status"].get("readyReplicas") == one["spec"]["replicas"] for one in looked_at
    )
