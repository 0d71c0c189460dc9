"""Any input converts to valid v1 objects or gives validation errors."""

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import RewrittenObject
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.errors import InvalidInputError, ValidationError
from tests.codec.inputs.test_any_input import JUNK, field_paths, with_junk

PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "p", "annotations": {"karpenter.sh/do-not-consolidate": "true"}},
    "spec": {
        "labels": {"team": "a"},
        "annotations": {"a": "b"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
        "taints": [{"key": "a", "effect": "NoSchedule"}],
        "kubeletConfiguration": {"maxPods": 20, "containerRuntime": "containerd"},
        "provider": {
            "instanceProfile": "x",
            "subnetSelector": {"a": "b,c"},
            "securityGroupSelector": {"aws-ids": "sg-1", "x": "y"},
            "amiFamily": "Ubuntu",
            "amiSelector": {"aws::name": "n", "aws::owners": "self"},
            "metadataOptions": {"httpTokens": "required"},
        },
        "limits": {"resources": {"cpu": "10"}},
        "weight": 3,
        "ttlSecondsUntilExpired": 600,
        "consolidation": {"enabled": True},
    },
}
BETA_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "b"},
    "spec": {
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"},
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "nodeClassRef": {"name": "k"},
                "requirements": [],
                "kubelet": {"maxPods": 10},
                "resources": {"requests": {"cpu": "1"}},
            },
        },
    },
}
BETA_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "k"},
    "spec": {
        "amiFamily": "AL2",
        "role": "r",
        "subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        "userData": "#!/bin/sh\necho hello\n",
    },
}
LEGACY_CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Machine",
    "metadata": {"name": "m", "labels": {"karpenter.sh/provisioner-name": "p"}},
    "spec": {
        "machineTemplateRef": {"name": "k"},
        "requirements": [{"key": "karpenter.sh/provisioner-name", "operator": "Exists"}],
        "resources": {"requests": {"cpu": "1"}},
    },
}
WORKLOAD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "w", "annotations": {"karpenter.sh/do-not-evict": "true"}},
    "spec": {
        "nodeSelector": {"karpenter.sh/provisioner-name": "p"},
        "tolerations": [{"key": "karpenter.sh/disruption", "operator": "Exists"}],
        "containers": [{"name": "c", "image": "c"}],
    },
}
ALL = [PROVISIONER, BETA_POOL, BETA_CLASS, LEGACY_CLAIM, WORKLOAD]


def outcome(files: Sequence[NamedFile]) -> tuple[list[RewrittenObject], Sequence[ValidationError]]:
    """Return what files are converted to, or else their mistakes; other errors are ours."""
    try:
        return convert_files(files), ()
    except InvalidInputError as error:
        return [], error.errors


def test_sample_objects_are_valid_before_they_are_changed() -> None:
    objects = convert_files([("all.yaml", yaml.safe_dump_all(ALL).encode())])

    assert [rewritten.value["kind"] for rewritten in objects] == [
        "NodePool",
        "EC2NodeClass",
        "NodePool",
        "EC2NodeClass",
        "NodeClaim",
        "Pod",
    ]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_anywhere_gives_valid_objects_or_errors(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ALL) - 1))
    path = data.draw(st.sampled_from(field_paths(ALL[at])))
    spoilt = [*ALL[:at], with_junk(ALL[at], path, data.draw(JUNK)), *ALL[at + 1 :]]
    whole = {"apiVersion": "v1", "kind": "List", "items": spoilt}

    objects, mistakes = outcome([("f.json", msgspec.json.encode(whole))])

    assert objects or mistakes
    assert all(error.file == "f.json" and error.message for error in mistakes)
    for rewritten in objects:
        text = rewritten.as_yaml()
        assert yaml.safe_load(text) is not None
        if str(rewritten.value.get("apiVersion")).startswith("karpenter."):
            read_documents([("again.yaml", text.encode())])
