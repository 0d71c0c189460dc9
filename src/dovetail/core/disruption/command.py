"""What consolidation decides: nodes that go, what comes for them, and who stays."""

import msgspec

from dovetail.core.disruption.candidates import Blocker, Candidate
from dovetail.model.plan import ExistingPlacement, PlannedNode


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that go together, and the nodes that are bought for their pods."""

    removed: tuple[Candidate, ...]
    replacements: tuple[PlannedNode, ...] = ()
    from_template: tuple[str, ...] = ()
    """NodePools, each of which buys one node as its template says, whatever runs there."""
    placements: tuple[ExistingPlacement, ...] = ()
    """Which of the pods go to nodes that are there."""
    saving: float = 0.0
    """USD per hour."""

    @property
    def bought(self) -> float:
        """What its new nodes cost, in USD per hour."""
        return sum(one.price for one in self.replacements)

    @property
    def disruption(self) -> float:
        """What moving the pods is worth avoiding."""
        return sum(one.cost for one in self.removed)

    @property
    def evictions(self) -> int:
        return sum(len(one.reschedulable) for one in self.removed)


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is kept, and why: for people and for ``explain``."""

    node: str
    price: float
    """USD per hour that it costs to keep; 0 where it is not known."""
    code: str
    """Stable and short, like ``budget`` or ``no-place``."""
    because: str
    blocker: Blocker | None = None
    """Whose wish it is, where somebody could change that."""
    saving: float = 0.0
    """USD per hour that are saved when it goes, for one that is about to."""
