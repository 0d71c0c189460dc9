"""What IAM's kinds share: names that begin with the cluster's, documents, tags."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.property_names import tag_list


def document(told: Any) -> Any:
    """Return a policy document as data, whether boto3 has decoded it or not."""
    return json.loads(unquote(told)) if isinstance(told, str) else told


async def named_after(reach: Reach, method: str, key: str, name: str) -> list[str]:
    """Return the names of what may be ours by its name.

    IAM cannot search by tag, and asking for the tags of everything in an account
    takes minutes. So only what is named after the cluster, or begins with the
    prefix that the file names, is looked at: all that we make is.
    """
    listed = await reach.ask_all("iam", method, key)
    return [raw[name] for raw in listed if raw[name].startswith(reach.prefixes)]


def known(
    found: Iterable[Existing | Exception | None], wanted: Iterable[Resource], cluster: str
) -> list[Existing]:
    """Return of what was looked at what is wanted, or is tagged as the cluster's."""
    names = {one.name for one in wanted}
    kept: list[Existing] = []
    for one in found:
        if isinstance(one, Exception):
            raise one
        if one is not None and (one.name in names or one.tags.get(OWNER_TAG) == cluster):
            kept.append(one)
    return kept


async def write_tags(
    reach: Reach, method: str, which: Mapping[str, str], resource: Resource
) -> None:
    """Put a resource's tags on it."""
    await reach.ask("iam", method, **which, Tags=tag_list(resource.tags))


def attached_arns(told: list[Raw]) -> list[str]:
    """Return the ARNs from a list of attached policies."""
    return [one["PolicyArn"] for one in told]
