"""Every node there is and every claim opened so far, as columns of arrays.

Existing nodes come first and never change type; claims follow. ``top`` is what
a node has, or a claim's *nominal* type: the cheapest that holds it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import StateSpace
from dovetail.core.scheduling.arrays.nodepools import vector
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.daemonsets import Outstanding
from dovetail.core.scheduling.constraints.topology import Topology
from dovetail.core.scheduling.pods.watched_labels import noticed
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.taints import Taint, untolerated
from dovetail.model.node import Node


class Hosts:
    """Nodes and claims; the one thing that changes while a plan is made."""

    def __init__(
        self,
        space: StateSpace,
        topology: Topology,
        nodes: Sequence[Node],
        axis: Sequence[str],
        daemons: Outstanding,
        label_interest: frozenset[str],
        order: Callable[[Node], Any],
    ) -> None:
        self.space = space
        self.nodes = sorted((node for node in nodes if not node.deleting), key=order)
        self.numbers = {node.name: index for index, node in enumerate(self.nodes)}
        self.existing = len(self.nodes)
        self.count = self.existing
        self._topology = topology
        size = max(64, 2 * self.existing)
        self.used: Floats = np.zeros((len(axis), size))
        """What pods placed in this plan take."""
        self.top: Floats = np.zeros((len(axis), size))
        """What there is to take: of a node, or of a claim's nominal type."""
        self.state: Ints = np.zeros(size, dtype=np.int64)
        self.nominal: Ints = np.zeros(size, dtype=np.int64)
        self.ports: list[int] = [0] * self.existing
        self.headroom: Floats = np.zeros(size)
        """How many more pods of the current size each host takes."""
        self._sized: Floats | None = None
        self._wanted: list[int] = []
        self._kinds: dict[tuple[Requirements, tuple[Taint, ...]], int] = {}
        kinds = []
        for index, node in enumerate(self.nodes):
            left = node.available() - daemons.on(node)
            # A node that promises more than it has takes nothing more.
            self.top[:, index] = vector(left, axis) if min(left.values(), default=0) >= 0 else -1.0
            kind = (noticed(node, label_interest), node.effective_taints())
            kinds.append(self._kinds.setdefault(kind, len(self._kinds)))
        self.kind: Ints = np.array(kinds, dtype=np.int64)
        self.kinds = list(self._kinds)
        self._welcome: dict[int, Bools] = {}
        self._grow_to(size)

    def welcoming(self, ask: int) -> Bools:
        """Return which existing nodes have the labels and taints that an ask can live with."""
        known = self._welcome.get(ask)
        if known is None:
            asked = self.space.asks[ask]
            fine = [
                untolerated(taints, asked.tolerations) is None
                and labels.why_incompatible(asked.requirements) is None
                for labels, taints in self.kinds
            ]
            known = np.array(fine, dtype=bool)[self.kind] if fine else np.zeros(0, dtype=bool)
            self._welcome[ask] = known
        return known

    def measure(self, size: Floats) -> None:
        """Make ``headroom`` speak of pods of this size."""
        if self._sized is size:
            return
        self._sized = size
        self._wanted = [r for r in range(len(size)) if size[r] > 0]
        end = self.count
        room = self.headroom[:end]
        room.fill(np.inf)
        for r in self._wanted:
            np.minimum(room, (self.top[r, :end] - self.used[r, :end]) / size[r], out=room)
        np.floor(room, out=room)

    def forget_headroom(self) -> None:
        """Have it measured anew: hosts have changed."""
        self._sized = None

    def remeasure(self, hosts: Ints) -> None:
        """Correct ``headroom`` for hosts whose type has changed."""
        size = self._sized
        if size is None:
            return
        room = np.full(len(hosts), np.inf)
        for r in self._wanted:
            np.minimum(room, (self.top[r, hosts] - self.used[r, hosts]) / size[r], out=room)
        self.headroom[hosts] = np.floor(room)

    def put(self, want: Want, hosts: Ints, counts: Ints) -> None:
        """Add pods of one class to hosts (each host at most once per call)."""
        self.used[:, hosts] += want.size[:, None] * counts
        if self._sized is want.size:
            self.headroom[hosts] -= counts
        else:
            self.remeasure(hosts)
        for counter in want.host_counters:
            counter.matched[hosts] += counts
        for rule, _ in want.host_rules:
            rule.owned[hosts] += counts
        if want.ports:
            for host in hosts.tolist():
                self.ports[host] |= want.ports

    def open(self, state: int, row: int, copies: int) -> Ints:
        """Open claims of one type; returns their numbers."""
        start, end = self.count, self.count + copies
        if end > len(self.state):
            self._grow_to(max(end, 2 * len(self.state)))
        self.count = end
        pool = self.space.states[state].pool
        self.state[start:end] = state
        self.nominal[start:end] = row
        self.top[:, start:end] = self.space.pools[pool].alloc[row][:, None]
        self.ports.extend([0] * copies)
        opened = np.arange(start, end)
        self.remeasure(opened)
        return opened

    def retype(self, claims: Ints, state: int, rows: Ints) -> None:
        """Bring claims to a state and give them other nominal types."""
        self.state[claims] = state
        self.nominal[claims] = rows
        pool = self.space.states[state].pool
        self.top[:, claims] = self.space.pools[pool].alloc[rows].T
        self.remeasure(claims)

    def kinds_of_claims(self) -> int:
        """Return how many different states claims are in."""
        return len(set(self.state[self.existing : self.count].tolist()))

    def _grow_to(self, size: int) -> None:
        def wider(array: Floats | Ints) -> Floats | Ints:
            shape = (*array.shape[:-1], size - array.shape[-1])
            return np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=-1)

        self.used, self.top = wider(self.used), wider(self.top)  # type: ignore[assignment]
        self.state, self.nominal = wider(self.state), wider(self.nominal)  # type: ignore[assignment]
        self.headroom = wider(self.headroom)  # type: ignore[assignment]
        for counter in self._topology.counters:
            if counter.by_host:
                counter.matched = wider(counter.matched)  # type: ignore[assignment]
                for rule in counter.rules:
                    rule.owned = wider(rule.owned)  # type: ignore[assignment]
