"""Whatever is to be converted: it comes out as valid v1 objects, or mistakes are told."""

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import Rewritten
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.errors import BadInput, Mistake
from tests.codec.inputs.test_any_input import JUNK, places, with_junk

PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "p", "annotations": {"karpenter.sh/do-not-consolidate": "true"}},
    "spec": {
        "labels": {"team": "a"},
        "annotations": {"a": "b"},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
        ],
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
MACHINE: dict[str, Any] = {
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
ALL = [PROVISIONER, BETA_POOL, BETA_CLASS, MACHINE, WORKLOAD]


def outcome(files: Sequence[NamedFile]) -> tuple[list[Rewritten], Sequence[Mistake]]:
    """Return what files are converted to, or else their mistakes; other errors are ours."""
    try:
        return convert_files(files), ()
    except BadInput as error:
        return [], error.mistakes


def test_what_is_spoilt_here_is_good_to_begin_with() -> None:
    found = convert_files([("all.yaml", yaml.safe_dump_all(ALL).encode())])

    assert [one.value["kind"] for one in found] == [
        "NodePool",
        "EC2NodeClass",
        "NodePool",
        "EC2NodeClass",
        "NodeClaim",
        "Pod",
    ]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_with_anything_anywhere_the_outcome_is_valid_or_mistakes_are_told(
    data: st.DataObject,
) -> None:
    at = data.draw(st.integers(0, len(ALL) - 1))
    path = data.draw(st.sampled_from(places(ALL[at])))
    spoilt = [*ALL[:at], with_junk(ALL[at], path, data.draw(JUNK)), *ALL[at + 1 :]]
    whole = {"apiVersion": "v1", "kind": "List", "items": spoilt}

    found, mistakes = outcome([("f.json", msgspec.json.encode(whole))])

    assert found or mistakes
    assert all(one.file == "f.json" and one.message for one in mistakes)
    for one in found:
        text = one.as_yaml()
        assert yaml.safe_load(text) is not None
        if str(one.value.get("apiVersion")).startswith("karpenter."):
            read_documents([("again.yaml", text.encode())])
