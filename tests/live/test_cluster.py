"""``dovetail cluster`` from an empty account to a cluster and back: real helm, real Kubernetes.

AWS is moto. What it lacks of EKS is beside these tests: the API server is a real one that
asks our authenticator who a token is of, node groups and Fargate are nodes without
machines, and the hosts that charts come from answer on loopback, with charts of ours.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.eks.account import EksAccount, an_eks_account
from tests.live.eks.bought import publish_images
from tests.live.eks.story import Story, children_of

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


def _a_stranger_is_refused(account: EksAccount) -> None:
    keys = account.user("stranger")

    by_kubectl = account.as_user("kubectl", "get", "nodes", keys=keys)
    planned = account.run("cluster", "plan", "-f", str(account.file), keys=keys)

    assert by_kubectl.code == 1
    assert "must be logged in" in by_kubectl.err
    assert planned.code == 1
    assert "does not know these AWS credentials" in planned.err


def _alice_is_called_bob_now(account: EksAccount) -> None:
    keys = account.user("alice")

    told = account.as_user("kubectl", "auth", "whoami", "-o", "json", keys=keys)

    assert told.code == 0, told
    who = json.loads(told.out)["status"]["userInfo"]
    assert (who["username"], "system:masters" in who["groups"]) == ("bob", True)


def _the_creator_is_known(account: EksAccount) -> None:
    told = account.as_user("kubectl", "auth", "can-i", "delete", "nodes")

    assert told.out.strip() == "yes"


KNOWN: dict[str, Callable[[EksAccount], None]] = {
    "tainted-node-group": _a_stranger_is_refused,
    "fargate": _the_creator_is_known,
    "managed-node-group": _alice_is_called_bob_now,
}
"""For each of them: who may use the cluster, by the kubeconfig that was written."""
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


_ROLE, _STS = "eks.amazonaws.com/role-arn", "eks.amazonaws.com/sts-regional-endpoints"
_ROLES = "arn:aws:iam::123456789012:role"
ACCOUNTS = {
    "tainted-node-group": ("kube-system", "dovetail", {}),
    "fargate": ("karpenter", "dovetail", {_ROLE: f"{_ROLES}/groupless-dovetail"}),
    "managed-node-group": ("reporting", "reports", {_ROLE: f"{_ROLES}/backend-reporting-reports"}),
    "existing-cluster": (
        "karpenter",
        "karpenter",
        {_ROLE: f"{_ROLES}/platform/platform-one-karpenter"},
    ),
    "existing-vpc": ("kube-system", "dovetail", {_STS: "true"}),
}
"""For each example: a service account, and what it says of its role."""
_CHOICES = {"P1", "P2", "P9"}
"""What examples leave as their documents have it: the newest image, default budgets, no limits."""
_NO_WAY_OUT = {"N7", "N8"}
"""The networks that are there before have no gateway here."""
RIGHTLY_FOUND = {
    "tainted-node-group": _CHOICES,
    "fargate": _CHOICES,
    "managed-node-group": _CHOICES | _NO_WAY_OUT | {"K8"},
    # Nobody has made an aws-auth, an OIDC provider or a security group in that house.
    "existing-cluster": _CHOICES | _NO_WAY_OUT | {"I1", "I3", "N3"},
    "existing-vpc": _CHOICES | _NO_WAY_OUT,
}
"""What the doctor may find, by example; its first words are for what really is wrong."""


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
    KNOWN[name](account)
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


def test_ctrl_c_lets_helm_end_and_the_next_run_goes_on(account: EksAccount) -> None:
    story = Story(account, "existing-cluster", nodes=0)

    with story.begun("apply", "--yes") as process:
        wait_for("helm waits for pods", lambda: story.is_under_way("karpenter"))
        os.killpg(process.pid, signal.SIGINT)
        story.scale_workers(2)
        _, told = process.communicate(timeout=120)
    between = story.releases_seen()
    again = story.run("apply", "--yes")

    assert process.returncode == 130, told
    assert "go on with: dovetail cluster apply" in told
    assert between["karpenter"] == "deployed"
    assert again.code == 0, again
    assert story.run("plan").code == 0
    assert story.run("destroy", "--yes").code == 0
    story.assert_nothing_is_left()


def test_when_the_plug_is_pulled_while_helm_runs_the_next_run_goes_on(account: EksAccount) -> None:
    story = Story(account, "existing-cluster", nodes=0)

    with story.begun("apply", "--yes") as process:
        wait_for("helm waits for pods", lambda: story.is_under_way("karpenter"))
        for one in (process.pid, *children_of(process.pid)):
            os.kill(one, signal.SIGKILL)
    between = story.releases_seen()
    story.scale_workers(2)
    again = story.run("apply", "--yes")

    assert between["karpenter"] == "pending-install"
    assert again.code == 0, again
    assert story.releases_seen() == dict.fromkeys(RELEASES[story.name], "deployed")
    assert story.run("plan").code == 0
    assert story.run("destroy", "--yes").code == 0
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
    space, owner, notes = ACCOUNTS[name]
    found = account.plane.read("serviceaccount", owner, "-n", space)["metadata"]
    assert notes.items() <= (found.get("annotations") or {}).items()
    # CoreDNS among them: on Fargate, or beside the controller in spite of the taint.
    assert _ready(account, "")
    examined = account.run("doctor", "-f", str(story.path), "-o", "json")
    codes = {one["code"] for one in json.loads(examined.out)["findings"]}
    assert examined.code == (2 if codes else 0), examined
    assert codes <= RIGHTLY_FOUND[name], examined

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
