"""The examples do what the README says they do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dovetail.cli.main import cli
from tests.support.eks.configs import EXAMPLES as CLUSTERS

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulate(*names: str) -> tuple[int, str, str]:
    named = [arg for name in names for arg in ("-f", str(EXAMPLES / name))]
    result = CliRunner().invoke(cli, ["simulate", *named])
    return result.exit_code, result.stdout, result.stderr


def test_every_pod_of_the_example_gets_a_node() -> None:
    code, output, _ = simulate("manifests")

    assert code == 0, output
    assert "per month" in output


def test_the_unschedulable_example_has_detailed_reasons() -> None:
    code, output, _ = simulate("unschedulable", "manifests/nodepools.yaml", "manifests/nodeclass.yaml")

    assert code == 2
    assert "No node for 3 pods" in output
    assert "too large for every type; closest is" in output
    assert "would fit if" in output
    assert "would fit with the toleration" in output
    assert "requires shop.example/tier In [batch]" in output


def test_the_invalid_example_has_all_its_errors_reported_at_once() -> None:
    code, output, errors = simulate("invalid")

    assert code == 1
    assert output == ""
    assert "did you mean 'on-demand'?" in errors
    assert len(errors.splitlines()) > 20


def planned_nodes(*paths: Path) -> list[dict[str, Any]]:
    """Return the nodes that ``simulate`` plans; every pod must have one."""
    named = [argument for path in paths for argument in ("-f", str(path))]
    result = CliRunner().invoke(cli, ["simulate", *named, "-o", "json"])
    assert result.exit_code == 0, result.output
    nodes: list[dict[str, Any]] = json.loads(result.stdout)["nodes"]
    return nodes


def test_workers_of_the_example_share_a_node_that_is_cheaper_than_one_for_each() -> None:
    nodes = planned_nodes(EXAMPLES / "manifests")

    alone = [node["name"] for node in nodes if len(node["pods"]) == 1 and "worker" in str(node["pods"])]

    assert alone == []


def rendered_manifests(name: str, folder: Path, **replicas: int) -> Path:
    """Render a cluster file; return the folder of its manifests, with Deployments scaled."""
    options = ["-f", str(EXAMPLES / f"{name}.yaml"), "--format", "manifests", "-d", str(folder)]
    result = CliRunner().invoke(cli, ["cluster", "render", *options])
    assert result.exit_code == 0, result.output
    for path in (folder / "manifests").glob("deployment-*.yaml"):
        manifest = yaml.safe_load(path.read_text())
        workload = manifest["metadata"]["name"]
        if workload in replicas:
            manifest["spec"]["replicas"] = replicas.pop(workload)
            path.write_text(yaml.safe_dump(manifest))
    assert not replicas
    return folder / "manifests"


@pytest.mark.parametrize(
    ("name", "replicas", "types"),
    [
        ("managed-node-group", {"inflate": 10}, {"general": r"(t3a|m5a?)\.", "spot": r"(m5|m5a|m6i|c6i)\."}),
        ("fargate", {"chip": 100}, {"default": r"(c5|c5a|m5|m5a|r5)\.(large|xlarge|2xlarge)"}),
        ("existing-cluster", {"inflate": 10}, {"default": r"(m5|m6g)\.(large|2xlarge)"}),
        ("tainted-node-group", {"inflate": 3}, {"default": r"[cmr]\d"}),
        ("existing-vpc", {}, {"x86": r"[cmr]\d+(a|i|n|d)*\.", "graviton": r"[cmr]\d+g"}),
    ],
)
def test_workload_of_a_cluster_file_gets_nodes_of_its_nodepools(
    name: str, replicas: dict[str, int], types: dict[str, str], tmp_path: Path
) -> None:
    nodes = planned_nodes(rendered_manifests(name, tmp_path, **replicas))

    assert nodes
    assert {node["nodepool"] for node in nodes} <= types.keys()
    assert [
        node["instance_type"]
        for node in nodes
        if not re.match(types[node["nodepool"]], node["instance_type"])
    ] == []
    assert sum(len(node["pods"]) for node in nodes) == (sum(replicas.values()) or 4)


def test_every_cluster_file_with_a_workload_is_simulated() -> None:
    function = test_workload_of_a_cluster_file_gets_nodes_of_its_nodepools
    [mark] = [mark for mark in function.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]

    assert {case[0] for case in mark.args[1]} == {
        path.stem for path in CLUSTERS if "kind: Deployment" in path.read_text()
    }


def test_pods_of_x86_and_graviton_run_on_their_architecture(tmp_path: Path) -> None:
    nodes = planned_nodes(rendered_manifests("existing-vpc", tmp_path))

    pools = {pod.rpartition("-")[0]: node["nodepool"] for node in nodes for pod in node["pods"]}
    assert pools == {"default/nginx-amd64": "x86", "default/nginx-arm64": "graviton"}


ACCELERATED = {
    "train": ("nvidia.com/gpu", r"(g4dn|gr?[567]e?|p\d)"),
    "classify": ("nvidia.com/gpu", r"(gr?[567]e?|p\d)"),
    "render": ("amd.com/gpu", r"g4ad\."),
    "generate": ("aws.amazon.com/neuron", r"(inf|trn)\d"),
}
"""Workload → its resource, and the instance types that have it."""


def test_accelerated_pods_get_instances_with_their_device() -> None:
    nodes = planned_nodes(EXAMPLES / "accelerators")

    placed = {re.sub(r"^default/|-\d+$", "", pod): node for node in nodes for pod in node["pods"]}
    assert placed.keys() == ACCELERATED.keys()
    for workload, (resource, types) in ACCELERATED.items():
        node = placed[workload]
        candidates = [node["instance_type"], *node["alternatives"]]
        assert [name for name in candidates if not re.match(types, name)] == []
        assert int(node["allocatable"][resource]) >= int(node["requested"][resource]) > 0


def test_accelerated_nodepools_of_a_cluster_file_get_their_pods(tmp_path: Path) -> None:
    manifests = rendered_manifests("existing-cluster", tmp_path)
    jobs = tmp_path / "jobs.yaml"
    documents = list(yaml.safe_load_all((EXAMPLES / "accelerators" / "jobs.yaml").read_text()))
    # The file has no NodePool for GPUs of AMD.
    jobs.write_text(
        yaml.safe_dump_all(document for document in documents if document["metadata"]["name"] != "render")
    )

    nodes = planned_nodes(manifests, jobs)

    pools = {re.sub(r"^default/|-\d+$", "", pod): node["nodepool"] for node in nodes for pod in node["pods"]}
    assert pools == {"train": "gpu", "classify": "gpu", "generate": "neuron"}
