"""Values behind references: created, observed or predicted attributes."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from dovetail.eks.plan.references import AWS, Reference, UnresolvedReferenceError
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedState

_ARNS: Final = {
    "iam-role": "arn:{partition}:iam::{account}:role{path}{name}",
    "iam-policy": "arn:{partition}:iam::{account}:policy{path}{name}",
    "instance-profile": "arn:{partition}:iam::{account}:instance-profile{path}{name}",
    "eks-cluster": "arn:{partition}:eks:{region}:{account}:cluster/{name}",
    "sqs-queue": "arn:{partition}:sqs:{region}:{account}:{name}",
    "event-rule": "arn:{partition}:events:{region}:{account}:rule/{name}",
    "log-group": "arn:{partition}:logs:{region}:{account}:log-group:{name}:*",
}
_WITH_NAME: Final = ("iam-role", "instance-profile", "eks-cluster", "sqs-queue")
"""Kinds whose attribute ``name`` others refer to."""


def predict_attributes(resource: DesiredResource, account: Account) -> dict[str, Any]:
    """Return the attributes that follow from a resource's name and the account."""
    attributes: dict[str, Any] = {}
    pattern = _ARNS.get(resource.kind)
    if pattern is not None:
        attributes["arn"] = pattern.format(
            partition=account.partition,
            account=account.account,
            region=account.region,
            path=resource.properties.get("Path", "/"),
            name=resource.name,
        )
    if resource.kind in _WITH_NAME:
        attributes["name"] = resource.name
    if resource.kind == "sqs-queue":
        host = f"sqs.{account.region}.{account.dns_suffix}"
        attributes["url"] = f"https://{host}/{account.account}/{resource.name}"
    return attributes


def resolve_reference(
    reference: Reference,
    *,
    observed: ObservedState,
    desired: Mapping[str, DesiredResource],
    created: Mapping[str, Mapping[str, Any]] | None = None,
    replaced: Collection[str] = (),
) -> Any:
    """Return the value of a reference; raises ``UnresolvedReferenceError``.

    ``created`` holds the attributes of resources that a run has created so far, by
    address; they take precedence. Observed attributes of addresses in ``replaced``
    are ignored: these resources will be created again. Attributes that follow from
    a name are known before the resource exists.
    """
    address, attribute = reference.address, reference.attribute
    if address == AWS:
        return observed.account.attribute(attribute)
    current = observed.resources.get(address)
    sources: list[Mapping[str, Any]] = [created.get(address, {})] if created else []
    if current is not None and address not in replaced:
        sources.append(current.attributes)
    if address in desired and not desired[address].external:
        sources.append(predict_attributes(desired[address], observed.account))
    for attributes in sources:
        if attribute in attributes:
            return attributes[attribute]
    raise UnresolvedReferenceError(reference)
