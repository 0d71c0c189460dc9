"""Placing one class: cell by cell, form by form."""

from collections.abc import Iterable
from itertools import islice, product

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, Counter
from dovetail.core.scheduling.deferred import Deferred
from dovetail.core.scheduling.domains import NO_LABEL, Cell, Division
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.volumes import NO_VOLUMES
from dovetail.core.scheduling.problem import Problem
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, Requirements

_MOST_CELLS = 4096


class Placer:
    """Moves classes from waiting to placed."""

    def __init__(self, problem: Problem, *, defer: bool) -> None:
        self.problem = problem
        self.deferred = Deferred(problem)
        self._defers_all = defer
        self.broke_a_promise = False
        """Pods that others had been counted on to balance got no node after all."""
        self._wants: dict[tuple[int, int], Want] = {}
        self._possible: dict[int, bool] = {}
        self._known_asks: dict[tuple[int, tuple[str, ...], Cell], list[int]] = {}
        self._known_values: dict[str, set[str]] = {}
        self._known_cells: dict[tuple[int, int, tuple[Requirements, ...]], list[Cell]] = {}
        self._smallest: dict[tuple[int, int], tuple[int, list[float]] | None] = {}

    def want(self, one: PodClass, form: int) -> Want:
        key = (id(one), form)
        want = self._wants.get(key)
        if want is None:
            spec = self.problem.forms[id(one)][form]
            want = self._wants[key] = self.problem.want(one, spec)
        return want

    def place(self, one: PodClass) -> int:
        """Place what still waits of a class, giving up wishes only where it must."""
        placed = 0
        for form in range(len(self.problem.forms[id(one)])):
            if not one.waiting:
                break
            found = self._place_form(self.want(one, form), one.waiting)
            one.taken += found
            placed += found
        return placed

    def _place_form(self, want: Want, count: int) -> int:
        if not want.keys:
            return self._fill(want, (), count)
        division = Division(want, self.cells(want))
        division.careful = not all(self._has_plenty(want, cell, count) for cell in division.cells)
        placed = 0
        while placed < count:
            shares = division.deal(count - placed)
            if not shares:
                break
            for cell, share in shares:
                found = self._fill(want, cell, share)
                placed += found
                if found < share:
                    # The rest must be dealt anew: this cell is full for good.
                    division.closed.add(cell)
                    break
        return placed

    def cells(self, want: Want) -> list[Cell]:
        """Return the combinations of domains in which a class could be placed at all."""
        cache_key = (want.ask, id(want.ties), tuple(want.alternatives))
        known = self._known_cells.get(cache_key)
        if known is None:
            every = product(*(self._domains(want, key) for key in want.keys))
            possible = (cell for cell in every if self._is_possible(want, cell))
            known = list(islice(possible, _MOST_CELLS))
            known.sort(key=lambda cell: (self._cheapest(want, cell), cell))
            self._known_cells[cache_key] = known
        return known

    def _cheapest(self, want: Want, cell: Cell) -> float:
        """Return the price of the cheapest new node in a cell."""
        space = self.problem.space
        states = [space.move(root, ask) for ask in self._asks(want, cell) for root in space.roots]
        return min(float(space.cost[state].min(initial=np.inf)) for state in states or [DEAD])

    def _has_plenty(self, want: Want, cell: Cell, count: int) -> bool:
        """Tell whether new nodes for all pods can surely be bought in a cell."""
        if want.needs_company or want.ports:
            return False
        for ask in self._asks(want, cell):
            key = (ask, want.size_number)
            if key not in self._smallest:
                self._smallest[key] = self._smallest_node(want, ask)
            found = self._smallest[key]
            if found is not None:
                pool, capacity = found
                allowance = self.problem.board.allowances[pool]
                return allowance.covers(capacity, count)
        return False

    def _smallest_node(self, want: Want, ask: int) -> tuple[int, list[float]] | None:
        """Return (pool, capacity) of the smallest node that takes a pod; None: none surely does."""
        space, board = self.problem.space, self.problem.board
        for root in space.roots:
            state = space.move(root, ask)
            if state != DEAD:  # Slots of reservations run out.
                state = board.reservations.without(state)
            if state == DEAD:
                continue
            pool = space.states[state].pool
            fitting = np.flatnonzero(board.each(want, state) >= 1)
            if len(fitting) and not board.varieties[pool].wanted:
                capacity = board.allowances[pool].capacity[fitting]
                smallest: list[float] = capacity[int(np.argmin(capacity.sum(axis=1)))].tolist()
                return pool, smallest
        return None

    def _domains(self, want: Want, key: str) -> list[str]:
        """Return the values of a key that a class may be placed in."""
        known: set[str] = set()
        for counter in self._counters_on(want, key):
            known |= set(counter.counts)
        if key not in want.owned_keys:
            # Others may look at some domains only; these pods are not bound to them.
            known |= self._values(key)
        wanted = self.problem.space.asks[want.ask].requirements.get(key)
        found = sorted(value for value in known if wanted is None or wanted.has(value))
        if key in want.owned_keys:
            return found
        # Only counted here, by others: a node without the label suits just as well.
        bare = key not in label_keys.WELL_KNOWN or not found
        return [NO_LABEL, *found] if bare else found

    def _values(self, key: str) -> set[str]:
        """Return every value of a key that a node has or could have."""
        known = self._known_values.get(key)
        if known is None:
            known = {value for table in self.problem.tables for value in table.values_of(key)}
            for labels, _ in self.problem.hosts.kinds:
                if key in labels:
                    known |= labels[key].values
            self._known_values[key] = known
        return known

    @staticmethod
    def _counters_on(want: Want, key: str) -> Iterable[Counter]:
        for held in want.zonal_rules:
            if held.rule.counter.key == key:
                yield held.rule.counter
        for counter in want.zonal_counters:
            if counter.key == key:
                yield counter

    def _asks(self, want: Want, cell: Cell) -> list[int]:
        """Return what nodes in this cell must offer, one ask for each place of its volumes."""
        if want.alternatives is not NO_VOLUMES.alternatives:
            return self._new_asks(want, cell)
        key = (want.ask, want.keys, cell)
        known = self._known_asks.get(key)
        if known is None:
            known = self._known_asks[key] = self._new_asks(want, cell)
        return known

    def _new_asks(self, want: Want, cell: Cell) -> list[int]:
        space = self.problem.space
        ask = want.ask
        if cell:
            pinned = [
                Requirement.one_of(key, domain) if domain else Requirement.absent(key)
                for key, domain in zip(want.keys, cell, strict=True)
            ]
            ask = space.also(ask, Requirements.of(pinned))
        return [space.also(ask, place) for place in want.alternatives]

    def _is_possible(self, want: Want, cell: Cell) -> bool:
        return any(self._could_land(ask) for ask in self._asks(want, cell))

    def _could_land(self, ask: int) -> bool:
        known = self._possible.get(ask)
        if known is None:
            space = self.problem.space
            known = any(space.move(root, ask) != DEAD for root in space.roots) or bool(
                self.problem.hosts.welcoming(ask).any()
            )
            self._possible[ask] = known
        return known

    def _fill(self, want: Want, cell: Cell, count: int) -> int:
        packer = self.problem.packer
        placed = 0
        for ask in self._asks(want, cell):
            mark = len(packer.board.log)
            if self._may_defer(want):
                found = packer.place(want, ask, count - placed, open_new=False)
                self._record(want, cell, packer.board.log[mark:])
                placed += found
                if placed < count:
                    placed += self._defer(want, cell, ask, count - placed)
            else:
                placed += packer.place(want, ask, count - placed)
                self._record(want, cell, packer.board.log[mark:])
            if placed >= count:
                break
        return placed

    def _may_defer(self, want: Want) -> bool:
        """Tell whether pods may wait for the fleet; who is counted in a zone by trust only."""
        fewest = self.problem.board.fewest
        return want.free and not fewest and (self._defers_all or not want.keys)

    def _defer(self, want: Want, cell: Cell, ask: int, count: int) -> int:
        """Leave pods to the fleet that is chosen for all such classes together."""
        state = self.deferred.accept(want, ask, cell, count)
        if state is not None:
            self._count(want, cell, count, state=state)
            return count
        packer = self.problem.packer
        mark = len(packer.board.log)
        placed = packer.buy(want, ask, count)
        self._record(want, cell, packer.board.log[mark:])
        return placed

    def open_fleets(self) -> None:
        """Choose and open the fleets for all pods that were left to them."""
        for batch, missing in self.deferred.open():
            self._count(batch.want, batch.cell, -missing, state=batch.states[0])
            batch.want.pod_class.taken -= missing
            self.broke_a_promise |= bool(batch.want.keys)

    # -- counting ---------------------------------------------------------------------

    def _record(self, want: Want, cell: Cell, log: list[tuple[Want, list[int], list[int]]]) -> None:
        if not want.zonal_counters and not want.zonal_rules:
            return
        plain = all(counter.filter == EVERY_NODE for counter in want.zonal_counters)
        for _, hosts, counts in log:
            if plain:
                self._count(want, cell, sum(counts))
                continue
            for host, count in zip(hosts, counts, strict=True):
                self._count(want, cell, count, host=host)

    def _count(
        self,
        want: Want,
        cell: Cell,
        count: int,
        *,
        host: int | None = None,
        state: int | None = None,
    ) -> None:
        domains = dict(zip(want.keys, cell, strict=True))
        for counter in want.zonal_counters:
            domain = domains.get(counter.key)
            if domain and self._passes(counter, host, state):
                counter.counts[domain] = counter.counts.get(domain, 0) + count
        for rule, _ in want.zonal_rules:
            domain = domains.get(rule.counter.key)
            if domain:
                rule.owners[domain] = rule.owners.get(domain, 0) + count

    def _passes(self, counter: Counter, host: int | None, state: int | None) -> bool:
        if counter.filter == EVERY_NODE:
            return True
        problem = self.problem
        if host is not None and host < problem.hosts.existing:
            labels, taints = problem.hosts.kinds[int(problem.hosts.kind[host])]
            return counter.filter.passes(labels, taints, new=False)
        if state is None:
            state = int(problem.hosts.state[host]) if host is not None else DEAD
        if state == DEAD:
            return True
        known = problem.space.states[state]
        taints = problem.tables[known.pool].pool.template.taints
        return counter.filter.passes(known.requirements, taints, new=True)
