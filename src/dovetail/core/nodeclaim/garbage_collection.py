"""What is left over: claims whose machine is gone, and machines that nobody claims."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.core.nodeclaim.lifecycle import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject

YOUNGEST_ORPHAN: Final = timedelta(seconds=30)
"""So long may a claim take to say which machine is its own."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A machine in the cloud that is not on its way out."""

    provider_id: str
    claim: str = ""
    """For which it was bought, as its tags say."""
    launched: datetime | None = None


def abandoned(
    claims: Iterable[NodeClaim],
    machines: Iterable[Seen],
    nodes_of: Callable[[str], tuple[NodeObject, ...]],
) -> list[NodeClaim]:
    """Return the claims whose machine is gone.

    A node that is ready contradicts the cloud, and is believed. Claims that are
    not registered have their own time-out.
    """
    there = {one.provider_id for one in machines}
    return [
        claim
        for claim in claims
        if claim.node_class.supported
        and not claim.deleting
        and is_true(claim.conditions, REGISTERED)
        and claim.provider_id not in there
        and not any(node.ready for node in nodes_of(claim.provider_id))
    ]


def orphans(machines: Iterable[Seen], claims: Iterable[NodeClaim], now: datetime) -> list[Seen]:
    """Return the machines that no claim speaks for, and that are old enough to be sure.

    The claims must have been read after the machines: the other way round a claim
    that came in between would be missing.
    """
    claimed: set[str] = set()
    awaited: set[str] = set()
    for claim in claims:
        if claim.provider_id:
            claimed.add(claim.provider_id)
        else:
            awaited.add(claim.name)
    return [
        one
        for one in machines
        if one.provider_id not in claimed
        and one.claim not in awaited
        and one.launched is not None
        and now - one.launched >= YOUNGEST_ORPHAN
    ]
