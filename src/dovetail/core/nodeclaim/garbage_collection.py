"""Garbage collection: NodeClaims without instance, and instances without NodeClaim."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.model.karpenter.condition_types import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject

MIN_ORPHAN_AGE: Final = timedelta(seconds=30)
"""Time for a NodeClaim to record the provider ID of its instance."""


class RunningInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that is not terminating."""

    provider_id: str
    claim: str = ""
    """NodeClaim in its tags."""
    launched: datetime | None = None


def find_claims_without_instance(
    claims: Iterable[NodeClaim],
    instances: Iterable[RunningInstance],
    nodes_of: Callable[[str], tuple[NodeObject, ...]],
) -> list[NodeClaim]:
    """Return the registered NodeClaims whose instance is gone.

    A ready node contradicts the cloud's list and takes precedence. NodeClaims that
    are not registered have their own timeout.
    """
    there = {instance.provider_id for instance in instances}
    return [
        claim
        for claim in claims
        if claim.node_class.is_supported
        and not claim.deleting
        and is_true(claim.conditions, REGISTERED)
        and claim.provider_id not in there
        and not any(node.ready for node in nodes_of(claim.provider_id))
    ]


def find_orphaned_instances(
    instances: Iterable[RunningInstance], claims: Iterable[NodeClaim], now: datetime
) -> list[RunningInstance]:
    """Return the instances without NodeClaim that are old enough.

    NodeClaims must be read after instances. Otherwise a NodeClaim created in
    between would be missing, and its instance would be terminated.
    """
    claimed: set[str] = set()
    awaited: set[str] = set()
    for claim in claims:
        if claim.provider_id:
            claimed.add(claim.provider_id)
        else:
            awaited.add(claim.name)
    return [
        instance
        for instance in instances
        if instance.provider_id not in claimed
        and instance.claim not in awaited
        and instance.launched is not None
        and now - instance.launched >= MIN_ORPHAN_AGE
    ]
