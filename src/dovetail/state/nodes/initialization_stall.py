"""Nodes that joined long ago and never became what was hoped for."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.state.cluster.cache import Mirror

PATIENCE: Final = timedelta(minutes=15)
"""As long as a machine may take to join; nothing that a node waits for then takes longer."""


def is_stuck(claim: NodeClaim, mirror: Mirror, now: datetime) -> bool:
    """Tell whether pods wait in vain for a node to be initialized.

    Only when others of its pool have come further since: where none has, the next
    node would get stuck as well, and one would be bought after the other.
    """
    since = _since(claim, "Registered")
    if since is None or since + PATIENCE > now or is_true(claim.conditions, "Initialized"):
        return False
    return any(
        (other := _since(one, "Initialized")) is not None and other > since
        for one in mirror.claims_in(claim.pool)
    )


def _since(claim: NodeClaim, kind: str) -> datetime | None:
    return claim.conditions[kind].since if is_true(claim.conditions, kind) else None
