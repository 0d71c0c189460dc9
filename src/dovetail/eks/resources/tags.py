"""Tags of resources: written together, and taken away if the file no longer has them."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.eks.aws_client import AwsClient
from dovetail.eks.plan.diff import removed_tags
from dovetail.eks.plan.resource import DesiredResource, ObservedResource
from dovetail.eks.resources.property_names import tag_list

_MAP_SERVICES: Final = ("eks", "logs", "sqs")
"""Services that take tags as a map; the others take a list of Key and Value."""
_LOWER_CASE_SERVICES: Final = ("eks", "logs")
"""Services whose parameters begin with a lower-case letter."""


async def write_tags(
    aws: AwsClient,
    service: str,
    noun: str,
    identity: Mapping[str, Any],
    *,
    observed: ObservedResource,
    resource: DesiredResource,
) -> None:
    """Set the desired tags, and delete those that the file had before.

    ``noun`` is the object of the method: "role" of tag_role. Deletion comes first:
    the tag with the names of the file's tags is the only record of them.
    """
    lower = service in _LOWER_CASE_SERVICES
    removed = removed_tags(resource, observed)
    if removed:
        key = "tagKeys" if lower else "TagKeys"
        await aws.call(service, f"untag_{noun}", **identity, **{key: removed})
    tags: Any = dict(resource.tags) if service in _MAP_SERVICES else tag_list(resource.tags)
    await aws.call(service, f"tag_{noun}", **identity, **{"tags" if lower else "Tags": tags})


async def write_ec2_tags(
    aws: AwsClient, resource_id: str, *, observed: ObservedResource, resource: DesiredResource
) -> None:
    """Do the same for a resource of EC2."""
    removed = [{"Key": key} for key in removed_tags(resource, observed)]
    if removed:
        await aws.call("ec2", "delete_tags", Resources=[resource_id], Tags=removed)
    await aws.call("ec2", "create_tags", Resources=[resource_id], Tags=tag_list(resource.tags))
