"""Validation errors of ``dovetail simulate``."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from tests.cli.runs import POOL, WEB, simulate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [Pod\n", r"0\.yaml:2 "),
        ("", r"0\.yaml"),
        (WEB.replace("cpu: 500m", "cpu: -1"), r"0\.yaml:13 .*cpu.*-1"),
        (WEB.replace("cpu: 500m", "cpu: lots"), r"0\.yaml:13 .*cpu.*'lots' is not a quantity"),
        (POOL.replace("spot, on-demand", "spot, on_demand"), r"0\.yaml:10 .*on_demand.*'on-demand'"),
        (POOL.replace("operator: In", "operator: Is"), r"0\.yaml:9 .*'Is'"),
    ],
    ids=["malformed", "empty", "negative", "no quantity", "capacity type", "operator"],
)
def test_an_error_has_file_and_line_on_stderr_and_exits_with_1(tmp_path: Path, text: str, said: str) -> None:
    result = simulate(tmp_path, text)

    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert re.search(said, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: example-pod}
spec:
  nodeSelector:
    SELECTOR
  containers:
  - name: example-container
    image: nginx
    resources: {requests: {cpu: 100m, memory: 100Mi}}
"""


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            "karpenter.sh/capacity-type: ON_DEMAND",
            "'ON_DEMAND' is not a capacity type; did you mean 'on-demand'?",
        ),
        (
            "karpenter.sh/capacity-type: GRAVITON",
            "'GRAVITON' is an architecture, not a capacity type; did you mean 'kubernetes.io/arch: arm64'?",
        ),
        (
            "karpenter.sh/capacity-type: x86",
            "'x86' is an architecture, not a capacity type; did you mean 'kubernetes.io/arch: amd64'?",
        ),
        ("kubernetes.io/arch: GRAVITON", "'GRAVITON' is not an architecture; did you mean 'arm64'?"),
        (
            "kubernetes.io/arch: ON_DEMAND",
            "'ON_DEMAND' is a capacity type, not an architecture; "
            "did you mean 'karpenter.sh/capacity-type: on-demand'?",
        ),
    ],
)
def test_a_wrong_node_selector_of_a_pod_is_a_note_with_the_right_one(
    tmp_path: Path, selector: str, message: str
) -> None:
    key = selector.partition(":")[0]

    result = simulate(tmp_path, POOL, POD.replace("SELECTOR", selector))

    assert result.exit_code == 2
    assert f"Note: {tmp_path}/1.yaml:6 spec.nodeSelector['{key}']: {message}\n" in result.stdout


def test_a_node_selector_in_a_container_is_not_ignored(tmp_path: Path) -> None:
    text = POD.replace("  nodeSelector:\n    SELECTOR\n", "")
    text += "    nodeSelector:\n      kubernetes.io/arch: arm64\n"

    result = simulate(tmp_path, POOL, text)

    assert result.exit_code == 1
    assert "spec.containers[0].nodeSelector: is a field of the pod, not of a container" in result.stderr


def test_errors_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    result = simulate(
        tmp_path,
        WEB.replace("cpu: 500m", "cpu: -1").replace("replicas: 3", "replicas: many"),
        POOL.replace("on-demand", "on_demand"),
    )

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-f", "nowhere.yaml"], "nowhere.yaml does not exist"),
        (["--region", "us-esat-1"], "did you mean 'us-east-1'?"),
        (["--zones", "us-east-1"], "is not a zone of us-east-1"),
        (["--prices", "nowhere.csv"], "nowhere.csv does not exist"),
        (["-o", "xml"], "'xml' is not one of"),
        (["--nonsense"], "No such option"),
    ],
)
def test_an_invalid_option_exits_with_1(tmp_path: Path, args: list[str], said: str) -> None:
    result = simulate(tmp_path, WEB, args=tuple(args))

    assert result.exit_code == 1, result.output
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_no_input_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["simulate"])

    assert result.exit_code == 1
    assert "-f PATH" in result.stderr


def test_errors_of_manifests_dumps_and_prices_are_reported_together(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("instance_type,region\n")
    missing = str(tmp_path / "gone.yaml")

    result = simulate(
        tmp_path,
        WEB.replace("replicas: 3", "replicas: -3"),
        args=("--prices", str(prices), "--cluster", missing),
    )

    assert result.exit_code == 1
    assert "prices.csv:1 zone_id: column missing" in result.stderr
    assert "0.yaml:5 spec.replicas: is -3, but must be at least 0" in result.stderr
    assert f"{missing} does not exist" in result.stderr


EXPRESSIONS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
  kubelet:
    allowedUnsafeSysctls: [net.core.*]
    maxPods: vcpus * 1 + 1
"""


def test_a_kubelet_field_that_does_not_exist_is_reported_with_its_line(tmp_path: Path) -> None:
    node_class = EXPRESSIONS.replace("maxPods: vcpus * 1 + 1", "nodeLabels: {a: b}")

    result = simulate(tmp_path, WEB, POOL, node_class)

    assert result.exit_code == 1
    assert ":12 spec.kubelet.nodeLabels: no such field in the kubelet of Kubernetes 1.36" in result.stderr


def test_a_kubelet_expression_needs_the_feature_gate(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, EXPRESSIONS)

    assert result.exit_code == 1
    assert ":12 spec.kubelet.maxPods: 'vcpus * 1 + 1' is an expression" in result.stderr
    assert "--feature-gates NodeClassCEL=true" in result.stderr


def test_a_kubelet_expression_changes_the_plan(tmp_path: Path) -> None:
    gate = ("--feature-gates", "NodeClassCEL=true", "-o", "json")
    node_class = EXPRESSIONS.replace("vcpus * 1 + 1", "vcpus - vcpus + 1")

    result = simulate(tmp_path, WEB, POOL, node_class, args=gate)

    assert result.exit_code == 0, result.output
    assert [len(node["pods"]) for node in json.loads(result.stdout)["nodes"]] == [1, 1, 1]


def test_a_kubelet_expression_that_fails_for_a_type_is_reported(tmp_path: Path) -> None:
    gate = ("--feature-gates", "NodeClassCEL=true")

    result = simulate(tmp_path, WEB, POOL, EXPRESSIONS.replace("vcpus * 1 + 1", "vcpus - 1000"), args=gate)

    assert result.exit_code == 1
    assert "EC2NodeClass default spec.kubelet.maxPods: is -" in result.stderr


def test_text_instead_of_a_number_of_pods_gets_a_hint(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, EXPRESSIONS.replace("vcpus * 1 + 1", "'110'"))

    assert "for a number write 110, without quotes" in result.stderr


def test_a_node_class_that_is_not_ready_is_no_error(tmp_path: Path) -> None:
    node_class = EXPRESSIONS.replace("vcpus * 1 + 1", "vcpu * 2").replace(
        "{name: default}", "{name: default, uid: a1}"
    )
    status = "status: {conditions: [{type: Ready, status: 'False'}]}\n"

    result = simulate(tmp_path, WEB, POOL, node_class + status)

    assert result.exit_code == 2
    assert "nodepool-not-ready" in result.stdout
