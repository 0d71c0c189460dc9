"""IAM documents as data: short ways to write statements and ARNs."""

from collections.abc import Sequence
from typing import Any

from dovetail.eks.plan.references import aws

Statement = dict[str, Any]
Document = dict[str, Any]
VERSION = "2012-10-17"


def document(*statements: Statement) -> Document:
    """Return a policy document of these statements."""
    return {"Version": VERSION, "Statement": list(statements)}


def allow(
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    condition: dict[str, Any] | None = None,
) -> Statement:
    """Return a statement that allows actions on resources, under a condition if any."""
    statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": list(resources),
    }
    return {**statement, "Condition": condition} if condition else statement


def arn(
    service: str, resource: str, *, region: str | None = None, account: str | None = None
) -> str:
    """Return an ARN in this account and region, unless told otherwise."""
    where = aws("region") if region is None else region
    whose = aws("account") if account is None else account
    return f"arn:{aws('partition')}:{service}:{where}:{whose}:{resource}"


def managed(name: str) -> str:
    """Return the ARN of a policy that AWS maintains."""
    return f"arn:{aws('partition')}:iam::aws:policy/{name}"
