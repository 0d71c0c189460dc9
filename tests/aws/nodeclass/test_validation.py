"""Validation by dry run: 57–63 of the AWS checklist, and the size of user data."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.nodeclass.ami_aliases import published
from tests.aws.nodeclass.classes import a_class, annotated, message, reasons
from tests.support.moto_nodeclass import CLUSTER, Account, ClassProcess

DRY = ("CreateLaunchTemplate", "CreateFleet", "RunInstances")


def asked(account: Account) -> list[int]:
    return [account.calls(one) for one in DRY]


def instances(process: ClassProcess) -> list[Any]:
    return list(process.aws.ec2().describe_instances()["Reservations"])


def test_a_class_that_may_launch_is_found_well_and_nothing_is_launched(
    account: Account, process: ClassProcess
) -> None:
    found = process.resolve(a_class())

    assert not found.problems
    assert not found.unsure
    assert asked(account) == [1, 1, 1]
    assert instances(process) == []


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ],
)
def test_each_call_that_is_not_allowed_has_its_reason_and_all_that_ec2_said(
    account: Account, process: ClassProcess, operation: str, reason: str
) -> None:
    said = "with an explicit deny in a service control policy"
    account.refuse(operation, message=said)

    found = process.resolve(a_class())

    assert reasons(found) == {"ValidationSucceeded": reason}
    told = message(found, "ValidationSucceeded")
    assert told.startswith(f"{operation}: UnauthorizedOperation: {said}; allow it in the policies")


def test_one_subnet_in_which_launching_is_allowed_is_enough(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("RunInstances", times=2)

    found = process.resolve(a_class())

    assert not found.problems
    assert account.calls("RunInstances") == 3


def test_a_verdict_holds_for_half_an_hour_whatever_it_is(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("CreateFleet", times=1)
    assert process.resolve(a_class()).problems

    process.loop.ahead = timedelta(minutes=29)
    assert process.resolve(a_class()).problems
    process.loop.ahead = timedelta(minutes=31)

    assert not process.resolve(a_class()).problems
    assert asked(account)[1:] == [2, 1]


def test_an_annotation_asks_for_another_verdict(account: Account, process: ClassProcess) -> None:
    account.refuse("CreateFleet", times=1)
    assert process.resolve(a_class()).problems

    assert process.resolve(
        annotated(a_class(), **{"karpenter.k8s.aws/ec2nodeclass-hash": "1"})
    ).problems
    assert not process.resolve(annotated(a_class(), please="again")).problems


def test_throttling_says_nothing_about_a_class_and_is_not_remembered(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("CreateFleet", "RequestLimitExceeded", status=503, times=3)

    found = process.resolve(a_class())

    assert not found.problems
    assert set(found.unsure) == {"ValidationSucceeded"}
    assert not process.resolve(a_class()).unsure


def test_a_pool_that_is_sold_out_says_nothing_about_a_class(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("CreateFleet", "InsufficientInstanceCapacity", status=500)
    account.refuse("RunInstances", "Unsupported", status=400)

    assert not process.resolve(a_class()).problems


def test_a_tag_policy_that_is_broken_is_told_with_what_to_change(
    account: Account, process: ClassProcess
) -> None:
    said = "The tag policy does not allow the specified value for the tag key: cost"
    account.refuse("CreateFleet", "TagPolicyViolation", message=said, status=400)

    found = process.resolve(a_class(tags={"cost": "?"}))

    assert reasons(found) == {"ValidationSucceeded": "TagValidationFailed"}
    told = message(found, "ValidationSucceeded")
    assert (
        told
        == f"CreateFleet: TagPolicyViolation: {said}; change spec.tags as the tag policy wants it"
    )


NO_PROFILE = "Value (mine) for parameter iamInstanceProfile.name: Invalid IAM Instance Profile name"


def test_a_profile_that_the_user_names_and_nobody_made_is_told_and_looked_for_again(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("RunInstances", "InvalidParameterValue", message=NO_PROFILE, status=400, times=3)
    own = a_class(role=None, instanceProfile="mine")

    found = process.resolve(own)

    assert reasons(found) == {"ValidationSucceeded": "InstanceProfileNotFound"}
    assert "correct spec.instanceProfile" in message(found, "ValidationSucceeded")
    assert not process.resolve(own).problems


def test_a_profile_that_was_just_made_is_waited_for(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("RunInstances", "InvalidParameterValue", message=NO_PROFILE, status=400, times=3)

    found = process.resolve(a_class())

    assert not found.problems
    assert set(found.unsure) == {"ValidationSucceeded"}


def test_nothing_is_rehearsed_while_something_is_missing(
    account: Account, process: ClassProcess
) -> None:
    process.resolve(a_class(subnetSelectorTerms=[{"id": "subnet-none"}]))

    assert asked(account) == [0, 0, 0]


def test_the_dry_run_can_be_switched_off(
    account: Account, process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    account.refuse("CreateFleet")

    found = processes(disabled=True).resolve(a_class())

    assert not found.problems
    assert asked(account) == [0, 0, 0]


def test_what_was_made_for_a_verdict_goes_with_the_class(process: ClassProcess) -> None:
    process.resolve(a_class())
    assert process.aws.ec2().describe_launch_templates()["LaunchTemplates"]

    process.forget(a_class())

    assert process.aws.ec2().describe_launch_templates()["LaunchTemplates"] == []


def test_user_data_that_ec2_would_not_take_is_refused_at_once(
    account: Account, process: ClassProcess
) -> None:
    found = process.resolve(a_class(userData="x" * 16385))

    assert reasons(found) == {"ValidationSucceeded": "UserDataSizeLimitExceeded"}
    assert "16385 bytes" in message(found, "ValidationSucceeded")
    assert asked(account) == [0, 0, 0]
    assert not process.resolve(a_class(userData="x" * 16384)).problems


def test_user_data_that_cannot_be_merged_is_refused_at_once(process: ClassProcess) -> None:
    found = process.resolve(a_class(amiFamily="Bottlerocket", userData="not = [toml"))

    assert reasons(found) == {"ValidationSucceeded": "UserDataInvalid"}
    assert "userData is no TOML" in message(found, "ValidationSucceeded")


@pytest.mark.parametrize(
    ("network", "cidr"),
    [
        ({"serviceIpv4Cidr": "172.20.0.0/16"}, "172.20.0.0/16"),
        ({"serviceIpv6Cidr": "fd30::/108"}, "fd30::/108"),
    ],
)
def test_the_network_of_services_is_asked_of_eks_when_al2023_needs_it(
    account: Account,
    process: ClassProcess,
    processes: Callable[..., ClassProcess],
    network: dict[str, str],
    cidr: str,
) -> None:
    account.cluster({"name": "demo", "kubernetesNetworkConfig": network})
    blank = processes(cluster=msgspec.structs.replace(CLUSTER, cidr=""))

    found = blank.resolve(a_class(amiFamily="AL2023"))

    assert not found.problems
    assert blank.parts.facts.cluster.cidr == cidr


def test_a_network_of_services_that_is_not_found_concerns_al2023_only(
    account: Account, process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    blank = processes(cluster=msgspec.structs.replace(CLUSTER, cidr=""))

    found = blank.resolve(a_class(amiFamily="AL2023"))

    assert reasons(found) == {"ValidationSucceeded": "ClusterCIDRResolutionFailed"}
    assert "DescribeCluster: ResourceNotFoundException" in message(found, "ValidationSucceeded")
    assert not blank.resolve(a_class(amiFamily="AL2")).problems


def test_windows_is_rehearsed_like_the_others(account: Account, process: ClassProcess) -> None:
    [one] = published("windows2022@latest", "1.34")
    account.image("ami-win")
    account.parameter(one.parameter, "ami-win")
    alias = [{"alias": "windows2022@latest"}]

    found = process.resolve(a_class(amiFamily=None, amiSelectorTerms=alias))

    assert not found.problems
    assert asked(account) == [1, 1, 1]
