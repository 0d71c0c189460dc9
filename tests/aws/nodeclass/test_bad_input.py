"""Errors of AWS: the condition names the call, the message and advice."""

from collections.abc import Callable

import pytest

from dovetail.aws.nodeclass.resolver import NodeClassResolver
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.aws.credentials import NO_CREDENTIALS
from tests.support.aws.nodeclass_account import Account, NodeClassProcess

LOOKED_UP = {"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady"}


def test_expired_credentials_are_reported_on_every_condition(
    account: Account, process: NodeClassProcess
) -> None:
    account.fail("*", "ExpiredToken", message="The security token included is expired")

    result = process.resolve(a_class())

    assert set(reasons(result)) == LOOKED_UP
    text = message(result, "SubnetsReady")
    assert text.startswith("DescribeSubnets: ExpiredToken: The security token included is expired; ")
    assert "configure valid credentials for the controller" in text


def test_missing_credentials_are_reported(
    processes: Callable[..., NodeClassProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NO_CREDENTIALS.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    result = processes().resolve(a_class())

    assert set(reasons(result)) == LOOKED_UP
    assert "DescribeSubnets: NoCredentials: Unable to locate credentials; configure" in message(
        result, "SubnetsReady"
    )


def test_a_missing_region_is_reported(
    processes: Callable[..., NodeClassProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    result = processes(region=None).resolve(a_class())

    assert reasons(result)["SubnetsReady"] == "SubnetsResolutionFailed"
    assert "no AWS region is configured; set AWS_REGION" in message(result, "SubnetsReady")


def test_without_a_network_all_conditions_are_unknown(processes: Callable[..., NodeClassProcess]) -> None:
    # No process listens on port 9.
    result = processes(url="http://127.0.0.1:9").resolve(a_class())

    assert not result.false_conditions
    assert set(result.unknown_conditions) == {*LOOKED_UP, "ValidationSucceeded"}
    text = message(result, "SubnetsReady")
    assert text.startswith("DescribeSubnets: Unreachable: ")
    assert "http://127.0.0.1:9/" in text
    assert "it is retried; check the network if this continues" in text


def test_an_unavailable_service_leaves_the_condition_unknown(
    account: Account, process: NodeClassProcess
) -> None:
    account.fail("DescribeSubnets", "InternalError", status=500, message="oops")

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert set(result.unknown_conditions) == {"SubnetsReady", "ValidationSucceeded"}
    assert "securityGroups" in result.status


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "eks:eks-cluster-name",
        "kubernetes.io/cluster/mine",
    ],
)
def test_reserved_tags_are_rejected(process: NodeClassProcess, key: str) -> None:
    result = process.resolve(a_class(tags={key: "x", "karpenter.sh/other": "y"}))

    assert reasons(result) == {"ValidationSucceeded": "TagValidationFailed"}
    assert message(result, "ValidationSucceeded") == (f"spec.tags: {key!r} is set automatically; remove it")


@pytest.mark.parametrize("operation", ["DescribeSubnets", "DescribeSecurityGroups"])
def test_a_denied_call_is_reported_with_advice(
    account: Account, process: NodeClassProcess, operation: str
) -> None:
    account.fail(operation, message="no identity-based policy allows it")

    result = process.resolve(a_class())

    [(_, message)] = result.false_conditions.values()
    assert message == (
        f"{operation}: UnauthorizedOperation: no identity-based policy allows it;"
        " allow the action in the IAM policy of the controller's role"
    )


def test_kubelet_expressions_are_rejected_by_name(process: NodeClassProcess) -> None:
    result = process.resolve(a_class(kubelet={"maxPods": "vcpus * 10"}))

    assert reasons(result)["ValidationSucceeded"] == "KubeletExpressionsDisabled"
    assert message(result, "ValidationSucceeded") == (
        "spec.kubelet.maxPods: expressions need the feature gate NodeClassCEL"
    )


def test_a_kubelet_expression_that_fails_for_a_type_is_reported(process: NodeClassProcess) -> None:
    failures = [("maxPods", "is -1 for t3.nano, but must be 0 to 2147483647")]
    process.resolver = NodeClassResolver(
        process.parts,
        loop=process.loop,
        capacity=process.reservation_capacity,
        check_kubelet=lambda node_class: failures if node_class.kubelet.expressions else [],
    )

    result = process.resolve(a_class(kubelet={"maxPods": "default_enis - 3"}))

    assert reasons(result)["ValidationSucceeded"] == "KubeletExpressionEvaluationFailed"
    assert message(result, "ValidationSucceeded") == (
        "spec.kubelet.maxPods: is -1 for t3.nano, but must be 0 to 2147483647"
    )
