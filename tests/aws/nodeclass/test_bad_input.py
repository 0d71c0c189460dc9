"""What goes wrong around a class: the condition says which call, what AWS said, what to do."""

from collections.abc import Callable

import pytest

from tests.aws.ec2 import NO_CREDENTIALS
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.moto_nodeclass import Account, ClassProcess

LOOKED_UP = {"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady"}


def test_credentials_that_have_expired_are_told_on_every_condition(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("*", "ExpiredToken", message="The security token included is expired")

    found = process.resolve(a_class())

    assert set(reasons(found)) == LOOKED_UP
    told = message(found, "SubnetsReady")
    assert told.startswith(
        "DescribeSubnets: ExpiredToken: The security token included is expired; "
    )
    assert "give the controller credentials that are valid now" in told


def test_no_credentials_at_all_are_told(
    processes: Callable[..., ClassProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NO_CREDENTIALS.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    found = processes().resolve(a_class())

    assert set(reasons(found)) == LOOKED_UP
    assert "DescribeSubnets: NoCredentials: Unable to locate credentials; give" in message(
        found, "SubnetsReady"
    )


def test_no_region_is_told(
    processes: Callable[..., ClassProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    found = processes(region=None).resolve(a_class())

    assert reasons(found)["SubnetsReady"] == "SubnetsResolutionFailed"
    assert "no AWS region is known; set AWS_REGION" in message(found, "SubnetsReady")


def test_no_network_leaves_everything_unsure_and_says_what_was_tried(
    processes: Callable[..., ClassProcess],
) -> None:
    # Nobody listens on port 9 of this machine.
    found = processes(url="http://127.0.0.1:9").resolve(a_class())

    assert not found.problems
    assert set(found.unsure) == {*LOOKED_UP, "ValidationSucceeded"}
    told = message(found, "SubnetsReady")
    assert told.startswith("DescribeSubnets: Unreachable: ")
    assert "http://127.0.0.1:9/" in told
    assert "it will be tried again; check the network if this goes on" in told


def test_a_service_that_is_down_leaves_what_it_is_asked_for_unsure(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("DescribeSubnets", "InternalError", status=500, message="oops")

    found = process.resolve(a_class())

    assert not found.problems
    assert set(found.unsure) == {"SubnetsReady", "ValidationSucceeded"}
    assert "securityGroups" in found.status


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
def test_tags_that_are_ours_are_refused_although_the_api_took_them(
    process: ClassProcess, key: str
) -> None:
    found = process.resolve(a_class(tags={key: "x", "karpenter.sh/other": "y"}))

    assert reasons(found) == {"ValidationSucceeded": "TagValidationFailed"}
    assert message(found, "ValidationSucceeded") == (
        f"spec.tags: {key!r} is set for you; leave it out"
    )


@pytest.mark.parametrize("operation", ["DescribeSubnets", "DescribeSecurityGroups"])
def test_a_call_that_is_not_allowed_is_told_with_what_to_do(
    account: Account, process: ClassProcess, operation: str
) -> None:
    account.refuse(operation, message="no identity-based policy allows it")

    found = process.resolve(a_class())

    [(_, told)] = found.problems.values()
    assert told == (
        f"{operation}: UnauthorizedOperation: no identity-based policy allows it;"
        " allow it in the policies of the controller's role"
    )


def test_kubelet_settings_as_expressions_are_refused_by_their_name(process: ClassProcess) -> None:
    found = process.resolve(a_class(kubelet={"maxPods": "vcpus * 10"}))

    assert reasons(found)["ValidationSucceeded"] == "KubeletExpressionsDisabled"
    assert message(found, "ValidationSucceeded") == (
        "spec.kubelet.maxPods: expressions are not supported; write a number or a quantity"
    )
