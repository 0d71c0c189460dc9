"""What IAM's kinds share: names that begin with the cluster's, documents, tags."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from dovetail.infra.kinds.shapes import tag_list, tag_map
from dovetail.infra.reach import Raw, Reach
from dovetail.infra.resources import OWNER_TAG, Resource


def document(told: Any) -> Any:
    """Return a policy document as data, whether boto3 has decoded it or not."""
    return json.loads(unquote(told)) if isinstance(told, str) else told


async def names_of_ours(
    reach: Reach, listing: tuple[str, str, str], tags: tuple[str, str], **given: Any
) -> list[str]:
    """Return the names of what is tagged as the cluster's.

    IAM cannot search by tag, and asking for the tags of everything in an account
    takes minutes. So only what is named after the cluster is asked: all that we
    make is.
    """
    method, key, name_key = listing
    listed = await reach.ask_all("iam", method, key, **given)
    ours: list[str] = []
    for raw in listed:
        if not raw[name_key].startswith(reach.cluster):
            continue
        which = {tags[1]: raw[tags[1]]}
        told = await reach.ask_if_there("iam", tags[0], **which)
        if told and tag_map(told.get("Tags")).get(OWNER_TAG) == reach.cluster:
            ours.append(raw[name_key])
    return ours


async def write_tags(
    reach: Reach, method: str, which: Mapping[str, str], resource: Resource
) -> None:
    """Put a resource's tags on it."""
    await reach.ask("iam", method, **which, Tags=tag_list(resource.tags))


OLDEST_VERSIONS: Final = 4
"""A policy has at most five versions; this many leave room for one."""


def attached_arns(told: list[Raw]) -> list[str]:
    """Return the ARNs from a list of attached policies."""
    return [one["PolicyArn"] for one in told]
