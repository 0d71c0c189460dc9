"""``dovetail top`` on clusters that it can read in part, and on those without Dovetail."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.cli.clusters import a_live_node, metadata
from tests.dashboard.sources.list_server import LISTED, list_server

Object = dict[str, Any]


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["top", *arguments], prog_name="dovetail", env=environment)


def read(
    folder: Path, objects: dict[str, list[Object]], *, forbidden: Collection[str] = (), crds: bool = True
) -> dict[str, Any]:
    """Return the document of ``top -o json``."""
    with list_server(folder, objects, forbidden=forbidden, crds=crds) as server:
        result = run("--kubeconfig", str(server.kubeconfig), "-o", "json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def nodes(*, managed: bool) -> list[Object]:
    return [a_live_node(number, managed=managed) for number in range(3)]


def a_nodepool() -> Object:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata("general"),
        "spec": {"template": template},
    }


def a_nodeclaim(number: int) -> Object:
    node = a_live_node(number, managed=True)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata(f"general-{number}", labels=node["metadata"]["labels"]),
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": node["spec"]["providerID"], "nodeName": node["metadata"]["name"]},
    }


def a_controller_pod(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, "kube-system", labels={"app.kubernetes.io/name": name}),
        "spec": {"nodeName": "elsewhere", "containers": [{"name": "controller", "image": "c"}]},
        "status": {"phase": "Running"},
    }


def test_plain_node_groups_are_shown_with_prices_and_one_notice_names_the_missing_kinds(
    tmp_path: Path,
) -> None:
    document = read(tmp_path, {"nodes": nodes(managed=False)}, crds=False)

    assert [node["pricePerHour"] for node in document["nodes"].values()] == [0.192] * 3
    (notice,) = document["notices"].values()
    assert notice["code"] == "not-served"
    assert "nodeclaims.karpenter.sh/v1" in notice["message"]
    assert "nodepools.karpenter.sh/v1" in notice["message"]
    assert "without keep reasons and savings" in notice["message"]


def test_a_cluster_without_nodepools_is_shown_and_the_notice_says_what_is_missing(tmp_path: Path) -> None:
    document = read(tmp_path, {"nodes": nodes(managed=False)})

    assert len(document["nodes"]) == 3
    assert list(document["notices"]) == ["no-nodepools"]


def test_karpenter_is_named_and_keep_reasons_are_those_of_dovetail(tmp_path: Path) -> None:
    objects = {
        "nodes": nodes(managed=True),
        "nodepools": [a_nodepool()],
        "nodeclaims": [a_nodeclaim(number) for number in range(3)],
        "pods": [a_controller_pod("karpenter")],
    }

    document = read(tmp_path, objects)

    assert document["cluster"]["autoscaler"] == "karpenter"
    assert list(document["notices"]) == ["karpenter"]
    assert all(node["keep"]["code"] for node in document["nodes"].values())


@pytest.mark.parametrize(
    ("plural", "effect"),
    [
        ("pods", "nodes are shown as if they were empty, and keep reasons are wrong"),
        ("nodepools", "nodes are shown without keep reasons and savings"),
        ("nodeclaims", "nodes in flight and decisions are not shown"),
        ("events", "interruptions and refused disruptions are not shown"),
        ("configmaps", "the ledger dovetail-savings is not shown"),
        ("limitranges", "keep reasons and plans do not consider them"),
    ],
)
def test_a_kind_that_may_not_be_listed_is_named_with_the_effect_and_the_remedy(
    tmp_path: Path, plural: str, effect: str
) -> None:
    objects = {"nodes": nodes(managed=True), "nodepools": [a_nodepool()]}
    objects["nodeclaims"] = [a_nodeclaim(number) for number in range(3)]

    document = read(tmp_path, objects, forbidden=[plural])

    assert len(document["nodes"]) == 3
    (notice,) = document["notices"].values()
    assert notice["message"].startswith(f"no rights to list {plural}")
    assert notice["message"].endswith(effect)
    assert f"--resource={plural}" in notice["remedy"]


def test_a_user_without_any_rights_sees_what_is_missing_and_no_wrong_advice(tmp_path: Path) -> None:
    with list_server(
        tmp_path, {}, forbidden=(*LISTED, "nodepools", "nodeclaims", "ec2nodeclasses")
    ) as server:
        result = run("--kubeconfig", str(server.kubeconfig), "--once")

    assert result.exit_code == 0
    assert "no rights to list nodes: no nodes and prices are shown" in result.stdout
    assert "no rights to list csinodes.storage.k8s.io, daemonsets.apps, limitranges" in result.stdout
    assert "has no nodes" not in result.stdout
    assert "has no NodePools" not in result.stdout


@pytest.mark.parametrize("command", ["top", "dashboard"])
def test_without_any_kubeconfig_the_error_says_where_it_was_looked_for(command: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "KUBECONFIG": ""}

    result = CliRunner().invoke(cli, [command], prog_name="dovetail", env=environment)

    assert result.exit_code == 1
    assert result.stderr.startswith("error: --kubeconfig: no kubeconfig found")
    assert str(tmp_path / ".kube" / "config") in result.stderr
