"""Facts from AWS, read part by part, so that an error affects one part only."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.session import AwsSession
from dovetail.doctor.facts import AwsFacts, Need, Part
from dovetail.doctor.sources import ec2, eks, iam
from dovetail.doctor.sources.query import AwsFields, AwsQuery
from dovetail.doctor.sources.read_only_client import ReadOnlyAws

AwsResult = tuple[AwsFacts, Mapping[Need, str]]


async def _queue(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the interruption queue of the controller's settings, if any."""
    if not query.queue:
        return {}
    try:
        url = await account.request("sqs", "GetQueueUrl", QueueName=query.queue)
        response = await account.request(
            "sqs", "GetQueueAttributes", QueueUrl=url["QueueUrl"], AttributeNames=["All"]
        )
    except AwsError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return {"queue": None}
        raise
    attributes = response.get("Attributes") or {}
    names = await account.list_items(
        "events", "ListRuleNamesByTarget", "RuleNames", TargetArn=attributes["QueueArn"]
    )
    rules = [await account.request("events", "DescribeRule", Name=name) for name in names]
    return {"queue": attributes, "rules": tuple(rules)}


READERS: Final[Mapping[Part, Callable[[ReadOnlyAws, AwsQuery], Awaitable[AwsFields]]]] = {
    Part.CLUSTER: eks.cluster,
    Part.CLUSTER_NAME: eks.cluster_exists,
    Part.ACCESS: eks.access,
    Part.POD_IDENTITIES: eks.pod_identities,
    Part.NODE_ROLES: iam.node_roles,
    Part.CONTROLLER_ROLE: iam.controller_role,
    Part.CONTROLLER_IDENTITY: iam.controller_identity,
    Part.OIDC_PROVIDERS: iam.oidc_providers,
    Part.SPOT_ROLE: iam.spot_role,
    Part.NETWORK: ec2.network,
    Part.CLUSTER_GROUPS: ec2.cluster_groups,
    Part.ROUTES: ec2.routes,
    Part.ENDPOINTS: ec2.endpoints,
    Part.INSTANCES: ec2.instances,
    Part.PROFILES: iam.profiles,
    Part.RESERVATIONS: ec2.reservations,
    Part.ENCRYPTION: iam.encryption,
    Part.QUEUE: _queue,
}
"""Reader of each part; the keys of its result are fields of ``AwsFacts``."""


def unreadable(reason: str) -> AwsResult:
    """Return facts with every AWS part unknown."""
    return AwsFacts(), dict.fromkeys(READERS, reason)


async def aws_facts(aws: AwsSession, query: AwsQuery) -> AwsResult:
    """Read all parts concurrently."""
    account = ReadOnlyAws(aws)
    try:
        identity = await account.request("sts", "GetCallerIdentity")
    except AwsError as error:
        return unreadable(str(error))
    if not query.cluster:
        reason = "the cluster's name is unknown; set --cluster-name"
        return unreadable(reason)
    fields: AwsFields = {"account": str(identity["Account"]), "partition": str(identity["Arn"]).split(":")[1]}
    unseen: dict[Need, str] = {}
    results = await asyncio.gather(*(_read(read, account, query) for read in READERS.values()))
    for part, result in zip(READERS, results, strict=True):
        if isinstance(result, AwsError):
            unseen[part] = str(result)
        else:
            fields |= result
    return AwsFacts(**fields), unseen


async def _read(
    read: Callable[[ReadOnlyAws, AwsQuery], Awaitable[AwsFields]], account: ReadOnlyAws, query: AwsQuery
) -> AwsFields | AwsError:
    try:
        return await read(account, query)
    except AwsError as error:
        return error
