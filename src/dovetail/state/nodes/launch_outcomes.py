"""Results of the last launches of each NodePool; inferred from its condition after a restart."""

from dovetail.core.nodepool.registration_health import Outcomes, add_outcome, infer_outcomes
from dovetail.model.karpenter.condition_types import NODE_REGISTRATION_HEALTHY
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import condition_status


class LaunchOutcomes:
    """Launch outcomes by UID of the NodePool: a recreated NodePool has none.

    After a restart the condition NodeRegistrationHealthy is precise enough.
    """

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcomes] = {}

    def get(self, pool: NodePool) -> Outcomes:
        """Return the last outcomes of a NodePool."""
        outcomes = self._outcomes.get(pool.uid)
        if outcomes is None:
            return infer_outcomes(condition_status(pool.conditions, NODE_REGISTRATION_HEALTHY))
        return outcomes

    def record(self, pool: NodePool, success: bool) -> None:
        self._outcomes[pool.uid] = add_outcome(self.get(pool), success)

    def reset(self, pool: NodePool) -> None:
        """Clear the outcomes after the NodePool or its node class changed."""
        self._outcomes[pool.uid] = ()
