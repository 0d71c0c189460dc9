"""``dovetail convert`` on the command line."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.ports.api_resources import EC2_NODE_CLASSES
from dovetail.simulator.cluster import with_last_applied
from tests.simulator.rest.rest_server import Kubectl, serve_cluster

SEED = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  requirements:
    - key: "node.kubernetes.io/instance-type" #If not included, all instance types are considered
      operator: In
      values: ["m5.large", "m5.2xlarge"]
    - key: "topology.kubernetes.io/zone" #If not included, all zones are considered
      operator: In
      values: ["us-east-1a", "us-east-1b"]
    - key: "kubernetes.io/arch" #If not included, all architectures are considered
      operator: In
      values: ["arm64", "amd64"]
    - key: " karpenter.sh/capacity-type"
      operator: In
      values: ["spot", "on-demand"]
  provider:
    instanceProfile: KarpenterNodeInstanceProfile-eks-karpenter-demo
  ttlSecondsAfterEmpty: 30
"""
EXPECTED = """\
# Was Provisioner (karpenter.sh/v1alpha5) in <stdin>.
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
      - key: node.kubernetes.io/instance-type
        operator: In
        values:
        - m5.large
        - m5.2xlarge
      - key: topology.kubernetes.io/zone
        operator: In
        values:
        - us-east-1a
        - us-east-1b
      - key: kubernetes.io/arch
        operator: In
        values:
        - arm64
        - amd64
      # Was ' karpenter.sh/capacity-type', with extra whitespace.
      - key: karpenter.sh/capacity-type
        operator: In
        values:
        - spot
        - on-demand
      # Not in the Provisioner: the v1alpha5 webhook added this default, v1 has none.
      - key: kubernetes.io/os
        operator: In
        values:
        - linux
      # The inline provider became an EC2NodeClass.
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
      # Nodes never expired; if unset, the v1 default is 720h.
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    # Was ttlSecondsAfterEmpty: 30. It counts from the last pod event of the node.
    consolidateAfter: 30s
    # v1alpha5 had no budgets: all empty nodes were deleted at once. The v1 default allows 10%
    # of the nodes at a time.
    budgets:
    - nodes: 100%
      reasons:
      - Empty
    - nodes: 10%
      reasons:
      - Underutilized
      - Drifted
---
# Was Provisioner (karpenter.sh/v1alpha5) in <stdin>.
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
spec:
  # Not set; early versions used resources with this tag. Insert your cluster name.
  # Nodes in private subnets got no public IP; in v1 the subnet decides unless
  # associatePublicIPAddress is set.
  subnetSelectorTerms:
  - tags:
      kubernetes.io/cluster/$CLUSTER_NAME: '*'
  # Not set; early versions used resources with this tag. Insert your cluster name.
  securityGroupSelectorTerms:
  - tags:
      kubernetes.io/cluster/$CLUSTER_NAME: '*'
  # amiFamily became an alias, which follows every new AMI; set a version to pin it. There are
  # no AL2 AMIs for Kubernetes 1.33 and later.
  # amiFamily was not set; the default was AL2.
  amiSelectorTerms:
  - alias: al2@latest
  instanceProfile: KarpenterNodeInstanceProfile-eks-karpenter-demo
  metadataOptions:
    # The default was 2; in v1 it is 1, which blocks pods from the metadata service.
    httpPutResponseHopLimit: 2
"""


def convert(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["convert", *args], input=stdin)


def test_a_provisioner_is_converted_with_a_comment_on_every_change() -> None:
    result = convert("-f", "-", stdin=SEED)

    assert result.exit_code == 0, result.stderr
    assert result.stdout == EXPECTED
    assert result.stderr == ""


def test_converted_manifests_can_be_simulated(tmp_path: Path) -> None:
    converted = convert("-f", "-", stdin=SEED).stdout
    (tmp_path / "pool.yaml").write_text(converted)

    result = CliRunner().invoke(cli, ["simulate", "-f", str(tmp_path)])

    assert result.exit_code == 0, result.stderr


