"""Runs that are cut off, answers that get lost, and what comes after."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dovetail.eks.apply.executor import StepFailed, carry_out
from dovetail.eks.session import Site
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount
from tests.support.moto.door import Fault

pytestmark = pytest.mark.slow

MAKING = (
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
"""Not SQS and EventBridge: those take the same creation twice."""


def _one_step_a_run(account: TestAccount, name: str) -> None:
    spec = account.prepared(name)
    whole = len(account.plan(spec).steps)

    runs = 0
    while account.apply(spec, steps=1).done:
        runs += 1

    assert runs == whole
    assert account.plan(spec).steps == ()
    assert account.destroy(spec) == []


def test_a_run_that_is_stopped_after_every_step_gets_there_in_the_same_steps(
    account: TestAccount,
) -> None:
    _one_step_a_run(account, "existing-cluster")


@pytest.mark.parametrize(
    "name", ["tainted-node-group", "fargate", "managed-node-group", "existing-vpc"]
)
def test_every_example_bears_a_stop_after_every_step(account: TestAccount, name: str) -> None:
    _one_step_a_run(account, name)


def test_an_answer_that_gets_lost_makes_nothing_twice(account: TestAccount) -> None:
    spec = account.prepared("tainted-node-group")
    for operation in MAKING:
        account.moto.door.script(Fault(operation=operation, after_effect=True, hang_up=True))

    account.apply(spec)

    assert account.plan(spec).steps == ()
    vpcs = account.client("ec2", spec.region).describe_vpcs(
        Filters=[{"Name": "tag:dovetail.sh/cluster", "Values": [spec.name]}]
    )
    assert len(vpcs["Vpcs"]) == 1


@pytest.mark.parametrize(
    "slow", [(), ("CreateVpc", "CreateInternetGateway", "AllocateAddress", "CreateRouteTable")]
)
def test_whatever_two_runs_of_one_file_at_once_have_made_can_be_taken_away(
    account: TestAccount, slow: tuple[str, ...]
) -> None:
    spec = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 2}})
    # Long enough that both have looked before either has made anything.
    account.moto.door.latency.update(dict.fromkeys(slow, 0.5))

    with ThreadPoolExecutor(2) as both:
        for one in [both.submit(account.apply, spec) for _ in range(2)]:
            one.exception()
    account.moto.door.reset()

    assert account.destroy(spec) == []
    ours = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    assert account.client("ec2").describe_vpcs(Filters=ours)["Vpcs"] == []


NOT_SEEN_YET = {
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


def test_what_aws_does_not_show_everywhere_at_once_is_waited_for(account: TestAccount) -> None:
    spec = a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 2}})
    planned = account.plan(spec)
    for operation, code in NOT_SEEN_YET.items():
        account.moto.door.script(Fault(operation=operation, code=code, status=400, times=2))

    run = account.apply(spec)

    assert len(run.done) == len(planned.steps)
    account.moto.door.reset()
    assert account.plan(spec).steps == ()


def test_a_step_that_fails_stops_the_run_and_the_next_run_goes_on(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    refused = Fault(operation="CreateQueue", code="AccessDenied", status=403, times=10_000)
    account.moto.door.script(refused)

    with pytest.raises(StepFailed, match="create sqs-queue/platform-one: CreateQueue"):
        account.apply(spec)
    account.moto.door.reset()
    account.apply(spec)

    assert account.plan(spec).steps == ()


def test_a_stop_lets_what_is_under_way_end_and_begins_nothing_new(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")

    async def run(site: Site) -> Any:
        plan, observed = await site.plan()
        stop = asyncio.Event()
        stop.set()
        return await carry_out(plan, site.executor(observed), stop=stop)

    told = account.do(spec, run)

    assert told.done == ()
    assert len(told.left) == len(account.plan(spec).steps)


def test_what_is_cut_off_while_it_is_taken_away_is_taken_away_by_the_next_run(
    account: TestAccount,
) -> None:
    spec = account.prepared("existing-vpc")
    account.apply(spec)
    refused = Fault(operation="DeleteSecurityGroup", code="AccessDenied", status=403, times=10_000)
    account.moto.door.script(refused)

    with pytest.raises(StepFailed):
        account.destroy(spec)
    account.moto.door.reset()

    assert account.destroy(spec) == []
