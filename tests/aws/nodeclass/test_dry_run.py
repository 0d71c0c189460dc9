"""Validation by dry run: 57–63 of the AWS checklist, and the size of user data."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from dovetail.aws.amifamily.registry import alias_parameters
from tests.aws.nodeclass.classes import a_class, annotated, message, reasons
from tests.support.aws.nodeclass_account import CLUSTER, Account, NodeClassProcess

DRY = ("CreateLaunchTemplate", "CreateFleet", "RunInstances")


def asked(account: Account) -> list[int]:
    return [account.calls(entry) for entry in DRY]


def instances(process: NodeClassProcess) -> list[Any]:
    return list(process.aws.ec2().describe_instances()["Reservations"])


def test_a_valid_node_class_passes_the_dry_run_and_launches_nothing(
    account: Account, process: NodeClassProcess
) -> None:
    result = process.resolve(a_class())

    assert not result.false_conditions
    assert not result.unknown_conditions
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
def test_each_denied_call_has_its_reason_and_message(
    account: Account, process: NodeClassProcess, operation: str, reason: str
) -> None:
    said = "with an explicit deny in a service control policy"
    account.fail(operation, message=said)

    result = process.resolve(a_class())

    assert reasons(result) == {"ValidationSucceeded": reason}
    text = message(result, "ValidationSucceeded")
    assert text.startswith(f"{operation}: UnauthorizedOperation: {said}; allow the action in the IAM policy")


def test_one_subnet_in_which_launching_is_allowed_is_enough(
    account: Account, process: NodeClassProcess
) -> None:
    account.fail("RunInstances", times=2)

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert account.calls("RunInstances") == 3


def test_everything_that_run_instances_creates_is_tagged_in_the_request(
    account: Account, process: NodeClassProcess
) -> None:
    requests: list[dict[str, list[str]]] = []

    def record(body: bytes) -> None:
        requests.append(parse_qs(body.decode()))

    account.moto.middleware.rejections["RunInstances"] = record
    process.resolve(a_class(tags={"cost": "a"}))

    [request] = requests
    fields = [f"TagSpecification.{number}" for number in (1, 2, 3)]
    tagged = {request[f"{field}.ResourceType"][0] for field in fields}
    keys = {
        tuple(
            sorted(
                value for name, [value] in request.items() if re.fullmatch(rf"{field}\.Tag\.\d+\.Key", name)
            )
        )
        for field in fields
    }
    assert tagged == {"instance", "volume", "network-interface"}
    assert keys == {
        (
            "cost",
            "eks:eks-cluster-name",
            "karpenter.k8s.aws/ec2nodeclass",
            "karpenter.sh/nodepool",
            "kubernetes.io/cluster/demo",
        )
    }


def test_tags_that_leave_no_room_for_those_of_a_node_are_reported(
    account: Account, process: NodeClassProcess
) -> None:
    tags = {f"tag-{number}": "x" for number in range(44)}

    result = process.resolve(a_class(tags=tags))
    del tags["tag-0"]
    fits = process.resolve(a_class("fits", uid="uid-2", tags=tags))

    assert reasons(result) == {"ValidationSucceeded": "TagValidationFailed"}
    assert "spec.tags has 44 tags" in message(result, "ValidationSucceeded")
    assert "need 7 of them; remove 1 from spec.tags" in message(result, "ValidationSucceeded")
    assert not fits.false_conditions


def test_a_dry_run_result_is_cached_for_half_an_hour(account: Account, process: NodeClassProcess) -> None:
    account.fail("CreateFleet", times=1)
    assert process.resolve(a_class()).false_conditions

    process.loop.ahead = timedelta(minutes=29)
    assert process.resolve(a_class()).false_conditions
    process.loop.ahead = timedelta(minutes=31)

    assert not process.resolve(a_class()).false_conditions
    assert asked(account)[1:] == [2, 1]


def test_an_annotation_invalidates_the_dry_run_result(account: Account, process: NodeClassProcess) -> None:
    account.fail("CreateFleet", times=1)
    assert process.resolve(a_class()).false_conditions

    assert process.resolve(
        annotated(a_class(), **{"karpenter.k8s.aws/ec2nodeclass-hash": "1"})
    ).false_conditions
    assert not process.resolve(annotated(a_class(), please="again")).false_conditions


def test_throttling_is_not_cached_as_a_dry_run_result(account: Account, process: NodeClassProcess) -> None:
    account.fail("CreateFleet", "RequestLimitExceeded", status=503, times=3)

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert set(result.unknown_conditions) == {"ValidationSucceeded"}
    assert not process.resolve(a_class()).unknown_conditions


def test_missing_capacity_does_not_fail_the_dry_run(account: Account, process: NodeClassProcess) -> None:
    account.fail("CreateFleet", "InsufficientInstanceCapacity", status=500)
    account.fail("RunInstances", "Unsupported", status=400)

    assert not process.resolve(a_class()).false_conditions


def test_a_tag_policy_violation_is_reported_with_advice(account: Account, process: NodeClassProcess) -> None:
    said = "The tag policy does not allow the specified value for the tag key: cost"
    account.fail("CreateFleet", "TagPolicyViolation", message=said, status=400)

    result = process.resolve(a_class(tags={"cost": "?"}))

    assert reasons(result) == {"ValidationSucceeded": "TagValidationFailed"}
    text = message(result, "ValidationSucceeded")
    assert text == f"CreateFleet: TagPolicyViolation: {said}; change spec.tags to comply with the tag policy"


NO_PROFILE = "Value (mine) for parameter iamInstanceProfile.name: Invalid IAM Instance Profile name"


def test_a_missing_configured_profile_is_reported_and_retried(
    account: Account, process: NodeClassProcess
) -> None:
    own = a_class(role=None, instanceProfile="mine")

    result = process.resolve(own)
    process.aws.client("iam").create_instance_profile(InstanceProfileName="mine")

    assert reasons(result) == {"ValidationSucceeded": "InstanceProfileNotFound"}
    assert "correct spec.instanceProfile" in message(result, "ValidationSucceeded")
    assert not process.resolve(own).false_conditions


def test_a_new_profile_is_retried_until_ec2_sees_it(account: Account, process: NodeClassProcess) -> None:
    account.fail("RunInstances", "InvalidParameterValue", message=NO_PROFILE, status=400, times=3)

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert set(result.unknown_conditions) == {"ValidationSucceeded"}


@pytest.mark.parametrize("operation", ["CreateFleet", "RunInstances"])
def test_a_new_launch_template_is_retried_until_ec2_sees_it(
    account: Account, process: NodeClassProcess, operation: str
) -> None:
    code = "InvalidLaunchTemplateName.NotFoundException"
    account.fail(operation, code, status=400, times=1 if operation == "CreateFleet" else 3)

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert set(result.unknown_conditions) == {"ValidationSucceeded"}
    again = process.resolve(a_class())
    assert not again.false_conditions
    assert not again.unknown_conditions


def test_no_dry_run_while_a_part_is_missing(account: Account, process: NodeClassProcess) -> None:
    process.resolve(a_class(subnetSelectorTerms=[{"id": "subnet-none"}]))

    assert asked(account) == [0, 0, 0]


def test_the_dry_run_can_be_disabled(
    account: Account, process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    account.fail("CreateFleet")

    result = processes(disabled=True).resolve(a_class())

    assert not result.false_conditions
    assert asked(account) == [0, 0, 0]


def test_templates_of_a_dry_run_are_deleted_with_the_node_class(process: NodeClassProcess) -> None:
    process.resolve(a_class())
    assert process.aws.ec2().describe_launch_templates()["LaunchTemplates"]

    process.delete_resources(a_class())

    assert process.aws.ec2().describe_launch_templates()["LaunchTemplates"] == []


def test_user_data_above_the_limit_is_rejected(account: Account, process: NodeClassProcess) -> None:
    result = process.resolve(a_class(userData="x" * 16385))

    assert reasons(result) == {"ValidationSucceeded": "UserDataSizeLimitExceeded"}
    assert "16385 bytes" in message(result, "ValidationSucceeded")
    assert asked(account) == [0, 0, 0]
    assert not process.resolve(a_class(userData="x" * 16384)).false_conditions


def test_user_data_that_cannot_be_merged_is_rejected(process: NodeClassProcess) -> None:
    result = process.resolve(a_class(amiFamily="Bottlerocket", userData="not = [toml"))

    assert reasons(result) == {"ValidationSucceeded": "UserDataInvalid"}
    assert "userData is not TOML" in message(result, "ValidationSucceeded")


@pytest.mark.parametrize(
    ("network", "cidr"),
    [
        ({"serviceIpv4Cidr": "172.20.0.0/16"}, "172.20.0.0/16"),
        ({"serviceIpv6Cidr": "fd30::/108"}, "fd30::/108"),
    ],
)
def test_the_service_cidr_is_read_from_eks_for_al2023(
    account: Account,
    process: NodeClassProcess,
    processes: Callable[..., NodeClassProcess],
    network: dict[str, str],
    cidr: str,
) -> None:
    account.cluster({"name": "demo", "kubernetesNetworkConfig": network})
    blank = processes(cluster=msgspec.structs.replace(CLUSTER, cidr=""))

    result = blank.resolve(a_class(amiFamily="AL2023"))

    assert not result.false_conditions
    assert blank.parts.cluster.info.cidr == cidr


def test_a_missing_service_cidr_affects_al2023_only(
    account: Account, process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    blank = processes(cluster=msgspec.structs.replace(CLUSTER, cidr=""))

    result = blank.resolve(a_class(amiFamily="AL2023"))

    assert reasons(result) == {"ValidationSucceeded": "ClusterCIDRResolutionFailed"}
    assert "DescribeCluster: ResourceNotFoundException" in message(result, "ValidationSucceeded")
    assert not blank.resolve(a_class(amiFamily="AL2")).false_conditions


def test_windows_is_dry_run_like_the_others(account: Account, process: NodeClassProcess) -> None:
    [entry] = alias_parameters("windows2022@latest", "1.34")
    account.image("ami-win")
    account.parameter(entry.name, "ami-win")
    alias = [{"alias": "windows2022@latest"}]

    result = process.resolve(a_class(amiFamily=None, amiSelectorTerms=alias))

    assert not result.false_conditions
    assert asked(account) == [1, 1, 1]
