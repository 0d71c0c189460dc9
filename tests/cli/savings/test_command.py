"""``dovetail savings`` and ``dovetail dump``: output, files and bad input."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.node_group_cluster import node_group_cluster
from dovetail.cli.main import cli

GUIDE = Path(__file__).parents[3] / "docs/guides/savings.md"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def write_dump(folder: Path, objects: list[dict[str, Any]], name: str = "cluster.json") -> str:
    file = folder / name
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    return str(file)


def test_the_guide_shows_real_output(tmp_path: Path) -> None:
    result = run("savings", "--cluster", write_dump(tmp_path, node_group_cluster(12, 160)))

    assert result.exit_code == 0, result.output
    assert result.stdout.strip() in GUIDE.read_text(encoding="utf-8")
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_json_and_markdown_have_the_same_sums(tmp_path: Path) -> None:
    dump = write_dump(tmp_path, node_group_cluster(6, 60))

    as_json = run("savings", "--cluster", dump, "-o", "json")
    as_markdown = run("savings", "--cluster", dump, "-o", "markdown")

    report = json.loads(as_json.stdout)
    assert sum(line["price"] for line in report["steps"]) == pytest.approx(report["today"])
    assert f"| today | 6 | {report['today']:,.3f} | 0% |" in as_markdown.stdout


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_a_cluster_of_another_cloud_shows_no_zeros_but_its_pods_on_ec2(tmp_path: Path, output: str) -> None:
    objects = node_group_cluster(3, 30)
    for node in (obj for obj in objects if obj["kind"] == "Node"):
        node["metadata"]["labels"] = {"cloud.google.com/gke-nodepool": "default-pool"}
        node["spec"]["providerID"] = f"gce://project/europe-west1-b/{node['metadata']['name']}"

    result = run("savings", "--cluster", write_dump(tmp_path, objects), "-o", output)

    assert result.exit_code == 0, result.output
    assert "All 3 nodes are of another cloud (GKE)" in result.stdout
    assert "The same pods on EC2" in result.stdout
    assert "0.000" not in result.stdout
    assert "lower bound" not in result.stdout


def test_write_pools_writes_files_and_never_overwrites(tmp_path: Path) -> None:
    dump, folder = write_dump(tmp_path, node_group_cluster(6, 60)), tmp_path / "pools"

    first = run("savings", "--cluster", dump, "--write-pools", str(folder), "--cluster-name", "prod")
    second = run("savings", "--cluster", dump, "--write-pools", str(folder))

    names = ["ec2nodeclass-al2023.yaml", "nodepool-batch.yaml", "nodepool-data.yaml", "nodepool-web.yaml"]
    assert first.exit_code == 0, first.output
    assert sorted(file.name for file in folder.iterdir()) == names
    # The hint is for those who have not used the option.
    assert "--write-pools" in run("savings", "--cluster", dump).stdout
    assert "--write-pools" not in first.stdout
    assert "KarpenterNodeRole-prod" in (folder / names[0]).read_text(encoding="utf-8")
    assert run("simulate", "-f", str(folder)).exit_code == 0
    assert second.exit_code == 1
    assert "already; choose another directory" in second.stderr


def test_write_pools_writes_no_nodepool_that_the_cluster_has(tmp_path: Path) -> None:
    objects = node_group_cluster(3, 30)
    for node in (obj for obj in objects if obj["kind"] == "Node"):
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = "default"

    result = run(
        "savings", "--cluster", write_dump(tmp_path, objects), "--write-pools", str(tmp_path / "pools")
    )

    assert result.exit_code == 0, result.output
    assert not (tmp_path / "pools").exists()
    assert "inferred from node groups" not in result.stdout
    assert "NodePool default is not in the input" in result.stdout
    assert "dovetail dump" in result.stdout


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_a_cluster_without_any_price_has_no_bill_of_0(tmp_path: Path, output: str) -> None:
    objects = node_group_cluster(3, 30)
    for node in (obj for obj in objects if obj["kind"] == "Node"):
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "m99.large"

    result = run("savings", "--cluster", write_dump(tmp_path, objects), "-o", output)

    assert result.exit_code == 0, result.output
    assert "No price of a node is known" in result.stdout
    assert "0.000" not in result.stdout
    assert "0%" not in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "make a dump with: dovetail dump"),
        ("{", "cluster.json"),
    ],
)
def test_an_empty_or_broken_dump_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(content, encoding="utf-8")

    result = run("savings", "--cluster", str(file))

    assert result.exit_code == 1
    assert message in result.stderr


def test_explain_prices_node_groups_and_names_them(tmp_path: Path) -> None:
    objects = node_group_cluster(3, 30)
    nodes = [obj for obj in objects if obj["kind"] == "Node"]
    nodes[0]["metadata"]["labels"]["karpenter.sh/nodepool"] = "default"
    nodes[1]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "m99.large"

    result = run("explain", "node", "--cluster", write_dump(tmp_path, objects))

    assert "no-claim   NodePool default by its label, but its NodeClaim is missing" in result.stdout
    assert "0.2520  unmanaged  it belongs to managed node group data" in result.stdout
    assert "3 nodes, $0.4440 per hour ($324 a month); 1 without a price is not counted." in result.stdout
    assert "ip-10-0-0-1 has no price: no spot price of m99.large in us-east-1 is known" in result.stdout


def test_a_dump_is_read_by_every_command(tmp_path: Path) -> None:
    original = write_dump(tmp_path, node_group_cluster(6, 60))
    file = str(tmp_path / "anonymous.json")

    result = run("dump", "--cluster", original, "--anonymise", "-o", file)

    assert result.exit_code == 0, result.output
    assert "PASSWORD" not in Path(file).read_text(encoding="utf-8")
    for command in (["savings"], ["explain", "node"], ["explain", "blockers"], ["simulate"]):
        read = run(*command, "--cluster", file)
        assert read.exit_code == 0, read.output
