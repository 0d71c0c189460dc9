"""Instance profiles: 49–54 and 66 of the AWS checklist."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dovetail.aws.nodeclass.instance_profiles import legacy_name
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.moto.door import Fault
from tests.support.moto_nodeclass import Account, ClassProcess


def profile(process: ClassProcess, **spec: Any) -> str:
    return str(process.resolve(a_class(**spec)).status["instanceProfile"])


def described(process: ClassProcess, name: str) -> dict[str, Any]:
    iam = process.aws.client("iam")
    found: dict[str, Any] = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    return found


def names(process: ClassProcess) -> list[str]:
    found = process.aws.client("iam").list_instance_profiles()["InstanceProfiles"]
    return [one["InstanceProfileName"] for one in found]


def test_a_class_with_a_role_gets_a_profile_with_path_tags_and_role(process: ClassProcess) -> None:
    name = profile(process, tags={"cost": "a"})

    found = described(process, name)
    assert name.startswith("demo_")
    assert found["Path"] == "/karpenter/eu-west-1/demo/uid-1/"
    assert [one["RoleName"] for one in found["Roles"]] == ["nodes"]
    assert {one["Key"]: one["Value"] for one in found["Tags"]} == {
        "cost": "a",
        "kubernetes.io/cluster/demo": "owned",
        "eks:eks-cluster-name": "demo",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "topology.kubernetes.io/region": "eu-west-1",
    }


def test_a_profile_that_lost_its_role_gets_it_again(
    process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    name = profile(process)
    iam = process.aws.client("iam")
    iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="nodes")

    assert profile(processes()) == name

    assert [one["RoleName"] for one in described(process, name)["Roles"]] == ["nodes"]


def test_a_profile_with_a_role_that_is_not_the_classes_is_left_alone(
    account: Account, process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    name = profile(process)
    iam = process.aws.client("iam")
    account.role(iam, "theirs")
    iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="nodes")
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName="theirs")

    other = profile(processes())

    assert other != name
    assert [one["RoleName"] for one in described(process, name)["Roles"]] == ["theirs"]
    assert [one["RoleName"] for one in described(process, other)["Roles"]] == ["nodes"]


def test_a_new_role_is_a_new_profile_and_the_old_one_stays_for_its_machines(
    account: Account, process: ClassProcess
) -> None:
    old = profile(process)
    account.role(process.aws.client("iam"), "others")

    new = profile(process, role="others")

    assert new != old
    assert sorted(names(process)) == sorted([old, new])
    assert profile(process) == old


def test_a_process_that_died_finds_the_profile_that_it_made(
    account: Account, process: ClassProcess, processes: Callable[..., ClassProcess]
) -> None:
    account.moto.door.script(
        Fault(operation="CreateInstanceProfile", hang_up=True, after_effect=True)
    )
    first = profile(process)

    second = profile(processes())

    assert first == second
    assert names(process) == [first]


def test_a_profile_is_asked_for_once_in_a_quarter_of_an_hour(
    account: Account, process: ClassProcess
) -> None:
    profile(process)
    before = account.calls("GetInstanceProfile")

    profile(process)

    assert account.calls("GetInstanceProfile") == before


def test_a_profile_of_the_users_own_is_taken_without_asking(
    account: Account, process: ClassProcess
) -> None:
    account.moto.door.reset()

    found = process.resolve(a_class(role=None, instanceProfile="mine"))

    assert found.status["instanceProfile"] == "mine"
    assert not [name for name in account.moto.door.calls if "InstanceProfile" in name]


def test_the_path_of_a_role_is_no_part_of_its_name(process: ClassProcess) -> None:
    found = described(process, profile(process, role="some/path/nodes"))

    assert [one["RoleName"] for one in found["Roles"]] == ["nodes"]


def test_a_role_that_does_not_exist_is_told_and_leaves_no_profile(
    account: Account, process: ClassProcess
) -> None:
    found = process.resolve(a_class(role="typo"))
    process.resolve(a_class(role="typo"))

    assert reasons(found) == {"InstanceProfileReady": "RoleNotFound"}
    told = message(found, "InstanceProfileReady")
    assert told.startswith("AddRoleToInstanceProfile: NoSuchEntity: ")
    assert "there is no role typo in this account; create it, or correct spec.role" in told
    assert names(process) == []
    assert account.calls("CreateInstanceProfile") == 1


def test_a_profile_that_cannot_be_finished_is_taken_away(
    account: Account, process: ClassProcess
) -> None:
    account.refuse("AddRoleToInstanceProfile", "AccessDenied", message="no iam:PassRole")

    found = process.resolve(a_class())

    assert reasons(found) == {"InstanceProfileReady": "InstanceProfileResolutionFailed"}
    assert "no iam:PassRole" in message(found, "InstanceProfileReady")
    assert names(process) == []


def test_profiles_that_nobody_names_are_collected_an_hour_after_they_were_asked_for(
    account: Account, process: ClassProcess
) -> None:
    iam = process.aws.client("iam")
    for role in ("old", "older"):
        account.role(iam, role)
    current, old, older = (profile(process, role=one) for one in ("nodes", "old", "older"))
    iam.create_instance_profile(InstanceProfileName="somebody-elses")

    process.do(process.profiles.collect([current, old]))
    assert older in names(process)
    process.loop.ahead = timedelta(minutes=61)
    process.do(process.profiles.collect([current, old]))

    assert sorted(names(process)) == sorted([current, old, "somebody-elses"])
    assert profile(process, role="older") == older


def test_the_names_of_old_karpenters_are_known() -> None:
    assert legacy_name("demo", "", "a") == f"demo_{0xAF63BD4C8601B7BE}"  # FNV-1 of "a".
