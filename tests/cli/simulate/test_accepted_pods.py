"""Pods that the API server accepts are planned, or refused with a reason and exit code 2."""

import re
from pathlib import Path

import pytest

from tests.cli.runs import POOL, simulate

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec:\n"
CONTAINERS = "  containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n"


NODE_CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: SIZE}}]
"""


def with_selector(selector: str) -> str:
    return f"{HEAD}  nodeSelector: {{{selector}}}\n{CONTAINERS}"


def test_an_affinity_that_lists_architectures_of_other_clouds_is_planned(tmp_path: Path) -> None:
    affinity = (
        "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: kubernetes.io/arch, operator: In,"
        " values: [amd64, arm64, ppc64le, s390x]}]}]}}}\n"
    )

    result = simulate(tmp_path, HEAD + affinity + CONTAINERS)

    assert result.exit_code == 0, result.output
    assert "1 new node for 1 pod" in result.stdout
    assert "s390x" not in result.output


def test_a_pod_for_an_architecture_that_ec2_lacks_is_refused_with_the_reason(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("kubernetes.io/arch: s390x"))

    assert result.exit_code == 2
    assert "requires kubernetes.io/arch In [s390x]" in result.stdout
    assert "Note: " not in "".join(line for line in result.stdout.splitlines() if "s390x" in line)


def test_a_misspelt_instance_type_gets_a_suggestion_and_the_types_of_the_nodepool(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("node.kubernetes.io/instance-type: m5.lrage"))

    assert result.exit_code == 2
    assert "(did you mean 'm5.large'?)" in result.stdout
    # The default NodePool allows categories c, m and r from generation 3 on.
    assert "a1.2xlarge" not in result.stdout
    assert "types of this NodePool have c3.2xlarge" in result.stdout


@pytest.mark.parametrize(
    ("requests", "problem", "exit_code"),
    [
        (
            "cpu: 100M",
            "cpu: '100M' is 100,000,000 CPUs, more than any instance type has; did you mean '100m'?",
            2,
        ),
        ("memory: 5Pi", "memory: '5Pi' is more memory than any instance type has", 2),
        ("memory: 512m", "memory: '512m' is one byte or less; did you mean '512Mi'?", 0),
        ("memory: 512", "memory: '512' is 512 bytes; did you mean '512Mi'?", 0),
    ],
)
def test_an_amount_that_is_probably_mistyped_gets_a_note_and_is_planned_as_written(
    tmp_path: Path, requests: str, problem: str, exit_code: int
) -> None:
    result = simulate(tmp_path, HEAD + CONTAINERS.replace("cpu: 1, memory: 1Gi", requests))

    assert result.exit_code == exit_code, result.output
    (note,) = [line for line in result.stdout.splitlines() if line.startswith("Note: ") and problem in line]
    assert f":5 spec.containers[0].resources.requests.{problem}" in note


def test_a_zone_that_is_left_out_is_not_corrected_to_another_one(tmp_path: Path) -> None:
    left_out = simulate(tmp_path, with_selector("topology.kubernetes.io/zone: us-east-1e"))
    misspelt = simulate(tmp_path, with_selector("topology.kubernetes.io/zone: us-eats-1a"))

    assert "did you mean" not in left_out.stdout
    assert "(did you mean 'us-east-1a'?)" in misspelt.stdout


def test_swapped_letters_are_corrected_before_other_letters(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("kubernetes.io/arch: adm64"))

    assert "'adm64' is not an architecture; did you mean 'amd64'?" in result.stdout


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        (
            "karpenter.k8s.aws/instance-pods: '58'",
            "'karpenter.k8s.aws/instance-pods' was removed in v1beta1;",
        ),
        (
            "karpenter.sh/provisioner-name: default",
            "'karpenter.sh/provisioner-name' was renamed in v1beta1; use 'karpenter.sh/nodepool'",
        ),
    ],
)
def test_a_label_of_an_older_karpenter_is_named_as_such_with_its_line(
    tmp_path: Path, label: str, problem: str
) -> None:
    result = simulate(tmp_path, with_selector(label))

    assert result.exit_code == 2
    (note,) = [line for line in result.stdout.splitlines() if line.startswith("Note: ") and problem in line]
    key = label.partition(":")[0]
    assert f":5 spec.nodeSelector['{key}']: {problem}" in note


def test_every_missing_label_is_named_with_what_would_match(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("team: web, tier: back"))

    assert result.exit_code == 2
    assert "labels 'team', 'tier' are not defined on the node side" in result.stdout
    assert "would match if spec.template.metadata.labels of this NodePool had {team: web, tier: back}" in (
        result.stdout
    )


def test_a_label_that_no_nodepool_may_define_is_not_suggested_for_one(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("karpenter.k8s.aws/instance-pods: '58'"))

    assert result.exit_code == 2
    assert "nodes of this NodePool do not have it" in result.stdout
    assert "would match" not in result.stdout


def test_a_misspelt_label_is_corrected_before_what_would_match(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("kubernetes.io/archh: arm64"))

    assert result.exit_code == 2
    assert "(did you mean 'kubernetes.io/arch'?); would match if" in result.stdout


def test_the_volume_of_the_node_class_is_named_to_a_pod_that_needs_more_ephemeral_storage(
    tmp_path: Path,
) -> None:
    pod = HEAD + CONTAINERS.replace("memory: 1Gi", "memory: 1Gi, ephemeral-storage: 200Gi")

    refused = simulate(tmp_path, pod, POOL)
    (size,) = re.findall(
        r"volumeSize of (\d+Gi) in blockDeviceMappings of EC2NodeClass default", refused.stdout
    )
    planned = simulate(tmp_path, pod, POOL, NODE_CLASS.replace("SIZE", size))

    assert "too large for every type" not in refused.stdout
    assert planned.exit_code == 0, planned.output
