"""Looking changes nothing: every call to AWS and every request to Kubernetes is listed."""

import asyncio
from collections import Counter

import boto3
import pytest

from dovetail.aws.session import Aws
from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.gather import facts_of_cluster
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.doctor.sources.read_only_client import Account as Looked
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from tests.doctor.account import Account, Calls, asked_of_aws
from tests.doctor.cluster import Cluster
from tests.doctor.conftest import given
from tests.doctor.serving import served

ALL_CALLS = {
    "DescribeAccessEntry",
    "DescribeCapacityReservations",
    "DescribeCluster",
    "DescribeInstances",
    "DescribeKey",
    "DescribeLaunchTemplates",
    "DescribeNetworkInterfaces",
    "DescribePodIdentityAssociation",
    "DescribeRouteTables",
    "DescribeRule",
    "DescribeSecurityGroups",
    "DescribeSubnets",
    "DescribeVpcEndpoints",
    "GetCallerIdentity",
    "GetEbsDefaultKmsKeyId",
    "GetEbsEncryptionByDefault",
    "GetInstanceProfile",
    "GetKeyPolicy",
    "GetPolicy",
    "GetPolicyVersion",
    "GetQueueAttributes",
    "GetQueueUrl",
    "GetRole",
    "GetRolePolicy",
    "ListAccessEntries",
    "ListAttachedRolePolicies",
    "ListGrants",
    "ListInstanceProfiles",
    "ListPodIdentityAssociations",
    "ListRolePolicies",
    "ListRuleNamesByTarget",
}
"""Whoever may make these may ask the doctor; the guide says so."""


def test_only_questions_are_asked(account: Account) -> None:
    cluster = Cluster(account.instance)
    key = account.kms.create_key()["KeyMetadata"]["Arn"]
    account.encrypt_by_default(key)
    account.write_inline()
    account.iam.create_instance_profile(InstanceProfileName="demo_1")
    session = boto3.Session("test", "test", region_name="us-east-1")
    calls = Calls(session)

    async def look() -> tuple[Counter[str], set[str]]:
        async with served(cluster) as (server, access):
            connection = open_connection(access)
            try:
                facts = await facts_of_cluster(given(), connection)
            finally:
                await connection.close()
            facts = await asked_of_aws(facts, account.moto, session)
        examined(facts, CHECKS)
        return Counter(method for method, _ in server.asked), {path for _, path in server.asked}

    methods, paths = asyncio.run(look())

    assert set(calls.made) == ALL_CALLS
    assert calls.made["DescribeSubnets"] == calls.made["DescribeCluster"] == 1
    assert set(methods) == {"GET"}
    assert not any("secrets" in path for path in paths)


def test_an_operation_that_might_change_something_is_refused_before_it_is_made() -> None:
    async def ask() -> None:
        threads = ThreadOffload(1)
        try:
            aws = Aws(loop=AsyncioLoop(), offload=threads, chance=RealChance(), region="us-east-1")
            await Looked(aws).ask("ec2", "TerminateInstances", InstanceIds=["i-1"])
        finally:
            threads.close()

    with pytest.raises(ValueError, match="might change something"):
        asyncio.run(ask())
