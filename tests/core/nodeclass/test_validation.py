"""What is wrong with a class without asking anybody: 6, 7 and 64 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.text.field_path import show
from dovetail.core.nodeclass.validation import class_problem

INVALID, UNSUPPORTED = "InvalidKubeletConfiguration", "UnsupportedKubeletConfiguration"


def problem(family: str = "AL2023", **spec: Any) -> tuple[str, str] | None:
    whole = {"metadata": {"name": "a"}, "spec": {"amiFamily": family, **spec}}
    findings = Findings(written_by_hand=False)
    decoded = decode_node_class(Field(whole, findings))
    return class_problem(decoded, [f"{show(path)}: {told}" for path, told in findings.found])


@pytest.mark.parametrize("key", ["karpenter.sh/custom-key", "kubernetes.io/role/key", "Name"])
def test_tags_that_only_look_like_ours_are_fine(key: str) -> None:
    assert problem(tags={key: "x"}) is None


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        ({"registerWithTaints": []}, "registerWithTaints"),
        ({"evictionSoft": {"memory.available": "5%"}}, "has no evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "1m"}}, "has no evictionSoft"),
        ({"kubeReserved": {"cpu": "-1"}}, "spec.kubelet.kubeReserved.cpu"),
        ({"maxPods": "many"}, "spec.kubelet.maxPods: must be a whole number"),
        ({"evictionHard": {"memory.free": "5%"}}, "no eviction signal"),
        (
            {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50},
            "imageGCHighThresholdPercent",
        ),
    ],
)
def test_kubelet_settings_that_make_no_sense_are_told(kubelet: dict[str, Any], said: str) -> None:
    found = problem(kubelet=kubelet)

    assert found is not None
    assert found[0] == INVALID
    assert said in found[1]


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = problem(kubelet={"registerWithTaints": [], "kubeReserved": {"cpu": "-1"}})

    assert found is not None
    assert "registerWithTaints" in found[1]
    assert "kubeReserved" in found[1]


@pytest.mark.parametrize(
    ("family", "kubelet", "reason"),
    [
        ("AL2023", {"shutdownGracePeriod": "30s"}, None),
        ("Custom", {"shutdownGracePeriod": "30s"}, None),
        ("AL2", {"shutdownGracePeriod": "30s"}, UNSUPPORTED),
        ("Windows2022", {"shutdownGracePeriod": "30s"}, UNSUPPORTED),
        ("AL2", {"podsPerCore": 5}, None),
        ("Bottlerocket", {"podsPerCore": 5}, UNSUPPORTED),
        ("AL2023", {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}, None),
        ("Bottlerocket", {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}, UNSUPPORTED),
        ("Bottlerocket", {"clusterDNS": ["10.0.0.1"]}, None),
    ],
)
def test_what_a_family_cannot_be_told_is_refused(
    family: str, kubelet: dict[str, Any], reason: str | None
) -> None:
    found = problem(family, kubelet=kubelet)

    assert (None if found is None else found[0]) == reason
