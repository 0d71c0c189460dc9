"""Validation of node classes: tags that Dovetail sets itself."""

import pytest

from dovetail.core.nodeclass.validation import validate_nodeclass
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec


def with_tag(key: str) -> EC2NodeClass:
    return EC2NodeClass(launch=LaunchSpec(tags=FrozenDict({key: "x", "team": "shop"})))


@pytest.mark.parametrize(
    "key",
    ["karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "eks:eks-cluster-name", "kubernetes.io/cluster/dev"],
)
def test_a_tag_that_is_set_automatically_is_rejected(key: str) -> None:
    problem = validate_nodeclass(with_tag(key))

    assert problem is not None
    assert problem[0] == "TagValidationFailed"
    assert repr(key) in problem[1]
    assert "team" not in problem[1]


def test_other_tags_are_valid() -> None:
    assert validate_nodeclass(with_tag("kubernetes.io/owner")) is None
