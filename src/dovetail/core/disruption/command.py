"""Disruption command, and the reason why a node is kept."""

import msgspec

from dovetail.core.disruption.candidates import Blocker, Candidate
from dovetail.model.plan import ExistingPlacement, PlannedNode


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to delete together, and the nodes to launch for their pods."""

    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedNode, ...] = ()
    template_nodepools: tuple[str, ...] = ()
    """NodePools of which each launches one node from its template, whatever pods run."""
    placements: tuple[ExistingPlacement, ...] = ()
    """Pods that move to existing nodes."""
    excluded_targets: frozenset[str] = frozenset()
    """Nodes that received no pods in the simulation, because they are to be replaced, too."""
    saving: float = 0.0
    """USD per hour, with node costs."""

    @property
    def replacement_price(self) -> float:
        """Price of the replacements in USD per hour."""
        return sum(node.price for node in self.replacements)

    @property
    def replacement_cost(self) -> float:
        """Price and node cost of the replacements in USD per hour."""
        return sum(node.cost for node in self.replacements)

    @property
    def disruption_cost(self) -> float:
        """Sum of the candidates' disruption costs."""
        return sum(candidate.disruption_cost for candidate in self.candidates)

    @property
    def pod_count(self) -> int:
        """Number of pods that have to be rescheduled."""
        return sum(len(candidate.reschedulable_pods) for candidate in self.candidates)


class KeepReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node is kept; for ``explain``, Events and metrics."""

    node: str
    price: float
    """USD per hour of the instance; 0 if unknown."""
    code: str
    """Stable and short, like ``budget`` or ``no-place``."""
    message: str = msgspec.field(name="because")
    """The reason; ``because`` in JSON."""
    blocker: Blocker | None = None
    """The object to change so that the node can be disrupted."""
    saving: float = 0.0
    """USD per hour saved by the removal, with node costs, for a node with code ``goes``."""
    node_cost: float = 0.0
    """USD per hour beyond the instance."""
