"""Pods that the API server accepts are planned, or refused with a reason and exit code 2."""

from pathlib import Path

from tests.cli.runs import simulate

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec:\n"
CONTAINERS = "  containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n"


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


def test_every_missing_label_is_named_with_what_would_match(tmp_path: Path) -> None:
    result = simulate(tmp_path, with_selector("team: web, tier: back"))

    assert result.exit_code == 2
    assert "labels 'team', 'tier' are not defined on the node side" in result.stdout
    assert "would match if spec.template.metadata.labels of this NodePool had {team: web, tier: back}" in (
        result.stdout
    )
