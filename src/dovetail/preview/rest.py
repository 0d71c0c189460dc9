"""Rest: when nothing moves any more in a simulated cluster.

Quiet alone is not rest. A node may wait for ``consolidateAfter``, a drain for its
deadline, a drifted node for the window of a budget: the play goes on until then. Nodes
that expire later on do so with and without the change, and are not waited for.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from dovetail.core.disruption.context import get_consolidate_after_end
from dovetail.core.disruption.cron import find_next_run, parse_schedule
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE, DRIFTED, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.state.cluster.cache import ClusterCache

QUIET: Final = timedelta(minutes=10)
"""Without a move: node classes are resolved, prices and drift checked every 5 minutes."""
QUIET_UNSETTLED: Final = timedelta(minutes=30)
"""The same while pods have no node, or nodes are not ready or cannot go.

Dovetail gives up a node that does not register after 15 minutes, and tries again.
"""


def find_next_action(cache: ClusterCache, now: datetime) -> datetime | None:
    """Return the next time after now at which time alone lets a node go; None: never."""
    return min((at for at in _find_actions(cache, now) if at > now), default=None)


def count_expiring(cache: ClusterCache, until: datetime) -> int:
    """Count the nodes that expire until a time."""
    return sum(
        claim.created is not None
        and claim.expire_after is not None
        and claim.created + claim.expire_after <= until
        and not claim.deleting
        for claim in cache.claims()
    )


def _find_actions(cache: ClusterCache, now: datetime) -> Iterator[datetime]:
    for claim in cache.claims():
        deadline = claim.annotations.get(label_keys.TERMINATION_TIMESTAMP)
        if claim.deleting and deadline:
            yield from _parse_time(deadline)
        pool = cache.pool(claim.pool)
        if pool is not None and not claim.deleting:
            yield from _find_consolidation(claim, pool)
    for pool in cache.pools():
        claims = cache.claims_in(pool.name)
        has_drifted = any(is_true(claim.conditions, DRIFTED) for claim in claims)
        if claims and (has_drifted or pool.disruption.consolidate_after is not None):
            for budget in pool.disruption.budgets:
                yield from _find_window_end(budget, now)


def _parse_time(text: str) -> Iterator[datetime]:
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        yield at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _find_consolidation(claim: NodeClaim, pool: NodePool) -> Iterator[datetime]:
    """Yield when a node becomes consolidatable."""
    if is_true(claim.conditions, CONSOLIDATABLE) or not is_true(claim.conditions, INITIALIZED):
        return
    end = get_consolidate_after_end(claim, pool)
    if end is not None:
        yield end


def _find_window_end(budget: Budget, now: datetime) -> Iterator[datetime]:
    """Yield when a budget that allows nothing now ceases to apply."""
    if budget.schedule is None or budget.duration is None or budget.nodes.strip("%") != "0":
        return
    try:
        start = find_next_run(parse_schedule(budget.schedule), now - budget.duration)
    except ValueError:
        return  # Dovetail disrupts nothing then.
    if start is not None and start <= now:
        yield start + budget.duration
