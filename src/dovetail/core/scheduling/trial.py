"""Placing pods for a question's sake: everything is put back afterwards.

A problem is compiled once and asked many times. Hosts can be taken out of it,
some of its classes given pods, and what was placed is taken back by the log.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.topology import Counter, Rule
from dovetail.core.scheduling.placement.running_pods import Running, count_running
from dovetail.core.scheduling.placement_order import place_all
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.problem import Problem
from dovetail.model.kube.pod import Pod

CLOSED = -1.0
"""What a host has that takes no pods."""


class Trial:
    """One compiled problem, and what it must be brought back to."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.placer = Placer(problem, defer=False)
        self.classes = tuple(problem.classes)
        self._limits = [one.left.copy() for one in problem.board.allowances]
        self._slots = problem.board.reservations.slots()
        self._counts: list[tuple[Counter, dict[str, int]]] = []
        self._owners: list[tuple[Rule, dict[str, int]]] = []
        self._ports: list[int] = []
        self._attached: dict[str, list[set[str]]] = {}

    def close(self, hosts: Sequence[int]) -> None:
        """Let hosts take no pods from now on."""
        self.problem.hosts.top[:, list(hosts)] = CLOSED
        self.problem.hosts.forget_headroom()

    def place(
        self,
        members: Mapping[int, Sequence[Pod]],
        gone: Sequence[int],
        running: Running,
        *,
        fewest: bool,
    ) -> Floats:
        """Place pods (by number of their class) as if some hosts were gone.

        ``running`` are these pods as they are counted where they run now.
        Returns what the hosts had, for ``undo``.
        """
        problem = self.problem
        hosts, board = problem.hosts, problem.board
        chosen = [self.classes[number] for number in sorted(members)]
        for number, pods in members.items():
            one = self.classes[number]
            one.pods, one.taken = list(pods), 0
        problem.classes = chosen
        self._remember(chosen)
        had: Floats = hosts.top[:, list(gone)].copy()
        hosts.top[:, list(gone)] = CLOSED
        hosts.forget_headroom()
        self._count(running, gone, -1)
        for index, allowance in enumerate(board.allowances):
            if not allowance.unlimited:
                allowance.reopen(self._limits[index] + self._freed(index, gone))
        board.fewest = fewest
        board.cursor = 0
        place_all(self.placer)
        return had

    def undo(self, gone: Sequence[int], running: Running, had: Floats) -> None:
        """Put everything back as it was before the last question."""
        hosts, board = self.problem.hosts, self.problem.board
        for want, where, counts in board.log:
            self._take_back(want, np.array(where), np.array(counts))
        self._drop_claims()
        hosts.top[:, list(gone)] = had
        hosts.forget_headroom()
        self._count(running, gone, 1)
        for counter, seen in self._counts:
            counter.counts = seen
        for rule, owners in self._owners:
            rule.owners = owners
        hosts.ports[:] = self._ports
        for driver, sets in self._attached.items():
            board.attached[driver] = sets
        board.reservations.reopen(self._slots)

    def keep(self) -> None:
        """Make the last question's answer the ground of all that follow.

        Hosts stay gone. Nodes that were opened are spent and counted, but take
        no more pods: they are not there yet.
        """
        board = self.problem.board
        for index, allowance in enumerate(board.allowances):
            if not allowance.unlimited:
                self._limits[index] = allowance.left.copy()
        self._slots = board.reservations.slots()
        claims = [
            (want, np.array(some), np.array(numbers))
            for want, where, counts in board.log
            for some, numbers in [self._on_claims(where, counts)]
            if some
        ]
        for want, where, counts in claims:
            self._take_back(want, where, counts)
        self._drop_claims()

    def _on_claims(self, where: list[int], counts: list[int]) -> tuple[list[int], list[int]]:
        first = self.problem.hosts.existing
        pairs = [(host, n) for host, n in zip(where, counts, strict=True) if host >= first]
        return [host for host, _ in pairs], [n for _, n in pairs]

    def _take_back(self, want: Want, where: Ints, counts: Ints) -> None:
        self.problem.hosts.used[:, where] -= want.size[:, None] * counts
        for counter in want.host_counters:
            counter.matched[where] -= counts
        for rule, _ in want.host_rules:
            rule.owned[where] -= counts

    def _drop_claims(self) -> None:
        hosts, board = self.problem.hosts, self.problem.board
        del hosts.ports[hosts.existing :]
        hosts.count = hosts.existing
        hosts.forget_headroom()
        board.log = []
        board.relaxed.clear()

    def _remember(self, classes: Iterable[PodClass]) -> None:
        """Copy what placing these classes may change and the log does not tell."""
        problem = self.problem
        counters: dict[int, Counter] = {}
        for one in classes:
            for form in range(len(problem.forms[id(one)])):
                want = self.placer.want(one, form)
                for counter in (*want.zonal_counters, *(r.counter for r, _ in want.zonal_rules)):
                    counters[id(counter)] = counter
        self._counts = [(one, dict(one.counts)) for one in counters.values()]
        self._owners = [
            (rule, dict(rule.owners)) for one in counters.values() for rule in one.rules
        ]
        self._ports = list(problem.hosts.ports)
        drivers = {driver for one in classes for driver in problem.attached[id(one)].drivers}
        self._attached = {
            driver: [set(some) for some in problem.board.attached[driver]] for driver in drivers
        }

    def _count(self, running: Running, gone: Sequence[int], sign: int) -> None:
        """Count pods out of the hosts they leave, or in again."""
        if not running:
            return
        problem = self.problem
        nodes = [problem.hosts.nodes[index] for index in gone]
        moved = {
            key: {name: sign * count for name, count in where.items()}
            for key, where in running.items()
        }
        numbers = {node.name: index for node, index in zip(nodes, gone, strict=True)}
        count_running(moved, problem.topology, nodes, numbers)

    def _freed(self, pool: int, gone: Sequence[int]) -> Floats:
        """Return how much of a pool's limits is free again without some hosts."""
        allowance, hosts = self.problem.board.allowances[pool], self.problem.hosts
        name = self.problem.tables[pool].pool.name
        freed = np.zeros(len(allowance.names))
        for index in gone:
            node = hosts.nodes[index]
            if node.pool == name:
                held = node.effective_capacity()
                freed += [float(held.get(resource, 0)) for resource in allowance.names]
        return freed
