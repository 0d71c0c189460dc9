"""Facts from SQS and EventBridge: the queue of AWS's warnings, and who writes to it."""

from typing import Any

from dovetail.aws.errors import AwsError, Kind
from dovetail.doctor.sources.query import Asked
from dovetail.doctor.sources.read_only_client import Account

Found = dict[str, Any]


async def queue(account: Account, asked: Asked) -> Found:
    """Read the queue that the controller was told of; without one there is nothing to read."""
    if not asked.queue:
        return {}
    try:
        url = await account.ask("sqs", "GetQueueUrl", QueueName=asked.queue)
        told = await account.ask(
            "sqs", "GetQueueAttributes", QueueUrl=url["QueueUrl"], AttributeNames=["All"]
        )
    except AwsError as error:
        if error.kind is Kind.GONE:
            return {"queue": None}
        raise
    attributes = told.get("Attributes") or {}
    names = await account.listed(
        "events", "ListRuleNamesByTarget", "RuleNames", TargetArn=attributes["QueueArn"]
    )
    rules = [await account.ask("events", "DescribeRule", Name=one) for one in names]
    return {"queue": attributes, "rules": tuple(rules)}
