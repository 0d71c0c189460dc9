"""Validation of a node class without AWS: 6, 7 and 64 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.core.instancetypes.kubelet import find_failures
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.state.nodeclass_validation import find_nodeclass_problem
from tests.core.instancetypes.builders import ec2_type

INVALID, UNSUPPORTED = "InvalidKubeletConfiguration", "UnsupportedKubeletConfiguration"


SETTINGS = InstanceTypeSettings(kubelet_expressions=True)


def problem(family: str = "AL2023", *, gate: bool = False, **spec: Any) -> tuple[str, str] | None:
    raw = {"metadata": {"name": "a"}, "spec": {"amiFamily": family, **spec}}
    if not gate:
        return find_nodeclass_problem(raw)
    types = [ec2_type("t3.nano"), ec2_type("m5.large")]
    return find_nodeclass_problem(raw, lambda node_class: find_failures(types, node_class, SETTINGS))


def test_expressions_are_evaluated_again_for_other_instance_types() -> None:
    raw = {"metadata": {"name": "a"}, "spec": {"amiFamily": "AL2023", "kubelet": {"maxPods": "vcpus * 8"}}}

    first = find_nodeclass_problem(raw, lambda _: [("maxPods", "fails for t3.nano")])
    second = find_nodeclass_problem(raw, lambda _: ())

    assert first == ("KubeletExpressionEvaluationFailed", "spec.kubelet.maxPods: fails for t3.nano")
    assert second is None


def test_changed_node_class_of_the_same_name_is_validated_again() -> None:
    assert problem(kubelet={"maxPods": [10]}) is not None
    assert problem(kubelet={"maxPods": 10}) is None


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
        ({"maxPods": [10]}, "spec.kubelet.maxPods: must be a whole number"),
        ({"evictionMaxPodGracePeriod": -1}, "spec.kubelet.evictionMaxPodGracePeriod: is -1"),
        ({"evictionMinimumReclaim": {"memory.free": "1Mi"}}, "not an eviction signal"),
        ({"nodeLabels": {"team": "a"}}, "spec.kubelet.nodeLabels: no such field in the kubelet"),
        ({"containerLogMaxSiz": "5Mi"}, "did you mean 'containerLogMaxSize'?"),
        ({"registryPullQPS": "5"}, "spec.kubelet.registryPullQPS: must be a whole number, not '5'"),
        ({"registryPullQPS": 1 << 31}, "spec.kubelet.registryPullQPS: is 2147483648"),
        ({"containerLogMaxSize": 50}, "spec.kubelet.containerLogMaxSize: must be text, not 50"),
        ({"shutdownGracePeriod": 30}, "spec.kubelet.shutdownGracePeriod: must be a duration"),
        ({"serializeImagePulls": "no"}, "spec.kubelet.serializeImagePulls: must be true or false"),
        ({"allowedUnsafeSysctls": "net.core.somaxconn"}, "must be a list"),
        ({"featureGates": {"NodeSwap": 1}}, "spec.kubelet.featureGates.NodeSwap: must be true or false"),
        ({"authentication": {"anonymous": {"enable": True}}}, "did you mean 'enabled'?"),
        ({"memorySwap": "LimitedSwap"}, "spec.kubelet.memorySwap: must be a map"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1GB"}}]}, "must be a quantity"),
        ({"memoryThrottlingFactor": "0.9"}, "spec.kubelet.memoryThrottlingFactor: must be a number"),
        ({"logging": {"flushFrequency": [5]}}, "spec.kubelet.logging.flushFrequency: must be a whole number"),
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
    error = problem(
        kubelet={"registerWithTaints": [], "kubeReserved": {"cpu": "-1"}, "nodeLabels": {}, "port": "80"}
    )

    assert error is not None
    for name in ("registerWithTaints", "kubeReserved", "nodeLabels", "port"):
        assert f"spec.kubelet.{name}" in error[1]


def test_every_field_of_the_kubelet_is_accepted_with_a_value_of_its_type() -> None:
    kubelet = {
        "allowedUnsafeSysctls": ["net.core.*"],
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {"webhook": {"cacheTTL": "2m0s"}, "anonymous": {"enabled": False}},
        "containerLogMaxSize": "50Mi",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "-1.5h"},
        "evictionMinimumReclaim": {"nodefs.available": "500Mi", "imagefs.available": "5%"},
        "featureGates": {"NodeSwap": True},
        "logging": {"flushFrequency": 5, "verbosity": 2, "vmodule": [{"filePattern": "a", "verbosity": 9}]},
        "memoryThrottlingFactor": 1,
        "podPidsLimit": 1 << 40,
        "registryPullQPS": 5.0,
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": 4}}],
        "shutdownGracePeriodByPodPriority": [{"priority": 1, "shutdownGracePeriodSeconds": 60}],
        "staticPodURLHeader": {"X": ["a", "b"]},
        "systemReservedCgroup": "/system",
        "tlsCurvePreferences": [29],
        "topologyManagerPolicy": None,
    }

    assert problem(kubelet=kubelet) is None


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


@pytest.mark.parametrize(
    ("kubelet", "gate", "reason", "message"),
    [
        (
            {"maxPods": "110", "kubeReserved": {"cpu": "vcpus * 30"}},
            False,
            "KubeletExpressionsDisabled",
            "spec.kubelet.maxPods, spec.kubelet.kubeReserved.cpu: expressions need the feature gate "
            "NodeClassCEL; a number has no quotes: maxPods: 110",
        ),
        (
            {"maxPods": "vcpus *"},
            True,
            "KubeletExpressionInvalid",
            "spec.kubelet.maxPods: 'vcpus *' is not a valid expression: column 8: "
            "Syntax error: mismatched input '<EOF>'",
        ),
        (
            {"maxPods": "default_enis - 3", "systemReserved": {"memory": "2048 / (memory_mib - 512)"}},
            True,
            "KubeletExpressionEvaluationFailed",
            "spec.kubelet.maxPods: is -1 for t3.nano, but must be 0 to 2147483647; "
            "spec.kubelet.systemReserved.memory: fails for t3.nano: divide by zero",
        ),
        ({"maxPods": "vcpus", "nodeLabels": {}}, True, INVALID, "spec.kubelet.nodeLabels: no such field"),
    ],
)
def test_each_kind_of_problem_with_expressions_has_a_reason(
    kubelet: dict[str, Any], gate: bool, reason: str, message: str
) -> None:
    error = problem(kubelet=kubelet, gate=gate)

    assert error is not None
    assert error[0] == reason
    assert error[1].startswith(message)


def test_valid_expressions_are_accepted_by_every_ami_family() -> None:
    kubelet = {"maxPods": "vcpus * 10", "kubeReserved": {"cpu": "vcpus * 30"}}

    for family in ("AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom"):
        assert problem(family, kubelet=kubelet, gate=True) is None
