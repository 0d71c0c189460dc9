"""Taking away what was made for a class: 55 and 56 of the AWS checklist."""

from collections.abc import Callable

import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.nodeclass.instance_profiles import legacy_profile_name
from tests.aws.nodeclass.classes import a_class
from tests.support.aws.nodeclass_account import REGION, Account, NodeClassProcess


def profiles(process: NodeClassProcess) -> list[str]:
    result = process.aws.client("iam").list_instance_profiles()["InstanceProfiles"]
    return [entry["InstanceProfileName"] for entry in result]


def templates(process: NodeClassProcess) -> int:
    return len(process.aws.ec2().describe_launch_templates()["LaunchTemplates"])


def test_all_profiles_and_templates_of_the_node_class_are_deleted_and_no_others(
    account: Account, process: NodeClassProcess
) -> None:
    account.role(process.aws.client("iam"), "others")
    process.resolve(a_class())
    process.resolve(a_class(role="others"))
    kept = process.resolve(a_class("other", uid="uid-2")).status["instanceProfile"]
    assert (len(profiles(process)), templates(process)) == (3, 3)

    process.delete_resources(a_class())
    process.delete_resources(a_class())

    assert profiles(process) == [kept]
    assert templates(process) == 1


def test_a_legacy_profile_is_deleted_too(process: NodeClassProcess) -> None:
    old = legacy_profile_name("demo", REGION, "default")
    iam = process.aws.client("iam")
    iam.create_instance_profile(InstanceProfileName=old)
    iam.add_role_to_instance_profile(InstanceProfileName=old, RoleName="nodes")

    process.delete_resources(a_class())

    assert profiles(process) == []


def test_a_recreated_node_class_gets_a_new_profile(process: NodeClassProcess) -> None:
    first = process.resolve(a_class()).status["instanceProfile"]
    process.delete_resources(a_class())

    again = process.resolve(a_class()).status["instanceProfile"]

    assert profiles(process) == [again] == [first]


def test_a_failed_deletion_is_an_error(account: Account, process: NodeClassProcess) -> None:
    process.resolve(a_class())
    account.fail("DeleteLaunchTemplate", times=1)

    with pytest.raises(AwsError, match="DeleteLaunchTemplate: UnauthorizedOperation"):
        process.delete_resources(a_class())
    process.delete_resources(a_class())

    assert (profiles(process), templates(process)) == ([], 0)


def test_isolated_clusters_do_not_call_iam(
    account: Account, process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    account.moto.middleware.reset()

    processes(isolated=True).delete_resources(a_class())

    assert account.calls("ListInstanceProfiles") == 0
    assert account.calls("DescribeLaunchTemplates") == 1


def test_a_configured_profile_needs_no_iam_permissions(account: Account, process: NodeClassProcess) -> None:
    account.fail("ListInstanceProfiles", "AccessDenied")

    process.delete_resources(a_class(role=None, instanceProfile="mine"))
    with pytest.raises(AwsError, match="ListInstanceProfiles: AccessDenied"):
        process.delete_resources(a_class())
