"""Instance profiles: 49–54 and 66 of the AWS checklist."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dovetail.aws.nodeclass.instance_profiles import legacy_profile_name
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.aws.nodeclass_account import Account, NodeClassProcess
from tests.support.moto.middleware import ScriptedError


def profile(process: NodeClassProcess, **spec: Any) -> str:
    return str(process.resolve(a_class(**spec)).status["instanceProfile"])


def described(process: NodeClassProcess, name: str) -> dict[str, Any]:
    iam = process.aws.client("iam")
    result: dict[str, Any] = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    return result


def names(process: NodeClassProcess) -> list[str]:
    result = process.aws.client("iam").list_instance_profiles()["InstanceProfiles"]
    return [entry["InstanceProfileName"] for entry in result]


def test_a_role_gets_a_profile_with_path_tags_and_role(process: NodeClassProcess) -> None:
    name = profile(process, tags={"cost": "a"})

    result = described(process, name)
    assert name.startswith("demo_")
    assert result["Path"] == "/karpenter/eu-west-1/demo/uid-1/"
    assert [entry["RoleName"] for entry in result["Roles"]] == ["nodes"]
    assert {entry["Key"]: entry["Value"] for entry in result["Tags"]} == {
        "cost": "a",
        "kubernetes.io/cluster/demo": "owned",
        "eks:eks-cluster-name": "demo",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "topology.kubernetes.io/region": "eu-west-1",
    }


def test_a_profile_without_its_role_is_repaired(
    process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    name = profile(process)
    iam = process.aws.client("iam")
    iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="nodes")

    assert profile(processes()) == name

    assert [entry["RoleName"] for entry in described(process, name)["Roles"]] == ["nodes"]


def test_a_profile_with_another_role_is_not_touched(
    account: Account, process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    name = profile(process)
    iam = process.aws.client("iam")
    account.role(iam, "theirs")
    iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="nodes")
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName="theirs")

    other = profile(processes())

    assert other != name
    assert [entry["RoleName"] for entry in described(process, name)["Roles"]] == ["theirs"]
    assert [entry["RoleName"] for entry in described(process, other)["Roles"]] == ["nodes"]


def test_a_new_role_gets_a_new_profile_and_the_old_one_stays(
    account: Account, process: NodeClassProcess
) -> None:
    old = profile(process)
    account.role(process.aws.client("iam"), "others")

    new = profile(process, role="others")

    assert new != old
    assert sorted(names(process)) == sorted([old, new])
    assert profile(process) == old


def test_a_restarted_process_finds_its_profile(
    account: Account, process: NodeClassProcess, processes: Callable[..., NodeClassProcess]
) -> None:
    account.moto.middleware.add_error(
        ScriptedError(operation="CreateInstanceProfile", hang_up=True, after_effect=True)
    )
    first = profile(process)

    second = profile(processes())

    assert first == second
    assert names(process) == [first]


def test_a_profile_is_cached_for_a_quarter_of_an_hour(account: Account, process: NodeClassProcess) -> None:
    profile(process)
    before = account.calls("GetInstanceProfile")

    profile(process)

    assert account.calls("GetInstanceProfile") == before


def test_a_configured_profile_is_used_without_a_call(account: Account, process: NodeClassProcess) -> None:
    account.moto.middleware.reset()

    result = process.resolve(a_class(role=None, instanceProfile="mine"))

    assert result.status["instanceProfile"] == "mine"
    assert not [name for name in account.moto.middleware.calls if "InstanceProfile" in name]


def test_the_path_of_a_role_is_ignored(process: NodeClassProcess) -> None:
    result = described(process, profile(process, role="some/path/nodes"))

    assert [entry["RoleName"] for entry in result["Roles"]] == ["nodes"]


def test_a_missing_role_is_reported_and_leaves_no_profile(
    account: Account, process: NodeClassProcess
) -> None:
    result = process.resolve(a_class(role="typo"))
    process.resolve(a_class(role="typo"))

    assert reasons(result) == {"InstanceProfileReady": "RoleNotFound"}
    text = message(result, "InstanceProfileReady")
    assert text.startswith("AddRoleToInstanceProfile: NoSuchEntity: ")
    assert "there is no role typo in this account; create it, or correct spec.role" in text
    assert names(process) == []
    assert account.calls("CreateInstanceProfile") == 1


def test_an_incomplete_profile_is_deleted(account: Account, process: NodeClassProcess) -> None:
    account.fail("AddRoleToInstanceProfile", "AccessDenied", message="no iam:PassRole")

    result = process.resolve(a_class())

    assert reasons(result) == {"InstanceProfileReady": "InstanceProfileResolutionFailed"}
    assert "no iam:PassRole" in message(result, "InstanceProfileReady")
    assert names(process) == []


def test_a_role_whose_response_was_lost_is_not_an_error(account: Account, process: NodeClassProcess) -> None:
    account.fail("AddRoleToInstanceProfile", "InternalError", status=500, times=1, after_effect=True)

    result = process.resolve(a_class())

    assert not result.false_conditions
    assert not result.unknown_conditions
    (name,) = names(process)
    assert [entry["RoleName"] for entry in described(process, name)["Roles"]] == ["nodes"]


def test_a_profile_is_kept_while_its_role_cannot_be_added(
    account: Account, process: NodeClassProcess
) -> None:
    account.fail("AddRoleToInstanceProfile", "Throttling", status=400, times=3)

    first = process.resolve(a_class())
    name = profile(process)

    assert "InstanceProfileReady" in first.unknown_conditions
    assert names(process) == [name]
    assert account.calls("DeleteInstanceProfile") == 0


def test_a_profile_is_deleted_although_a_response_was_lost(
    account: Account, process: NodeClassProcess
) -> None:
    profile(process)
    account.fail("RemoveRoleFromInstanceProfile", "InternalError", status=500, times=1, after_effect=True)
    account.fail("RemoveRoleFromInstanceProfile", "NoSuchEntity", status=404, times=1)
    account.fail("DeleteInstanceProfile", "InternalError", status=500, times=1, after_effect=True)

    process.delete_resources(a_class())

    assert names(process) == []


def test_unused_profiles_are_collected_an_hour_after_their_last_use(
    account: Account, process: NodeClassProcess
) -> None:
    iam = process.aws.client("iam")
    for role in ("old", "older"):
        account.role(iam, role)
    current, old, older = (profile(process, role=entry) for entry in ("nodes", "old", "older"))
    iam.create_instance_profile(InstanceProfileName="foreign")

    process.do(process.profiles.collect_garbage([current, old]))
    assert older in names(process)
    process.loop.ahead = timedelta(minutes=61)
    process.do(process.profiles.collect_garbage([current, old]))

    assert sorted(names(process)) == sorted([current, old, "foreign"])
    assert profile(process, role="older") == older


def test_collection_of_profiles_goes_on_after_an_error_and_waits_for_the_cache(
    account: Account, process: NodeClassProcess
) -> None:
    account.role(process.aws.client("iam"), "old")
    current, old = (profile(process, role=entry) for entry in ("nodes", "old"))
    process.loop.ahead = timedelta(minutes=61)
    account.fail("ListInstanceProfiles", "AccessDenied", status=403, times=1)
    rounds: list[list[str] | None] = [None, [current], [current]]

    class Rounds:
        """An event loop on which each half hour passes at once, until no round is left."""

        async def sleep(self, _: timedelta) -> None:
            if not rounds:
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        process.do(process.profiles.run_garbage_collection(lambda: rounds.pop(0), loop=Rounds()))

    # Without the cache nothing is deleted; the second round failed, the third deletes.
    assert names(process) == [current]
    assert old != current
    assert len(process.log.entries("failed collecting instance profiles")) == 1


def test_legacy_profile_names_are_computed() -> None:
    assert legacy_profile_name("demo", "", "a") == f"demo_{0xAF63BD4C8601B7BE}"  # FNV-1 of "a".
