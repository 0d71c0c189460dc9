"""Interrupted runs, lost responses, and the runs after them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dovetail.eks.apply.executor import StepError, execute_plan
from dovetail.eks.session import ClusterSession
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount
from tests.support.moto.middleware import ScriptedError

pytestmark = pytest.mark.slow

CREATE_OPERATIONS = (
    "CreateVpc",
    "CreateSubnet",
    "CreateInternetGateway",
    "CreateRouteTable",
    "AllocateAddress",
    "CreateNatGateway",
    "CreateSecurityGroup",
    "AuthorizeSecurityGroupIngress",
    "CreateLaunchTemplate",
    "CreateRole",
    "CreatePolicy",
)
"""Without SQS and EventBridge, whose creation is idempotent."""


def _apply_one_step_per_run(account: TestAccount, name: str) -> None:
    config = account.prepared(name)
    total = len(account.plan(config).steps)

    runs = 0
    while account.apply(config, steps=1).done:
        runs += 1

    assert runs == total
    assert account.plan(config).steps == ()
    assert account.destroy(config) == []


def test_run_stopped_after_every_step_finishes_in_the_same_steps(account: TestAccount) -> None:
    _apply_one_step_per_run(account, "existing-cluster")


@pytest.mark.parametrize(
    "name", ["tainted-node-group", "fargate", "managed-node-group", "existing-vpc", "ipv6"]
)
def test_every_example_can_be_stopped_after_every_step(account: TestAccount, name: str) -> None:
    _apply_one_step_per_run(account, name)


def test_lost_response_creates_nothing_twice(account: TestAccount) -> None:
    config = account.prepared("tainted-node-group")
    for operation in CREATE_OPERATIONS:
        account.moto.middleware.add_error(ScriptedError(operation=operation, after_effect=True, hang_up=True))

    account.apply(config)

    assert account.plan(config).steps == ()
    vpcs = account.client("ec2", config.region).describe_vpcs(
        Filters=[{"Name": "tag:dovetail.sh/cluster", "Values": [config.name]}]
    )
    assert len(vpcs["Vpcs"]) == 1


@pytest.mark.parametrize(
    "slow", [(), ("CreateVpc", "CreateInternetGateway", "AllocateAddress", "CreateRouteTable")]
)
def test_resources_of_two_concurrent_runs_can_be_destroyed(
    account: TestAccount, slow: tuple[str, ...]
) -> None:
    config = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 2}})
    # Long enough that both runs observe before either creates anything.
    account.moto.middleware.latency.update(dict.fromkeys(slow, 0.5))

    with ThreadPoolExecutor(2) as executor:
        for future in [executor.submit(account.apply, config) for _ in range(2)]:
            future.exception()
    account.moto.middleware.reset()

    assert account.destroy(config) == []
    owned = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    assert account.client("ec2").describe_vpcs(Filters=owned)["Vpcs"] == []


NOT_VISIBLE_YET = {
    "CreateSubnet": "InvalidVpcID.NotFound",
    "CreateRouteTable": "InvalidVpcID.NotFound",
    "AssociateRouteTable": "InvalidSubnetID.NotFound",
    "CreateRoute": "InvalidRouteTableID.NotFound",
    "AttachInternetGateway": "InvalidInternetGatewayID.NotFound",
    "CreateNatGateway": "InvalidAllocationID.NotFound",
    "CreateSecurityGroup": "InvalidVpcID.NotFound",
    "AuthorizeSecurityGroupIngress": "InvalidGroup.NotFound",
    "AttachRolePolicy": "NoSuchEntity",
    "GetRole": "NoSuchEntity",
}


def test_eventually_consistent_resources_are_retried(account: TestAccount) -> None:
    config = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 2}})
    plan = account.plan(config)
    for operation, code in NOT_VISIBLE_YET.items():
        account.moto.middleware.add_error(ScriptedError(operation=operation, code=code, status=400, times=2))

    run = account.apply(config)

    assert len(run.done) == len(plan.steps)
    account.moto.middleware.reset()
    assert account.plan(config).steps == ()


def test_failed_step_stops_the_run_and_the_next_run_continues(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    denied = ScriptedError(operation="CreateQueue", code="AccessDenied", status=403, times=10_000)
    account.moto.middleware.add_error(denied)

    with pytest.raises(StepError, match="create sqs-queue/platform-one: CreateQueue"):
        account.apply(config)
    account.moto.middleware.reset()
    account.apply(config)

    assert account.plan(config).steps == ()


def test_stop_starts_no_further_step(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")

    async def run(session: ClusterSession) -> Any:
        plan, observed = await session.plan()
        stop = asyncio.Event()
        stop.set()
        return await execute_plan(plan, session.executor(observed), stop=stop)

    result = account.run(config, run)

    assert result.done == ()
    assert len(result.remaining) == len(account.plan(config).steps)


def test_interrupted_destroy_is_finished_by_the_next_run(account: TestAccount) -> None:
    config = account.prepared("existing-vpc")
    account.apply(config)
    denied = ScriptedError(operation="DeleteSecurityGroup", code="AccessDenied", status=403, times=10_000)
    account.moto.middleware.add_error(denied)

    with pytest.raises(StepError):
        account.destroy(config)
    account.moto.middleware.reset()

    assert account.destroy(config) == []
