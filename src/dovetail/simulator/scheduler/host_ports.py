"""Host ports in use on the nodes."""

import numpy as np

from dovetail.model.kube.pod import HostPort
from dovetail.simulator.scheduler.node_table import Bools, NodeTable


class HostPorts:
    """Host ports that pods use, by slot."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._used: dict[tuple[int, str], dict[int, list[HostPort]]] = {}
        """Port and protocol → slot → ports in use."""

    def add(self, ports: tuple[HostPort, ...], slot: int) -> None:
        for port in ports:
            by_slot = self._used.setdefault((port.port, port.protocol), {})
            by_slot.setdefault(slot, []).append(port)

    def remove(self, ports: tuple[HostPort, ...], slot: int) -> None:
        for port in ports:
            by_slot = self._used[port.port, port.protocol]
            by_slot[slot].remove(port)
            if not by_slot[slot]:
                del by_slot[slot]

    def violations(self, ports: tuple[HostPort, ...]) -> Bools | None:
        """Return a mask of the nodes on which one of the ports is in use."""
        if not ports:
            return None
        rejected = np.zeros(len(self._table.facts), dtype=np.bool_)
        for port in ports:
            for slot, used_ports in self._used.get((port.port, port.protocol), {}).items():
                if any(port.conflicts_with(used) for used in used_ports):
                    rejected[slot] = True
        return rejected
