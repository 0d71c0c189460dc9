"""Room that is kept for pods nominated for a node until they are bound."""

from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.host_ports import HostPorts
from dovetail.simulator.scheduler.node_table import NodeTable


class Reserving:
    """What nominated pods will take of their nodes, taken already.

    Of kube-scheduler's rules it leaves out that pods of higher priority may have the
    room, and that others' rules about neighbours count nominated pods as well.
    """

    def __init__(self, table: NodeTable, ports: HostPorts) -> None:
        self._table = table
        self._ports = ports
        self._held: dict[str, tuple[PodClass, int]] = {}
        self._on: dict[str, dict[str, None]] = {}
        """Node → the pods for which room is kept there."""

    def hold(self, uid: str, kind: PodClass, node: str) -> None:
        """Keep room for a pod, if its node is there."""
        slot = self._table.slots.get(node)
        if slot is not None:
            self._held[uid] = (kind, slot)
            self._on.setdefault(node, {})[uid] = None
            self._count(kind, slot, 1)

    def free(self, uid: str) -> int | None:
        """Give a pod's room to everybody; returns the slot where it was."""
        kind, slot = self._held.pop(uid, (None, None))
        if kind is None or slot is None:
            return None
        facts = self._table.at(slot)
        del self._on[facts.name][uid]
        self._count(kind, slot, -1)
        return slot

    def kept_on(self, node: str) -> tuple[str, ...]:
        """Return the pods for which room is kept on a node."""
        return tuple(self._on.get(node, ()))

    def node_went(self, name: str) -> None:
        """Keep nothing on a node that is gone."""
        for uid in self._on.pop(name, ()):
            kind, slot = self._held.pop(uid)
            self._count(kind, slot, -1)

    def _count(self, kind: PodClass, slot: int, sign: int) -> None:
        self._table.use(kind.requests, slot, sign)
        if kind.spec.host_ports and sign > 0:
            self._ports.add(kind.spec.host_ports, slot)
        elif kind.spec.host_ports:
            self._ports.remove(kind.spec.host_ports, slot)
