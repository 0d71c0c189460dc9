"""The guide to cluster.yaml: every field is described, and the first example is valid."""

import re
from pathlib import Path

from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.validation.load import load_config

GUIDE = (Path(__file__).parents[2] / "docs/guides/cluster-file.md").read_text(encoding="utf-8")


def test_every_field_is_in_the_guide() -> None:
    field_names = set(re.findall(r"`([A-Za-z]+)`", GUIDE.partition("## Fields")[2]))

    assert set(json_schema()["properties"]) <= field_names


def test_shortest_file_of_the_guide_is_valid() -> None:
    text = GUIDE.partition("```yaml\n")[2].partition("```")[0]

    addresses = {resource.address for resource in desired_state(load_config("cluster.yaml", text.encode()))}

    assert {
        "vpc/main",
        "nat-gateway/us-east-1a",
        "eks-cluster/dev",
        "eks-node-group/controller",
        "sqs-queue/dev",
        "helm-release/kube-system/dovetail",
        "kubernetes-object/EC2NodeClass/default",
        "kubernetes-object/NodePool/default",
    } <= addresses
