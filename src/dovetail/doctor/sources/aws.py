"""Facts from AWS: every part by itself, so that one refusal spoils one part."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from dovetail.aws.errors import AwsError
from dovetail.aws.session import Aws
from dovetail.doctor.facts import AWS_PARTS, AwsFacts, Need, Part
from dovetail.doctor.sources import ec2, eks, iam
from dovetail.doctor.sources import interruption_queue as messages
from dovetail.doctor.sources.query import Asked
from dovetail.doctor.sources.read_only_client import Account

Found = dict[str, Any]
Seen = tuple[AwsFacts, Mapping[Need, str]]

READERS: Final[Mapping[Part, Callable[[Account, Asked], Awaitable[Found]]]] = {
    Part.CLUSTER: eks.cluster,
    Part.ACCESS: eks.access,
    Part.POD_IDENTITIES: eks.pod_identities,
    Part.NODE_ROLES: iam.node_roles,
    Part.CONTROLLER_ROLE: iam.controller_role,
    Part.SPOT_ROLE: iam.spot_role,
    Part.NETWORK: ec2.network,
    Part.ROUTES: ec2.routes,
    Part.ENDPOINTS: ec2.endpoints,
    Part.MACHINES: ec2.machines,
    Part.PROFILES: iam.profiles,
    Part.RESERVATIONS: ec2.reservations,
    Part.ENCRYPTION: iam.encryption,
    Part.QUEUE: messages.queue,
}
"""What is read for each part; names in the answer are fields of ``AwsFacts``."""


def unreadable(why: str) -> Seen:
    """Return that nothing of AWS was seen."""
    return AwsFacts(), dict.fromkeys(AWS_PARTS, why)


async def aws_facts(aws: Aws, asked: Asked) -> Seen:
    """Read every part at the same time."""
    account = Account(aws)
    try:
        who = await account.ask("sts", "GetCallerIdentity")
    except AwsError as error:
        return unreadable(str(error))
    if not asked.cluster:
        why = "the cluster's name is not known; give --cluster-name"
        return unreadable(why)
    fields: Found = {
        "account": str(who["Account"]),
        "partition": str(who["Arn"]).split(":")[1],
    }
    unseen: dict[Need, str] = {}
    answers = await asyncio.gather(*(_read(read, account, asked) for read in READERS.values()))
    for part, answer in zip(READERS, answers, strict=True):
        if isinstance(answer, AwsError):
            unseen[part] = str(answer)
        else:
            fields |= answer
    return AwsFacts(**fields), unseen


async def _read(
    read: Callable[[Account, Asked], Awaitable[Found]], account: Account, asked: Asked
) -> Found | AwsError:
    try:
        return await read(account, asked)
    except AwsError as error:
        return error
