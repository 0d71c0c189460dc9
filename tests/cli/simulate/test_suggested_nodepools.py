"""NodePools that ``dovetail simulate`` suggests for pods that need special nodes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runs import POOL, simulate

LINUX = "  containers: [{name: main, image: app, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n"


def accelerated(resource: str, amount: int = 1) -> str:
    resources = f"requests: {{cpu: 1, memory: 1Gi}}, limits: {{{resource}: {amount}}}"
    return f"  containers: [{{name: main, image: app, resources: {{{resources}}}}}]\n"


CUDA = accelerated("nvidia.com/gpu")


def a_pod(name: str, *fields: str) -> str:
    spec = "".join(field if field.endswith("\n") else f"  {field}\n" for field in fields)
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}"


def select(labels: str) -> str:
    return f"nodeSelector: {{{labels}}}"


def windows(build: str) -> str:
    return select(f"kubernetes.io/os: windows, node.kubernetes.io/windows-build: {build}")


def require(key: str, value: str) -> str:
    term = f"{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}"
    required = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}"
    return f"affinity: {{nodeAffinity: {{{required}}}}}"


def suggestions_for(directory: Path, *files: str) -> list[str]:
    """Return the manifests of each suggestion, as they are printed."""
    _, *sections = simulate(directory, *files).stdout.split("A NodePool to add for ")
    return [section.partition("\n")[2].partition("\n\n")[0] for section in sections]


def values_of(suggestion: str) -> dict[str, list[str]]:
    """Return the requirements of the NodePool in a suggestion."""
    nodepool = next(iter(yaml.safe_load_all(suggestion)))
    requirements = nodepool["spec"]["template"]["spec"]["requirements"]
    return {entry["key"]: entry["values"] for entry in requirements}


def planned_nodes(directory: Path, *files: str) -> list[dict[str, Any]]:
    result = simulate(directory, *files, args=("-o", "json"))
    assert result.exit_code == 0, result.output
    nodes: list[dict[str, Any]] = json.loads(result.stdout)["nodes"]
    return nodes


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("by-gpu", select("karpenter.k8s.aws/instance-gpu-name: t4"), CUDA),
        a_pod("by-family", select("karpenter.k8s.aws/instance-family: g5"), CUDA),
        a_pod(
            "by-type",
            select("node.kubernetes.io/instance-type: g5.xlarge"),
            "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",
            CUDA,
        ),
        a_pod("on-spot", require("karpenter.sh/capacity-type", "spot"), CUDA),
        a_pod("on-arm", select("kubernetes.io/arch: arm64"), CUDA),
        a_pod("by-arm-family", select("karpenter.k8s.aws/instance-family: g5g"), CUDA),
        a_pod("by-nodepool", select("karpenter.sh/nodepool: ml"), CUDA),
        a_pod("windows", require("kubernetes.io/os", "windows"), LINUX),
        a_pod(
            "windows-family",
            require("kubernetes.io/os", "windows"),
            select("karpenter.k8s.aws/instance-family: z1d"),
            LINUX,
        ),
        a_pod("windows-2019", windows("10.0.17763"), LINUX),
        a_pod("windows-2025", windows("10.0.26100"), LINUX),
    ],
    ids=lambda pod: pod.split("name: ")[1].split("}")[0],
)
def test_the_suggestion_has_a_node_for_the_pod_whatever_it_selects(tmp_path: Path, pod: str) -> None:
    (suggestion,) = suggestions_for(tmp_path, pod, POOL)

    (node,) = planned_nodes(tmp_path, pod, POOL, suggestion)
    assert node["nodepool"] != "general"


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("too-many", accelerated("nvidia.com/gpu", 999)),
        a_pod("no-gpu", select("karpenter.k8s.aws/instance-family: m5"), CUDA),
        a_pod("no-build", windows("10.0.1"), LINUX),
        a_pod(
            "alone",
            CUDA,
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: none}}}]}}",
        ),
    ],
    ids=["too-many", "no-gpu", "no-build", "alone"],
)
def test_nothing_is_suggested_that_would_have_no_node_for_the_pod(tmp_path: Path, pod: str) -> None:
    assert not suggestions_for(tmp_path, pod, POOL)


def test_no_nodepool_is_suggested_that_claims_to_be_a_node_group(tmp_path: Path) -> None:
    pods = [a_pod("own", CUDA), a_pod("old", CUDA, select("eks.amazonaws.com/nodegroup: gpu"))]

    (suggestion,) = suggestions_for(tmp_path, *pods, POOL)

    assert "eks.amazonaws.com" not in suggestion


def test_the_suggestion_for_a_gpu_is_for_amd64_unless_pods_select_arm64(tmp_path: Path) -> None:
    pods = [a_pod("any", CUDA), a_pod("arm", select("kubernetes.io/arch: arm64"), CUDA)]

    suggestions = suggestions_for(tmp_path, *pods, POOL)

    assert [values_of(suggestion)["kubernetes.io/arch"] for suggestion in suggestions] == [
        ["amd64"],
        ["arm64"],
    ]
    assert planned_nodes(tmp_path, *pods, POOL, *suggestions)


def test_resources_of_one_manufacturer_share_a_nodepool_which_takes_no_windows_pods(tmp_path: Path) -> None:
    pods = [
        a_pod("neuron", accelerated("aws.amazon.com/neuron")),
        a_pod("core", accelerated("aws.amazon.com/neuroncore", 2)),
        a_pod("iis", select("kubernetes.io/os: windows"), LINUX),
    ]

    suggestions = suggestions_for(tmp_path, *pods, POOL)
    nodes = planned_nodes(tmp_path, *pods, POOL, *suggestions)

    assert len(suggestions) == 2
    pools = {name: node["nodepool"] for node in nodes for name in node["pods"]}
    assert pools == {"default/neuron": "neuron", "default/core": "neuron", "default/iis": "windows"}


def test_the_suggestion_uses_names_and_node_classes_that_do_not_collide(tmp_path: Path) -> None:
    taken = POOL.replace("name: general", "name: gpu")
    windows_class = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: ours}
spec:
  role: nodes
  amiSelectorTerms: [{alias: windows2022@latest}]
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
"""
    pods = [a_pod("cuda", CUDA), a_pod("iis", select("kubernetes.io/os: windows"), LINUX)]

    suggestions = suggestions_for(tmp_path, *pods, taken, windows_class)

    documents = [document for suggestion in suggestions for document in yaml.safe_load_all(suggestion)]
    assert [document["metadata"]["name"] for document in documents] == ["gpu-2", "windows"]
    assert documents[1]["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "ours"
    planned_nodes(tmp_path, *pods, taken, windows_class, *suggestions)


def test_two_nodepools_for_windows_share_a_node_class(tmp_path: Path) -> None:
    pods = [
        a_pod("web", select("kubernetes.io/os: windows, karpenter.sh/nodepool: web"), LINUX),
        a_pod("batch", select("kubernetes.io/os: windows, karpenter.sh/nodepool: batch"), LINUX),
    ]

    suggestions = suggestions_for(tmp_path, *pods, POOL)

    nodes = planned_nodes(tmp_path, *pods, POOL, *suggestions)
    assert sorted(node["nodepool"] for node in nodes) == ["batch", "web"]
