"""What a resource's attributes will be before it exists, where its name decides that."""

from typing import Any, Final

from dovetail.eks.plan.resource import Account, Resource

_ARNS: Final = {
    "iam-role": "arn:{partition}:iam::{account}:role{path}{name}",
    "iam-policy": "arn:{partition}:iam::{account}:policy{path}{name}",
    "instance-profile": "arn:{partition}:iam::{account}:instance-profile{path}{name}",
    "eks-cluster": "arn:{partition}:eks:{region}:{account}:cluster/{name}",
    "sqs-queue": "arn:{partition}:sqs:{region}:{account}:{name}",
    "event-rule": "arn:{partition}:events:{region}:{account}:rule/{name}",
    "log-group": "arn:{partition}:logs:{region}:{account}:log-group:{name}:*",
}
_NAMED: Final = ("iam-role", "instance-profile", "eks-cluster", "sqs-queue")
"""Kinds whose ``name`` others refer to."""


def predicted(resource: Resource, account: Account) -> dict[str, Any]:
    """Return the attributes that follow from a resource's name and the account."""
    known: dict[str, Any] = {}
    pattern = _ARNS.get(resource.kind)
    if pattern is not None:
        known["arn"] = pattern.format(
            partition=account.partition,
            account=account.account,
            region=account.region,
            path=resource.properties.get("Path", "/"),
            name=resource.name,
        )
    if resource.kind in _NAMED:
        known["name"] = resource.name
    if resource.kind == "sqs-queue":
        host = f"sqs.{account.region}.{account.dns_suffix}"
        known["url"] = f"https://{host}/{account.account}/{resource.name}"
    return known
