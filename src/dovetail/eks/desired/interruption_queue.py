"""Desired interruption queue: SQS queue, its policy and EventBridge rules."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.eks.desired.names import Names
from dovetail.eks.iam.other_policies import queue_policy
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource

# Suffix of the rule's name, event source, detail type.
RULES: Final = (
    ("health", "aws.health", "AWS Health Event"),
    ("spot", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    ("state", "aws.ec2", "EC2 Instance State-change Notification"),
    ("reservation", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
)
RETENTION_SECONDS: Final = 300
"""A warning older than five minutes is useless: a spot interruption gives two."""


def desired_interruption_queue(names: Names) -> Iterator[DesiredResource]:
    """Yield the queue, its policy and its rules."""
    queue = f"sqs-queue/{names.cluster}"
    yield DesiredResource(
        kind="sqs-queue",
        name=names.cluster,
        properties={
            "QueueName": names.cluster,
            "MessageRetentionPeriod": RETENTION_SECONDS,
            "SqsManagedSseEnabled": True,
        },
        purpose="interruption events for the controller",
    )
    yield DesiredResource(
        kind="sqs-queue-policy",
        name=names.cluster,
        properties={"Queues": [ref(queue, "url")], "PolicyDocument": queue_policy(ref(queue, "arn"))},
        purpose="lets EventBridge send to the queue",
    )
    for suffix, source, detail_type in RULES:
        pattern: dict[str, Any] = {"source": [source], "detail-type": [detail_type]}
        name = f"{names.cluster}-{suffix}"
        yield DesiredResource(
            kind="event-rule",
            name=name,
            properties={
                "Name": name,
                "Description": detail_type,
                "EventPattern": pattern,
                "State": "ENABLED",
                "Targets": [{"Id": "queue", "Arn": ref(queue, "arn")}],
            },
            depends_on=(f"sqs-queue-policy/{names.cluster}",),
        )
