"""Where pods run, and all the numbers that follow from it."""

from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.framework import Judge
from dovetail.simulator.scheduler.node_table import NodeTable
from dovetail.simulator.scheduler.pod_counts import Counting
from dovetail.simulator.scheduler.volumes import Attachment, Claims


class Placed:
    """One pod that has a node, or is about to get it."""

    __slots__ = ("attachments", "kind", "live", "node", "slot", "uid")

    def __init__(
        self, uid: str, kind: PodClass, node: str, *, attachments: tuple[Attachment, ...]
    ) -> None:
        self.uid = uid
        self.kind = kind
        self.node = node
        self.attachments = attachments
        self.slot: int | None = None
        """None while the node is not there."""
        self.live = True
        """Not about to stop."""


class Places:
    """Keeps what is taken of each node as pods come and go."""

    def __init__(self, table: NodeTable, counting: Counting, claims: Claims, judge: Judge) -> None:
        self._table = table
        self._counting = counting
        self._claims = claims
        self._judge = judge
        self.pods: dict[str, Placed] = {}
        self._by_node: dict[str, dict[str, Placed]] = {}

    def add(self, placed: Placed) -> None:
        self.pods[placed.uid] = placed
        self._by_node.setdefault(placed.node, {})[placed.uid] = placed
        slot = self._table.slots.get(placed.node)
        if slot is not None:
            self._settle(placed, slot)

    def remove(self, uid: str) -> Placed | None:
        """Free what a pod had; returns it as it was."""
        placed = self.pods.pop(uid, None)
        if placed is None:
            return None
        beside = self._by_node[placed.node]
        del beside[uid]
        if not beside:
            del self._by_node[placed.node]
        self._unsettle(placed)
        return placed

    def stops(self, placed: Placed) -> None:
        """Count a pod no longer as one that stays."""
        placed.live = False
        if placed.slot is not None:
            self._counting.add_live(placed.kind, placed.slot, -1)

    def node_came(self, name: str, slot: int) -> None:
        self._claims.node_came(name, slot)
        for placed in self._by_node.get(name, {}).values():
            self._settle(placed, slot)

    def node_went(self, name: str) -> list[Placed]:
        """Let go of a node; returns the pods that had it."""
        here = list(self._by_node.get(name, {}).values())
        for placed in here:
            self._unsettle(placed)
        return here

    def _settle(self, placed: Placed, slot: int) -> None:
        placed.slot = slot
        self._count(placed, slot, 1)
        spec = placed.kind.spec
        if spec.host_ports:
            self._judge.ports.add(spec.host_ports, slot)
        if placed.attachments:
            self._claims.attach(placed.attachments, slot)

    def _unsettle(self, placed: Placed) -> None:
        slot = placed.slot
        if slot is None:
            return
        self._count(placed, slot, -1)
        spec = placed.kind.spec
        if spec.host_ports:
            self._judge.ports.remove(spec.host_ports, slot)
        if placed.attachments:
            self._claims.detach(placed.attachments, slot)
        placed.slot = None

    def _count(self, placed: Placed, slot: int, sign: int) -> None:
        kind = placed.kind
        self._table.use(kind.requests, slot, sign)
        scoring = self._judge.scoring
        scoring.assumed_cpu.values[slot] += sign * kind.assumed[0]
        scoring.assumed_memory.values[slot] += sign * kind.assumed[1]
        self._counting.add(kind, slot, sign, live=placed.live)