def test_notes_of_json_output_go_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(SEED)

    result = convert(str(tmp_path), "-o", "json")

    whole = json.loads(result.stdout)
    assert [item["kind"] for item in whole["items"]] == ["NodePool", "EC2NodeClass"]
    assert "note: NodePool default spec.disruption.consolidateAfter: Was ttl" in result.stderr


def test_nothing_is_written_when_something_cannot_be_converted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SEED)
    (tmp_path / "b.yaml").write_text(
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: x}\n"
        "spec:\n  launchTemplate: mine\n  amiFamly: AL2\n"
    )

    result = convert("-f", str(tmp_path))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.rpartition("/")[2].split(":")[0:2] for line in result.stderr.splitlines()] == [
        ["b.yaml", "5 spec.launchTemplate"],
        ["b.yaml", "6 spec.amiFamly"],
    ]


def test_v1_manifests_are_unchanged() -> None:
    text = "# mine\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

    result = convert("-f", "-", stdin=text)

    assert result.stdout == text
    assert "no object has an older version" in result.stderr


def test_a_script_in_user_data_stays_readable() -> None:
    template = (
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: x}\n"
        "spec:\n  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"
        "  userData: |\n    #!/bin/bash\n    echo hi\n"
    )

    result = convert("-f", "-", stdin=template)

    assert "  userData: |\n    #!/bin/bash\n    echo hi\n" in result.stdout


def test_without_files_the_option_is_named() -> None:
    result = convert()

    assert result.exit_code == 1
    assert "-f PATH" in result.stderr


def test_converted_manifests_can_be_applied_and_legacy_ones_cannot(tmp_path: Path) -> None:
    converted = convert("-f", "-", stdin=SEED).stdout

    with serve_cluster() as cluster:
        kubectl = Kubectl(cluster, tmp_path)
        applied = kubectl("apply", "-f", "-", stdin=converted)
        refused = kubectl.run("apply", "-f", "-", stdin=SEED)

    assert applied.splitlines() == [
        "nodepool.karpenter.sh/default created",
        "ec2nodeclass.karpenter.k8s.aws/default created",
    ]
    assert refused.returncode != 0
    assert 'no matches for kind "Provisioner" in version "karpenter.sh/v1alpha5"' in refused.stderr


def test_a_converted_node_class_replaces_that_of_the_sandbox(tmp_path: Path) -> None:
    converted = convert("-f", "-", stdin=SEED).stdout
    reference = {"tags": {"karpenter.sh/discovery": "sandbox"}}
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [reference],
            "securityGroupSelectorTerms": [reference],
        },
    }

    with serve_cluster() as cluster:
        cluster.run(
            lambda: cluster.api.apply(EC2_NODE_CLASSES, with_last_applied(node_class), manager="scenario")
        )
        Kubectl(cluster, tmp_path)("apply", "-f", "-", stdin=converted)
        spec = cluster.run(lambda: cluster.api.get(EC2_NODE_CLASSES, "default"))["spec"]

    assert "role" not in spec
    assert spec["instanceProfile"] == "KarpenterNodeInstanceProfile-eks-karpenter-demo"


def test_kubectl_reports_every_violated_rule_of_a_nodepool(tmp_path: Path) -> None:
    pool = convert("-f", "-", stdin=SEED).stdout.split("---")[0]
    wrong = pool.replace("operator: In", "operator: Is", 1).replace(": 30s", ": 30d")

    with serve_cluster() as cluster:
        refused = Kubectl(cluster, tmp_path).run("apply", "-f", "-", stdin=wrong)

    assert refused.returncode != 0
    assert 'The NodePool "default" is invalid' in refused.stderr
    assert "* spec.template.spec.requirements[0].operator: Invalid value: 'Is'" in refused.stderr
    assert "* spec.disruption.consolidateAfter: Invalid value: '30d'" in refused.stderr
