"""How far a phase has come on its way to what it waits for."""

from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import Phase


class Progress:
    """Is made when a phase begins, and remembers how things were then."""

    def __init__(self, box: Box, phase: Phase, number: int) -> None:
        self._box = box
        self._until = phase.until
        self._from = self._now()
        self.name = phase.name
        self.number = number

    def words(self) -> str:
        """Return what there is of what is wanted: ``72/100 pods``."""
        running, nodes = self._now()
        parts = []
        if self._until.running is not None:
            parts.append(f"{running}/{self._until.running} pods")
        if self._until.nodes is not None:
            parts.append(f"{nodes}/{self._until.nodes} nodes")
        return "  ".join(parts)

    def share(self) -> float:
        """Return how much of the way is done, from 0 to 1."""
        wanted = (self._until.running, self._until.nodes)
        return min(_share(*one) for one in zip(self._from, self._now(), wanted, strict=True))

    def _now(self) -> tuple[int, int]:
        return self._box.chronicle.running, self._box.ec2.ledger.machines


def _share(before: int, now: int, wanted: int | None) -> float:
    if wanted is None or now == wanted:
        return 1.0
    way = abs(wanted - before)
    return max(0.0, 1 - abs(wanted - now) / way) if way else 0.0
