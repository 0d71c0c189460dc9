"""The guide to cluster.yaml names every field, and its first example is one that works."""

import re
from pathlib import Path

from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.validation.load import read_spec

GUIDE = (Path(__file__).parents[2] / "docs/guides/cluster-file.md").read_text(encoding="utf-8")


def test_every_field_is_in_the_guide() -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", GUIDE.partition("## The fields")[2]))

    assert set(json_schema()["properties"]) <= named


def test_the_shortest_file_makes_what_the_guide_says() -> None:
    text = GUIDE.partition("```yaml\n")[2].partition("```")[0]

    made = {one.address for one in wanted(read_spec("cluster.yaml", text.encode()))}

    assert {
        "vpc/main",
        "nat-gateway/us-east-1a",
        "eks-cluster/dev",
        "eks-node-group/controller",
        "sqs-queue/dev",
        "helm-release/kube-system/dovetail",
        "kubernetes-object/EC2NodeClass/default",
        "kubernetes-object/NodePool/default",
    } <= made
