"""Taking away what was made for a class: 55 and 56 of the AWS checklist."""

from collections.abc import Callable

import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.nodeclass.instance_profiles import legacy_name
from tests.aws.nodeclass.classes import a_class
from tests.support.moto_nodeclass import REGION, Account, ClassProcess


def profiles(process: ClassProcess) -> list[str]:
    found = process.aws.client("iam").list_instance_profiles()["InstanceProfiles"]
    return [one["InstanceProfileName"] for one in found]


def templates(process: ClassProcess) -> int:
    return len(process.aws.ec2().describe_launch_templates()["LaunchTemplates"])


def test_all_profiles_and_templates_of_the_class_go_and_those_of_others_stay(
    account: Account, process: ClassProcess
) -> None:
    account.role(process.aws.client("iam"), "others")
    process.resolve(a_class())
    process.resolve(a_class(role="others"))
    kept = process.resolve(a_class("other", uid="uid-2")).status["instanceProfile"]
    assert (len(profiles(process)), templates(process)) == (3, 3)

    process.forget(a_class())
    process.forget(a_class())

    assert profiles(process) == [kept]
    assert templates(process) == 1


def test_the_profile_of_an_old_karpenter_goes_as_well(process: ClassProcess) -> None:
    old = legacy_name("demo", REGION, "default")
    iam = process.aws.client("iam")
    iam.create_instance_profile(InstanceProfileName=old)
    iam.add_role_to_instance_profile(InstanceProfileName=old, RoleName="nodes")

    process.forget(a_class())

    assert profiles(process) == []


def test_a_class_made_anew_under_the_same_name_gets_a_profile_again(process: ClassProcess) -> None:
    first = process.resolve(a_class()).status["instanceProfile"]
    process.forget(a_class())

    again = process.resolve(a_class()).status["instanceProfile"]

    assert profiles(process) == [again] == [first]


def test_what_cannot_be_taken_away_is_an_error(account: Account, process: ClassProcess) -> None:
    process.resolve(a_class())
    account.refuse("DeleteLaunchTemplate", times=1)

    with pytest.raises(AwsError, match="DeleteLaunchTemplate: UnauthorizedOperation"):
        process.forget(a_class())
    process.forget(a_class())

    assert (profiles(process), templates(process)) == ([], 0)


def test_where_iam_cannot_be_reached_it_is_not_asked(
    account: Account, process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    account.moto.door.reset()

    processes(isolated=True).forget(a_class())

    assert account.calls("ListInstanceProfiles") == 0
    assert account.calls("DescribeLaunchTemplates") == 1


def test_who_brings_a_profile_need_not_let_us_near_iam(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("ListInstanceProfiles", "AccessDenied")

    process.forget(a_class(role=None, instanceProfile="mine"))
    with pytest.raises(AwsError, match="ListInstanceProfiles: AccessDenied"):
        process.forget(a_class())
