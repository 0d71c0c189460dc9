"""Validation of a node class without AWS: 6, 7 and 64 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.text.field_path import format_path
from dovetail.core.nodeclass.validation import validate_nodeclass

INVALID, UNSUPPORTED = "InvalidKubeletConfiguration", "UnsupportedKubeletConfiguration"


def problem(family: str = "AL2023", **spec: Any) -> tuple[str, str] | None:
    whole = {"metadata": {"name": "a"}, "spec": {"amiFamily": family, **spec}}
    findings = DecodeContext(strict=False)
    decoded = decode_nodeclass(Field(whole, findings))
    return validate_nodeclass(decoded, [f"{format_path(path)}: {error}" for path, error in findings.errors])


@pytest.mark.parametrize("key", ["karpenter.sh/custom-key", "kubernetes.io/role/key", "Name"])
def test_tags_similar_to_reserved_ones_are_valid(key: str) -> None:
    assert problem(tags={key: "x"}) is None


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        ({"registerWithTaints": []}, "registerWithTaints"),
        ({"evictionSoft": {"memory.available": "5%"}}, "has no evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "1m"}}, "has no evictionSoft"),
        ({"kubeReserved": {"cpu": "-1"}}, "spec.kubelet.kubeReserved.cpu"),
        ({"maxPods": "many"}, "spec.kubelet.maxPods: must be a whole number"),
        ({"evictionHard": {"memory.free": "5%"}}, "not an eviction signal"),
        (
            {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50},
            "imageGCHighThresholdPercent",
        ),
    ],
)
def test_invalid_kubelet_settings_are_errors(kubelet: dict[str, Any], said: str) -> None:
    error = problem(kubelet=kubelet)

    assert error is not None
    assert error[0] == INVALID
    assert said in error[1]


def test_all_errors_are_reported_at_once() -> None:
    error = problem(kubelet={"registerWithTaints": [], "kubeReserved": {"cpu": "-1"}})

    assert error is not None
    assert "registerWithTaints" in error[1]
    assert "kubeReserved" in error[1]


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
def test_kubelet_settings_unsupported_by_the_ami_family_are_errors(
    family: str, kubelet: dict[str, Any], reason: str | None
) -> None:
    error = problem(family, kubelet=kubelet)

    assert (None if error is None else error[0]) == reason
