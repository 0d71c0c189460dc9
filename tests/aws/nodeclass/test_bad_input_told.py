"""Bad input from AWS to the user: a condition, one log line, and nobody dies or spins.

What the real adapter says of each is put before the controller that tells it, for
ten minutes of virtual time.
"""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.ports.api_resources import EC2_NODE_CLASSES
from dovetail.ports.cloudprovider import ClassStatus
from tests.aws.nodeclass.classes import a_class
from tests.support.moto_nodeclass import Account, ClassProcess
from tests.support.world import World

Processes = Callable[..., ClassProcess]


def a_wrong_role(account: Account, process: ClassProcess, _: Processes) -> ClassStatus:
    return process.resolve(a_class(role="nobody"))


def a_missing_subnet(account: Account, process: ClassProcess, _: Processes) -> ClassStatus:
    return process.resolve(a_class(subnetSelectorTerms=[{"id": "subnet-0123"}]))


def a_tag_policy(account: Account, process: ClassProcess, _: Processes) -> ClassStatus:
    account.refuse("CreateFleet", "TagPolicyViolation", message="not that value", status=400)
    return process.resolve(a_class(tags={"cost": "?"}))


def expired_credentials(account: Account, process: ClassProcess, _: Processes) -> ClassStatus:
    account.refuse("*", "ExpiredToken", message="The security token included is expired")
    return process.resolve(a_class())


def no_region(_: Account, __: ClassProcess, processes: Processes) -> ClassStatus:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        return processes(region=None).resolve(a_class())


def no_network(_: Account, __: ClassProcess, processes: Processes) -> ClassStatus:
    # Nobody listens on port 9 of this machine.
    return processes(url="http://127.0.0.1:9").resolve(a_class())


@pytest.mark.parametrize(
    ("trouble", "condition", "call", "said", "advice"),
    [
        (a_wrong_role, "InstanceProfileReady", "AddRoleToInstanceProfile", "nobody", "spec.role"),
        (a_missing_subnet, "SubnetsReady", "", "no subnet", "subnet-0123"),
        (a_tag_policy, "ValidationSucceeded", "CreateFleet", "TagPolicyViolation", "change"),
        (expired_credentials, "SubnetsReady", "DescribeSubnets", "ExpiredToken", "credentials"),
        (no_region, "SubnetsReady", "ec2", "NoRegion", "set AWS_REGION"),
        (no_network, "SubnetsReady", "DescribeSubnets", "Unreachable", "check the network"),
    ],
)
def test_it_is_told_once_and_asked_again_in_peace(
    account: Account,
    process: ClassProcess,
    processes: Processes,
    trouble: Callable[[Account, ClassProcess, Processes], ClassStatus],
    condition: str,
    call: str,
    said: str,
    advice: str,
) -> None:
    world = World()
    world.cloud.resolved = trouble(account, process, processes)

    world.run(nodeclass.registration)
    world.add(EC2_NODE_CLASSES, a_class())
    world.wait(600)

    told = shown(world)[condition]
    assert told["status"] in ("False", "Unknown")
    assert shown(world)["Ready"]["status"] == told["status"]
    for text in (call, said, advice):
        assert text in told["message"]
    [line] = [one for one in world.log.lines if condition in one.fields.get("condition", "")]
    for text in (said, advice):
        assert text in line.fields["error"]
    # Every minute; every five seconds where nobody answers.
    assert 10 <= len(world.cloud.calls("resolve")) <= 10 * 60 / 5 + 2


def shown(world: World) -> dict[str, dict[str, Any]]:
    known = world.get(EC2_NODE_CLASSES, "default")["status"]["conditions"]
    return {one["type"]: one for one in known}
