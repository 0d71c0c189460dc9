"""Kubelet settings as expressions: 65 of the AWS checklist, as far as they are refused."""

from typing import Any

import pytest

from dovetail.codec.karpenter.nodeclass_validation import expressions_in


@pytest.mark.parametrize(
    ("kubelet", "named"),
    [
        ({"maxPods": "vcpus * 10"}, ["maxPods"]),
        ({"maxPods": "max_pods"}, ["maxPods"]),
        (
            {
                "kubeReserved": {"memory": "memory_mib * 5 / 100", "cpu": "100m"},
                "systemReserved": {"pid": "vcpus > 4 ? 2000 : 1000"},
            },
            ["kubeReserved.memory", "systemReserved.pid"],
        ),
    ],
)
def test_what_is_computed_from_the_machine_is_an_expression(
    kubelet: dict[str, Any], named: list[str]
) -> None:
    assert list(expressions_in(kubelet)) == named


@pytest.mark.parametrize(
    "kubelet",
    [
        {},
        {"maxPods": 30},
        {"maxPods": "30"},
        {"kubeReserved": {"cpu": "100m", "memory": "1.5Gi", "pid": 1000}},
        {"kubeReserved": {"cpu": "-1", "memory": "1e3", "ephemeral-storage": "1Gb"}},
        {"kubeReserved": ["cpu"]},
        {"evictionHard": {"memory.available": "5%"}},
    ],
)
def test_amounts_right_or_wrong_are_none(kubelet: dict[str, Any]) -> None:
    assert list(expressions_in(kubelet)) == []
