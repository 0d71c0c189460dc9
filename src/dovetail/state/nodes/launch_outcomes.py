"""How the last launches of each pool ended; forgotten with the process, and then guessed."""

from dovetail.core.nodepool.registration_health import (
    REGISTRATION_HEALTHY,
    Outcomes,
    outcomes_behind,
    with_outcome,
)
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import status_of


class LaunchOutcomes:
    """By the pool's uid: a pool that was made anew starts afresh.

    After a restart a pool's own condition says about as much as is needed.
    """

    def __init__(self) -> None:
        self._known: dict[str, Outcomes] = {}

    def of(self, pool: NodePool) -> Outcomes:
        """Return the last outcomes of a pool."""
        known = self._known.get(pool.uid)
        if known is None:
            return outcomes_behind(status_of(pool.conditions, REGISTRATION_HEALTHY))
        return known

    def add(self, pool: NodePool, success: bool) -> None:
        self._known[pool.uid] = with_outcome(self.of(pool), success)

    def reset(self, pool: NodePool) -> None:
        """Forget: the pool or its node class has changed."""
        self._known[pool.uid] = ()
