"""The same questions for pods without ties: arrays only, a fraction of a millisecond.

Pods whose places depend on other pods, ports or volumes, and pools with limits in
sight, minValues or reservations are for the solver itself (``WhatIf.ask``).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dovetail.core.disruption.simulation import WhatIf
from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.arrays.price_index import Shelves
from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.pods.volumes import NO_VOLUMES
from dovetail.model import labels as label_keys

NEVER = float("inf")
_WINDOW = 32
_STALE = 64
"""So many changes of the ground later, lists of hosts with room are made anew."""


class Guess(NamedTuple):
    """What would become of the pods of some hosts."""

    price: float
    """USD per hour of the one node to be bought; 0: none is; infinite: one would not do."""
    placed: list[tuple[int, int, int]]
    """(kind, host, pods); ``QuickLook.kind`` says of which kind a class is."""
    lost: int = -1
    """The first kind that fits on no node at all."""
    starting: int = -1
    """A host that is needed and has not started up."""
    spot: bool = False
    """The node to be bought could be a spot node."""
    kind: str = ""
    """The cheapest type that would do."""


class QuickLook:
    """Answers for hosts with plain pods only."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        problem = self._problem = whatif.problem
        self.kind: list[int] = []
        """Class → number of what hosts see of it: its size and its ask."""
        kinds: dict[tuple[tuple[float, ...], int], int] = {}
        self._plain: list[bool] = []
        for one in whatif.trial.classes:
            forms = len(problem.forms[id(one)])
            # The last has given up every wish: others ask for more.
            want = whatif.trial.placer.want(one, forms - 1)
            seen = (tuple(want.size.tolist()), want.ask)
            self.kind.append(kinds.setdefault(seen, len(kinds)))
            self._plain.append(
                forms == 1
                and not (want.rules or want.host_counters or want.zonal_counters)
                and not (want.ports or want.volumes)
                and want.alternatives is NO_VOLUMES.alternatives
            )
        self.asks = [ask for _, ask in kinds]
        """Kind → what it asks of nodes."""
        shape = (len(kinds), len(problem.axis))
        self.sizes: Floats = np.array([size for size, _ in kinds], dtype=float).reshape(shape)
        """Kind → what one pod takes."""
        self._asked = [
            [(r, amount) for r, amount in enumerate(size) if amount > 0]
            for size in self.sizes.tolist()
        ]
        board = problem.board
        self._plain_pools = all(one.unlimited or one.ample for one in board.allowances) and not any(
            board.picky or board.reservations.offered(pool) for pool in range(len(problem.tables))
        )
        self.starts = {h for h in range(problem.hosts.existing) if whatif.is_starting(h)}
        self._shelves = Shelves(problem.space)
        self._roomy: dict[int, tuple[int, Ints]] = {}
        self._new: dict[tuple[int, ...], list[list[int]]] = {}
        self._may_be_spot: dict[int, bool] = {}
        self._changes = 0
        self.base: Floats = np.zeros(0)
        """What hosts have free."""
        self._free: Floats = np.zeros(0)
        """The same, in the midst of a question."""
        self._rows: list[Floats] = []
        self.refresh()

    def refresh(self) -> None:
        """Look again at what hosts have free: something was kept."""
        hosts = self._problem.hosts
        end = hosts.existing
        self.base = hosts.top[:, :end] - hosts.used[:, :end]
        self._free = self.base.copy()
        self._rows = list(self._free)
        self._changes += 1

    def knows(self, gone: list[int]) -> bool:
        """Tell whether these hosts have plain pods only."""
        loads = self._whatif.loads
        return self.bounds(gone) and all(
            self._plain[number] for host in gone for number in loads.get(host, ())
        )

    def bounds(self, gone: list[int]) -> bool:
        """Tell whether nothing better than the answer for these hosts can be hoped for.

        It leaves out ties, ports, volumes and wishes; with them it is dearer, if anything.
        """
        return self._plain_pools and not self._whatif.hopeless(gone)

    def ask(self, gone: list[int]) -> Guess:
        """Find places for the pods of these hosts, largest first, first fit."""
        demand = self._demand(gone)
        self._free[:, gone] = -1.0
        placed: list[tuple[int, int, int]] = []
        left: list[tuple[int, int]] = []
        for kind, count in demand:
            rest = self._fill(kind, count, placed)
            if rest:
                left.append((kind, rest))
        self._put_back([*gone, *(host for _, host, _ in placed)])
        starting = -1
        if self.starts:
            starting = next((host for _, host, _ in placed if host in self.starts), -1)
        guess = self._buy(left, placed) if left else Guess(0.0, placed)
        return guess._replace(starting=starting)

    def counts(self, gone: Iterable[int]) -> dict[int, int]:
        """Return how many pods of each kind need a place if these hosts are gone."""
        counts: dict[int, int] = {}
        for host in gone:
            for number, pods in self._whatif.loads.get(host, {}).items():
                kind = self.kind[number]
                counts[kind] = counts.get(kind, 0) + len(pods)
        return counts

    def _demand(self, gone: list[int]) -> list[tuple[int, int]]:
        """Return (kind, pods), largest first by their share of what is asked for."""
        counts = self.counts(gone)
        kinds = sorted(counts)
        if len(kinds) < 2:
            return list(counts.items())
        sizes = self.sizes[kinds]
        total = np.maximum(np.array([counts[kind] for kind in kinds]) @ sizes, 1.0)
        order = np.argsort(-(sizes / total).sum(axis=1), kind="stable")
        return [(kinds[at], counts[kinds[at]]) for at in order.tolist()]

    def _fill(self, kind: int, count: int, placed: list[tuple[int, int, int]]) -> int:
        """Use hosts in their order; returns how many pods found none."""
        roomy, asked, size = self.with_room(kind), self._asked[kind], self.sizes[kind]
        at, width = 0, _WINDOW
        while at < len(roomy):
            window = roomy[at : at + width]
            at, width = at + width, width * 4
            r, amount = asked[0]
            room = self._rows[r].take(window) / amount
            for r, amount in asked[1:]:
                np.minimum(room, self._rows[r].take(window) / amount, out=room)
            for place in (room >= 1.0).nonzero()[0].tolist():
                host = int(window[place])
                taken = min(count, int(room[place]))
                self._free[:, host] -= size * taken
                placed.append((kind, host, taken))
                count -= taken
                if not count:
                    return 0
        return count

    def with_room(self, kind: int) -> Ints:
        """Return the hosts that may have room for a pod: what was so not long ago."""
        known = self._roomy.get(kind)
        if known is None or self._changes - known[0] >= _STALE:
            fine = self._problem.hosts.welcoming(self.asks[kind]).copy()
            for r, amount in self._asked[kind]:
                fine &= self.base[r] >= amount
            known = self._roomy[kind] = (self._changes, np.flatnonzero(fine))
        return known[1]

    def _put_back(self, hosts: list[int]) -> None:
        self._free[:, hosts] = self.base[:, hosts]

    # -- one new node ---------------------------------------------------------------------

    def _buy(self, left: list[tuple[int, int]], placed: list[tuple[int, int, int]]) -> Guess:
        """Price the cheapest single node for what is left."""
        need = np.zeros(self.sizes.shape[1])
        for kind, count in left:
            need += self.sizes[kind] * count
        asks = tuple(sorted({self.asks[kind] for kind, _ in left}))
        (found,) = self.prices(asks, need[None])
        lost = -1
        if found.price == NEVER:
            lost = next((kind for kind, _ in left if not self._fits_anywhere(kind)), -1)
        return found._replace(placed=placed, lost=lost)

    def prices(self, asks: tuple[int, ...], needs: Floats) -> list[Guess]:
        """Price the cheapest single node for each of several loads [load, resource].

        All their pods have these asks. Pools of less weight are for loads that
        no node of the others holds.
        """
        found = [Guess(NEVER, [])] * len(needs)
        waiting = np.arange(len(needs))
        for tier in self._states(asks):
            best: Floats = np.full(len(waiting), NEVER)
            which: list[tuple[int, str]] = [(DEAD, "")] * len(waiting)
            for state in tier:
                shelf = self._shelves.of(state)
                places = shelf.cheapest_fit(needs[waiting].T)
                for at, place in enumerate(places.tolist()):
                    if place < len(shelf.prices) and shelf.prices[place] < best[at]:
                        best[at] = shelf.prices[place]
                        which[at] = (state, self._type_name(state, int(shelf.rows[place])))
            for at, load in enumerate(waiting.tolist()):
                if best[at] != NEVER:
                    state, name = which[at]
                    found[load] = Guess(float(best[at]), [], spot=self._spot(state), kind=name)
            waiting = waiting[best == NEVER]
        return found

    def _type_name(self, state: int, row: int) -> str:
        space = self._problem.space
        return space.pools[space.states[state].pool].rows[row].type.name

    def _fits_anywhere(self, kind: int) -> bool:
        size = self.sizes[kind][:, None]
        for tier in self._states((self.asks[kind],)):
            for state in tier:
                shelf = self._shelves.of(state)
                if int(shelf.cheapest_fit(size)[0]) < len(shelf.prices):
                    return True
        return False

    def _states(self, asks: tuple[int, ...]) -> list[list[int]]:
        """Return the claims that could take pods with all these asks, by weight of pools."""
        known = self._new.get(asks)
        if known is None:
            space = self._problem.space
            known = []
            for roots in space.tiers():
                states = []
                for state in roots:
                    for ask in asks:
                        state = space.move(state, ask)
                    if state != DEAD:
                        states.append(state)
                known.append(states)
            self._new[asks] = known
        return known

    def _spot(self, state: int) -> bool:
        known = self._may_be_spot.get(state)
        if known is None:
            space = self._problem.space
            found = space.states[state]
            table = space.pools[found.pool]
            known = any(
                fine
                and label_keys.SPOT in column[label_keys.CAPACITY_TYPE].values
                and bool(np.isfinite(table.price[found.rows, index]).any())
                for index, (fine, column) in enumerate(
                    zip(found.columns.tolist(), table.columns, strict=True)
                )
            )
            self._may_be_spot[state] = known
        return known
