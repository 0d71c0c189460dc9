"""Errors of AWS reach the user: a condition, one log line, no crash, no hot loop.

The controller gets the result of the real adapter for each error, and runs for ten
minutes of virtual time.
"""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.ports.api_resources import EC2_NODE_CLASSES
from dovetail.ports.cloudprovider import NodeClassStatus
from tests.aws.nodeclass.classes import a_class
from tests.support.aws.nodeclass_account import Account, NodeClassProcess
from tests.support.controllers.environment import ControllerEnvironment

Processes = Callable[..., NodeClassProcess]


def a_wrong_role(account: Account, process: NodeClassProcess, _: Processes) -> NodeClassStatus:
    return process.resolve(a_class(role="missing-role"))


def a_missing_subnet(account: Account, process: NodeClassProcess, _: Processes) -> NodeClassStatus:
    return process.resolve(a_class(subnetSelectorTerms=[{"id": "subnet-0123"}]))


def a_tag_policy(account: Account, process: NodeClassProcess, _: Processes) -> NodeClassStatus:
    account.fail("CreateFleet", "TagPolicyViolation", message="not that value", status=400)
    return process.resolve(a_class(tags={"cost": "?"}))


def expired_credentials(account: Account, process: NodeClassProcess, _: Processes) -> NodeClassStatus:
    account.fail("*", "ExpiredToken", message="The security token included is expired")
    return process.resolve(a_class())


def no_region(_: Account, __: NodeClassProcess, processes: Processes) -> NodeClassStatus:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        return processes(region=None).resolve(a_class())


def no_network(_: Account, __: NodeClassProcess, processes: Processes) -> NodeClassStatus:
    # No process listens on port 9.
    return processes(url="http://127.0.0.1:9").resolve(a_class())


@pytest.mark.parametrize(
    ("resolve_with_error", "condition", "call", "reason", "advice"),
    [
        (a_wrong_role, "InstanceProfileReady", "AddRoleToInstanceProfile", "missing-role", "spec.role"),
        (a_missing_subnet, "SubnetsReady", "", "no subnet", "subnet-0123"),
        (a_tag_policy, "ValidationSucceeded", "CreateFleet", "TagPolicyViolation", "change"),
        (expired_credentials, "SubnetsReady", "DescribeSubnets", "ExpiredToken", "credentials"),
        (no_region, "SubnetsReady", "ec2", "NoRegion", "set AWS_REGION"),
        (no_network, "SubnetsReady", "DescribeSubnets", "Unreachable", "check the network"),
    ],
)
def test_an_error_is_logged_once_and_retried(
    account: Account,
    process: NodeClassProcess,
    processes: Processes,
    resolve_with_error: Callable[[Account, NodeClassProcess, Processes], NodeClassStatus],
    condition: str,
    call: str,
    reason: str,
    advice: str,
) -> None:
    env = ControllerEnvironment()
    env.cloud.resolved = resolve_with_error(account, process, processes)

    env.run(nodeclass.controller)
    env.add(EC2_NODE_CLASSES, a_class())
    env.wait(600)

    message = shown(env)[condition]
    assert message["status"] in ("False", "Unknown")
    assert shown(env)["Ready"]["status"] == message["status"]
    for text in (call, reason, advice):
        assert text in message["message"]
    [line] = [line for line in env.log.lines if condition in line.fields.get("condition", "")]
    for text in (reason, advice):
        assert text in line.fields["error"]
    # Every minute; every five seconds without a response.
    assert 10 <= len(env.cloud.calls("resolve")) <= 10 * 60 / 5 + 2


def shown(env: ControllerEnvironment) -> dict[str, dict[str, Any]]:
    expected = env.get(EC2_NODE_CLASSES, "default")["status"]["conditions"]
    return {entry["type"]: entry for entry in expected}
