"""The doctor only reads: its AWS calls and Kubernetes requests are listed here."""

import asyncio
from collections import Counter

import boto3
import pytest

from dovetail.aws.session import AwsSession
from dovetail.doctor.gather import gather_cluster_facts
from dovetail.doctor.run import run_checks
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.doctor.sources.read_only_client import ReadOnlyAws
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from tests.doctor.account import Account, Calls, gather_aws
from tests.doctor.cluster import Cluster
from tests.doctor.conftest import initial_facts
from tests.doctor.server import serve

AWS_CALLS = {
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
    "ListOpenIDConnectProviders",
    "ListPodIdentityAssociations",
    "ListRolePolicies",
    "ListRuleNamesByTarget",
}
"""Permissions that the doctor needs; the guide lists them, too."""


def test_only_read_requests_are_made(account: Account) -> None:
    cluster = Cluster(account.instance)
    key = account.kms.create_key()["KeyMetadata"]["Arn"]
    account.encrypt_by_default(key)
    account.add_inline_policy()
    account.iam.create_instance_profile(InstanceProfileName="demo_1")
    session = boto3.Session("test", "test", region_name="us-east-1")
    calls = Calls(session)

    async def gather() -> tuple[Counter[str], set[str]]:
        async with serve(cluster) as (server, access):
            connection = open_connection(access)
            try:
                facts = await gather_cluster_facts(initial_facts(), connection)
            finally:
                await connection.close()
            facts = await gather_aws(facts, account.moto, session)
        run_checks(facts)
        return Counter(method for method, _ in server.requests), {path for _, path in server.requests}

    methods, paths = asyncio.run(gather())

    assert set(calls.counts) == AWS_CALLS
    assert calls.counts["DescribeSubnets"] == calls.counts["DescribeCluster"] == 1
    assert set(methods) == {"GET"}
    assert not any("secrets" in path for path in paths)


def test_write_operation_is_rejected_before_it_is_made() -> None:
    async def request() -> None:
        threads = ThreadExecutor(1)
        try:
            aws = AwsSession(
                loop=AsyncioEventLoop(), executor=threads, random=SystemRandomSource(), region="us-east-1"
            )
            await ReadOnlyAws(aws).request("ec2", "TerminateInstances", InstanceIds=["i-1"])
        finally:
            threads.close()

    with pytest.raises(ValueError, match="is not a read-only operation"):
        asyncio.run(request())
