"""Which ports of the nodes are taken."""

import numpy as np

from dovetail.model.kube.pod import HostPort
from dovetail.simulator.scheduler.node_table import Bools, NodeTable


class HostPorts:
    """Ports of nodes that pods have for themselves."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._taken: dict[tuple[int, str], dict[int, list[HostPort]]] = {}
        """Port and protocol → slot → who has it."""

    def add(self, ports: tuple[HostPort, ...], slot: int) -> None:
        for port in ports:
            where = self._taken.setdefault((port.port, port.protocol), {})
            where.setdefault(slot, []).append(port)

    def remove(self, ports: tuple[HostPort, ...], slot: int) -> None:
        for port in ports:
            where = self._taken[port.port, port.protocol]
            where[slot].remove(port)
            if not where[slot]:
                del where[slot]

    def refusals(self, ports: tuple[HostPort, ...]) -> Bools | None:
        """Return where one of the ports is taken."""
        if not ports:
            return None
        refused = np.zeros(len(self._table.facts), dtype=np.bool_)
        for port in ports:
            for slot, held in self._taken.get((port.port, port.protocol), {}).items():
                if any(port.clashes(one) for one in held):
                    refused[slot] = True
        return refused
