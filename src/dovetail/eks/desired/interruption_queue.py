"""The queue of AWS's warnings, who may write to it, and the rules that do."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.eks.desired.names import Names
from dovetail.eks.iam.other_policies import queue_policy
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Resource

RULES: Final = (
    ("health", "aws.health", "AWS Health Event"),
    ("spot", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    ("state", "aws.ec2", "EC2 Instance State-change Notification"),
    (
        "reservation",
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
)
RETENTION_SECONDS: Final = 300
"""A warning that nobody read in five minutes is of no use any more."""


def interruption(names: Names) -> Iterator[Resource]:
    """Hand out the queue, its policy and its rules."""
    queue = f"sqs-queue/{names.cluster}"
    yield Resource(
        kind="sqs-queue",
        name=names.cluster,
        properties={
            "QueueName": names.cluster,
            "MessageRetentionPeriod": RETENTION_SECONDS,
            "SqsManagedSseEnabled": True,
        },
        why="AWS's warnings to the controller",
    )
    yield Resource(
        kind="sqs-queue-policy",
        name=names.cluster,
        properties={
            "Queues": [ref(queue, "url")],
            "PolicyDocument": queue_policy(ref(queue, "arn")),
        },
        why="who may write to the queue",
    )
    for short, source, detail in RULES:
        pattern: dict[str, Any] = {"source": [source], "detail-type": [detail]}
        name = f"{names.cluster}-{short}"
        yield Resource(
            kind="event-rule",
            name=name,
            properties={
                "Name": name,
                "Description": detail,
                "EventPattern": pattern,
                "State": "ENABLED",
                "Targets": [{"Id": "queue", "Arn": ref(queue, "arn")}],
            },
            depends_on=(f"sqs-queue-policy/{names.cluster}",),
        )
