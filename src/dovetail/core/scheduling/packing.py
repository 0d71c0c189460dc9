"""Finding hosts for the pods of one class, in one cell.

In this order: nodes that exist; room on claims that are open; claims that can
grow into a larger type; new claims. What the last two cost decides between them,
unless the user asked for the fewest nodes.
"""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays import NO_LIMIT, Bools, Floats, Ints
from dovetail.core.scheduling.hosts import Hosts
from dovetail.core.scheduling.limits import Allowance
from dovetail.core.scheduling.reservations import Reservations
from dovetail.core.scheduling.states import DEAD, StateSpace
from dovetail.core.scheduling.topology import Kind
from dovetail.core.scheduling.variety import Variety
from dovetail.core.scheduling.wants import Want
from dovetail.model.settings import MinValues, Packing, SchedulingSettings

_WINDOW = 256
_DEARER = 1.08
"""A gap is not worth turning a claim into one that costs this much more."""
_GROW_TOGETHER = 32
_FINITE = 1e18


class Opening(NamedTuple):
    """The best new claim for a class."""

    state: int
    row: int
    pods: int
    """On one claim."""
    cost_per_pod: float


class Packer:
    """Places pods on hosts and keeps the log of who went where."""

    def __init__(
        self,
        space: StateSpace,
        hosts: Hosts,
        allowances: list[Allowance],
        varieties: list[Variety],
        reservations: Reservations,
        daemon_ports: list[dict[int, Bools]],
        settings: SchedulingSettings,
    ) -> None:
        self.space = space
        self.hosts = hosts
        self.allowances = allowances
        self.varieties = varieties
        self.reservations = reservations
        self._daemon_ports = daemon_ports
        self._picky = {index for index, one in enumerate(varieties) if one.wanted}
        self.settings = settings
        self.fewest = settings.packing is Packing.FEWEST
        self.log: list[tuple[Want, Ints, Ints]] = []
        self.relaxed: dict[int, dict[str, int]] = {}
        """Claim → the minValues that could be had, where fewer had to do."""
        self.attached: dict[str, list[set[str]]] = {}
        self._cursor = 0
        self._per_type: dict[tuple[int, int], Floats] = {}
        self._sorted: dict[int, tuple[Floats, Floats, Ints, Floats]] = {}

    # -- the four ways, in order ------------------------------------------------

    def place(self, want: Want, ask: int, count: int, *, open_new: bool = True) -> int:
        """Place up to ``count`` pods; returns how many found a host."""
        self.hosts.measure(want.size)
        if want.needs_company:
            return self._join_company(want, ask, count, open_new=open_new)
        placed = self.existing(want, ask, count)
        if placed < count:
            placed += self.gaps(want, ask, count - placed)
        if placed < count and open_new:
            placed += self.buy(want, ask, count - placed)
        return placed

    def buy(self, want: Want, ask: int, count: int) -> int:
        """Grow claims or open new ones, whichever is better."""
        placed = 0
        if self.fewest:
            placed = self._grow(want, ask, count, float("inf"))
            return placed + self._open(want, ask, count - placed)
        while placed < count:
            best = self._opening(want, ask, count - placed)
            limit = best.cost_per_pod if best else float("inf")
            grown = self._grow(want, ask, count - placed, limit)
            placed += grown
            if placed < count:
                opened = self._open(want, ask, count - placed, once=True)
                placed += opened
                if not opened and not grown:
                    break
        return placed

    def existing(self, want: Want, ask: int, count: int) -> int:
        hosts = self.hosts
        if not hosts.existing:
            return 0
        fine = hosts.welcoming(ask) & (hosts.headroom[: hosts.existing] >= 1)
        candidates = np.flatnonzero(fine)
        if not len(candidates):
            return 0
        room = self._room(want, candidates, None)
        if want.volumes:
            room = np.minimum(room, self._volume_room(want, candidates))
        return self._take(want, candidates, room, None, count)

    def gaps(self, want: Want, ask: int, count: int) -> int:
        """Fill claims without making them larger."""
        hosts = self.hosts
        first, end = hosts.existing, hosts.count
        candidates = (hosts.headroom[first:end] >= 1).nonzero()[0] + first
        if not len(candidates):
            return 0
        targets = self.space.targets(ask)
        start = int(candidates.searchsorted(self._cursor))
        placed, width = 0, _WINDOW
        for part in (candidates[start:], candidates[:start]):
            at = 0
            while at < len(part) and placed < count:
                window = part[at : at + width]
                at, width = at + width, width * 4
                window, states = self._worth_joining(window, targets)
                if len(window):
                    room = self._room(want, window, states)
                    placed += self._take(want, window, room, states, count - placed)
            if placed >= count:
                break
        return placed

    def _worth_joining(self, claims: Ints, targets: Ints) -> tuple[Ints, Ints]:
        """Keep the claims whose nominal type survives, at about the same price."""
        hosts, cost = self.hosts, self.space.cost
        before = hosts.state[claims]
        after = targets[before]
        alive = after.nonzero()[0]
        if len(alive) < len(claims):
            claims, before, after = claims[alive], before[alive], after[alive]
        if not (before != after).any():
            return claims, after
        rows = hosts.nominal[claims]
        most = _FINITE if self.fewest else np.minimum(cost[before, rows] * _DEARER, _FINITE)
        fine = (cost[after, rows] <= most).nonzero()[0]
        return claims[fine], after[fine]

    def _take(self, want: Want, hosts: Ints, room: Floats, states: Ints | None, count: int) -> int:
        """Use hosts in the order given, each up to its room."""
        usable = (room >= 1).nonzero()[0]
        if not len(usable):
            return 0
        if len(usable) < len(hosts):
            hosts, room = hosts[usable], room[usable]
            states = None if states is None else states[usable]
        filled = room.cumsum()
        enough = int(filled.searchsorted(count))
        if enough < len(hosts):
            hosts, room = hosts[: enough + 1], room[: enough + 1].copy()
            states = None if states is None else states[: enough + 1]
            room[-1] -= filled[enough] - count
        counts = room.astype(np.int64)
        if states is not None:
            self.hosts.state[hosts] = states
            self._cursor = int(hosts[-1])
        self.put(want, hosts, counts)
        return int(counts.sum())

    def put(self, want: Want, hosts: Ints, counts: Ints) -> None:
        """Add pods to hosts and write it down."""
        self.hosts.put(want, hosts, counts)
        if want.volumes:
            for driver, claims in want.volumes.items():
                held = self.attached.get(driver)
                if held is not None:
                    for host in hosts.tolist():
                        if host < len(held):
                            held[host] |= claims
        self.log.append((want, hosts, counts))

    # -- how many pods a host may take -------------------------------------------

    def _room(self, want: Want, hosts: Ints, states: Ints | None) -> Floats:
        """Return how many pods of a class each host takes, by every host-level rule."""
        room = self.hosts.headroom[hosts].copy()
        for rule, own in want.host_rules:
            matched = rule.counter.matched[hosts]
            if rule.kind is Kind.AFFINITY:
                room[matched == 0] = 0
            elif rule.kind is Kind.ANTI:
                np.minimum(room, np.where(matched == 0, 1.0 if own else NO_LIMIT, 0.0), out=room)
            elif own:
                np.minimum(room, rule.skew - matched, out=room)
            else:
                room[matched > rule.skew] = 0
        for rule in want.inverse:
            owned = rule.owned[hosts]
            if not owned.any():
                continue
            if rule.kind is Kind.ANTI:
                room[owned > 0] = 0
            else:
                left = rule.skew - rule.counter.matched[hosts]
                np.minimum(room, np.where(owned > 0, left, NO_LIMIT), out=room)
        if want.ports:
            ports = self.hosts.ports
            for place, host in enumerate(hosts.tolist()):
                room[place] = 0 if ports[host] & want.clashes else min(1.0, room[place])
            if states is not None:
                self._mind_daemon_ports(want, hosts, room)
        if states is not None and self._picky:
            self._keep_variety(want, hosts, states, room)
        return room

    def _keep_variety(self, want: Want, hosts: Ints, states: Ints, room: Floats) -> None:
        for place, (host, state) in enumerate(zip(hosts.tolist(), states.tolist(), strict=True)):
            pool = self.space.states[state].pool
            if pool in self._picky and room[place] >= 1:
                wanted = self.relaxed.get(host, self.varieties[pool].wanted)
                each = self._pods_per_row(want, state, self.hosts.used[:, host])
                room[place] = min(room[place], self.varieties[pool].headroom(each, wanted))

    def _mind_daemon_ports(self, want: Want, claims: Ints, room: Floats) -> None:
        for place, claim in enumerate(claims.tolist()):
            pool = self.space.states[int(self.hosts.state[claim])].pool
            for bits, rows in self._daemon_ports[pool].items():
                if bits & want.clashes and rows[self.hosts.nominal[claim]]:
                    room[place] = 0

    def _volume_room(self, want: Want, hosts: Ints) -> Floats:
        room = np.full(len(hosts), NO_LIMIT)
        for place, host in enumerate(hosts.tolist()):
            node = self.hosts.nodes[host]
            for driver, claims in want.volumes.items():
                limit = node.volume_limits.get(driver)
                if limit is not None and len(self.attached[driver][host] | claims) > limit:
                    room[place] = 0
        return room

    def _pods_per_row(self, want: Want, state: int, used: Floats) -> Floats:
        """Return how many more pods each type of a state takes; -1 where it is ruled out."""
        pool = self.space.states[state].pool
        alloc = self.space.pools[pool].alloc
        room = np.full(len(alloc), NO_LIMIT)
        for r in range(len(want.size)):
            if want.size[r] > 0:
                np.minimum(room, np.floor((alloc[:, r] - used[r]) / want.size[r]), out=room)
            else:
                room[alloc[:, r] < used[r]] = -1
        room[~np.isfinite(self.space.cost[state][: len(alloc)])] = -1
        return room

    # -- company ----------------------------------------------------------------

    def _join_company(self, want: Want, ask: int, count: int, *, open_new: bool) -> int:
        """Place pods that must share a host with certain others."""
        rules = [one for one in want.host_rules if one.rule.kind is Kind.AFFINITY]
        placed = self.existing(want, ask, count)
        placed += self.gaps(want, ask, count - placed) if placed < count else 0
        if placed < count:
            placed += self._grow(want, ask, count - placed, float("inf"))
        lonely = all(one.own and not one.rule.counter.matched.any() for one in rules)
        if placed == count or not lonely:
            return placed
        # Nobody of their kind runs anywhere: the first may choose, the others follow.
        quiet = self._without_company(want)
        first = self._best_start(quiet, ask, count, open_new=open_new)
        if not first:
            return placed
        return placed + first + self._join_rest(want, ask, count - placed - first)

    def _join_rest(self, want: Want, ask: int, count: int) -> int:
        if count <= 0:
            return 0
        placed = self.existing(want, ask, count)
        placed += self.gaps(want, ask, count - placed) if placed < count else 0
        return placed + (self._grow(want, ask, count - placed, NO_LIMIT) if placed < count else 0)

    @staticmethod
    def _without_company(want: Want) -> Want:
        quiet = object.__new__(Want)
        for name in Want.__slots__:
            setattr(quiet, name, getattr(want, name))
        quiet.host_rules = [o for o in want.host_rules if o.rule.kind is not Kind.AFFINITY]
        return quiet

    def _best_start(self, want: Want, ask: int, count: int, *, open_new: bool) -> int:
        """Put the first pods where most of them can be together."""
        hosts = self.hosts
        fine = (
            np.flatnonzero(hosts.welcoming(ask) & (hosts.headroom[: hosts.existing] >= 1))
            if hosts.existing
            else np.zeros(0, dtype=np.int64)
        )
        if len(fine):
            room = self._room(want, fine, None)
            if want.volumes:
                room = np.minimum(room, self._volume_room(want, fine))
            best = int(np.argmax(np.minimum(room, count)))
            if room[best] >= 1:
                return self._take(want, fine[best : best + 1], room[best : best + 1], None, count)
        if not open_new:
            return 0
        best_new = self._opening(want, ask, count, together=True)
        if best_new is None:
            return 0
        return self._open_as(want, best_new, best_new.pods)

    # -- growing ----------------------------------------------------------------

    def _grow(self, want: Want, ask: int, count: int, limit: float) -> int:
        """Move claims to larger types where that costs at most ``limit`` per pod."""
        hosts = self.hosts
        first, end = hosts.existing, hosts.count
        if first == end:
            return 0
        targets = self.space.targets(ask)
        placed, looked = 0, 0
        start = min(max(self._cursor, first), end)
        most = end - first if self.fewest or want.needs_company else 2 * _WINDOW
        for low, high in ((start, end), (first, start)):
            for at in range(low, high, _WINDOW):
                window = np.arange(at, min(at + _WINDOW, high))
                looked += len(window)
                placed += self._grow_window(want, window, targets, count - placed, limit)
                if placed >= count or looked >= most:
                    return placed
        return placed

    def _grow_window(
        self, want: Want, window: Ints, targets: Ints, count: int, limit: float
    ) -> int:
        hosts = self.hosts
        states = targets[hosts.state[window]]
        alive = states.nonzero()[0]
        if not len(alive):
            return 0
        window, states = window[alive], states[alive]
        # The headroom of the nominal type does not bound a claim that may grow.
        kept = hosts.headroom[window].copy()
        hosts.headroom[window] = NO_LIMIT
        room = self._room(want, window, states)
        hosts.headroom[window] = kept
        room = np.minimum(room, count)
        for place, claim in enumerate(window.tolist() if any(self._daemon_ports) else ()):
            # A larger type may bring a DaemonSet that holds a port of these pods.
            if (
                hosts.ports[claim] | want.ports
                and self._daemon_ports[self.space.states[int(states[place])].pool]
            ):
                room[place] = 0
        placed = 0
        usable = room >= 1
        for state in sorted(set(states[usable].tolist())):
            of_state = ((states == state) & usable).nonzero()[0]
            for at in range(0, len(of_state), _GROW_TOGETHER):
                some = of_state[at : at + _GROW_TOGETHER]
                placed += self._grow_some(
                    want, window[some], state, room[some], count - placed, limit
                )
                if placed >= count:
                    return placed
        return placed

    def _grow_some(
        self, want: Want, claims: Ints, state: int, room: Floats, count: int, limit: float
    ) -> int:
        hosts, space = self.hosts, self.space
        steps = _steps(count)
        pods = np.minimum(room[:, None], steps[None, :])  # [claims, steps]
        used = hosts.used[:, claims]
        places = self._cheapest_fit(state, used, want.size, pods)
        _, prices, order, _ = self._types_of(state)
        impossible = places >= len(order)
        places = np.where(impossible, 0, places)
        before = space.cost[hosts.state[claims], hosts.nominal[claims]]
        before = np.where(np.isfinite(before), before, 0.0)
        extra = np.maximum(prices[places] - before[:, None], 0.0) / pods
        extra[impossible] = np.inf
        best = np.argmin(extra - 1e-9 * pods, axis=1)
        each = np.arange(len(claims))
        per_pod = extra[each, best]
        order_of_cost = np.lexsort((each, per_pod))
        chosen = order_of_cost[per_pod[order_of_cost] <= min(limit, _FINITE)]
        numbers = pods[chosen, best[chosen]]
        before_each = np.cumsum(numbers) - numbers
        chosen = chosen[before_each < count]
        numbers = np.minimum(numbers, count - before_each)[: len(chosen)].astype(np.int64)
        rows = order[places[chosen, best[chosen]]]
        fine = self._charge_growth(claims[chosen], state, rows)
        chosen, numbers, rows = chosen[fine], numbers[fine], rows[fine]
        if len(chosen):
            hosts.retype(claims[chosen], state, rows)
            self.put(want, claims[chosen], numbers)
        return int(numbers.sum())

    def _charge_growth(self, claims: Ints, state: int, rows: Ints) -> Bools:
        """Charge larger types to the pool's limits; returns which of them fit in."""
        allowance = self.allowances[self.space.states[state].pool]
        fine = np.ones(len(claims), dtype=bool)
        if allowance.unlimited:
            return fine
        old = self.hosts.nominal[claims]
        if allowance.change(old, rows):
            return fine
        for place in range(len(claims)):
            fine[place] = allowance.change(old[place : place + 1], rows[place : place + 1])
        return fine

    def _types_of(self, state: int) -> tuple[Floats, Floats, Ints, Floats]:
        """Return allocatable, price and row of a state's types, cheapest first.

        Last, the most of each resource that any type up to there has.
        """
        known = self._sorted.get(state)
        if known is None:
            order = self.space.in_price_order(state)
            table = self.space.pools[self.space.states[state].pool]
            alloc = np.ascontiguousarray(table.alloc[order].T)
            tops = np.maximum.accumulate(alloc, axis=1)
            known = self._sorted[state] = (alloc, self.space.cost[state][order], order, tops)
        return known

    def _cheapest_fit(self, state: int, used: Floats, size: Floats, pods: Floats) -> Ints:
        """Return, for each claim and step, the place (by price) of the first type that holds it."""
        alloc, prices, _, tops = self._types_of(state)
        # No type before this place is large enough in every resource by itself.
        place = np.zeros(pods.shape, dtype=np.int64)
        needs = [used[r][:, None] + pods * size[r] for r in range(len(size))]
        for r, need in enumerate(needs):
            np.maximum(place, tops[r].searchsorted(need), out=place)
        right = place < len(prices)
        possible = right.copy()
        for r, need in enumerate(needs):
            right &= alloc[r].take(place, mode="clip") >= need
        for claim, step in zip(*(possible & ~right).nonzero(), strict=True):
            first = int(place[claim, step])
            fits = np.ones(len(prices) - first, dtype=bool)
            for r, need in enumerate(needs):
                fits &= alloc[r, first:] >= need[claim, step]
            place[claim, step] = first + int(fits.argmax()) if fits.any() else len(prices)
        return place

    # -- opening ----------------------------------------------------------------

    def _open(self, want: Want, ask: int, count: int, *, once: bool = False) -> int:
        placed = 0
        while placed < count:
            best = self._opening(want, ask, count - placed)
            if best is None:
                break
            opened = self._open_as(want, best, count - placed)
            placed += opened
            if once or not opened:
                break
        return placed

    def _open_as(self, want: Want, best: Opening, count: int) -> int:
        """Open as many claims of one kind as are filled evenly by ``count`` pods."""
        pool = self.space.states[best.state].pool
        allowance = self.allowances[pool]
        copies = max(1, count // best.pods)
        copies = int(min(copies, allowance.copies(best.row), self.reservations.left(best.state)))
        if copies < 1:
            return 0
        allowance.spend(best.row, copies)
        self.reservations.spend(best.state, copies)
        claims = self.hosts.open(best.state, best.row, copies)
        if pool in self._picky:
            self._note_relaxed(want, best, claims)
        pods = min(best.pods, count)
        self.put(want, claims, np.full(copies, pods, dtype=np.int64))
        return pods * copies

    def _note_relaxed(self, want: Want, best: Opening, claims: Ints) -> None:
        variety = self.varieties[self.space.states[best.state].pool]
        each = self._pods_per_row(want, best.state, np.zeros(len(want.size)))
        achieved = variety.achieved(each >= best.pods)
        lowered = {key: min(low, achieved[key]) for key, low in variety.wanted.items()}
        if lowered != variety.wanted:
            for claim in claims.tolist():
                self.relaxed[claim] = lowered

    def _opening(
        self, want: Want, ask: int, count: int, *, together: bool = False
    ) -> Opening | None:
        """Return the best new claim in the first pool that has any."""
        if want.needs_company:
            return None
        for root in self.space.roots:
            state = self.space.move(root, ask)
            if state == DEAD:
                continue
            best = self._best_type(want, state, count, together=together)
            if best is not None:
                return best
        return None

    def _best_type(self, want: Want, state: int, count: int, *, together: bool) -> Opening | None:
        pool = self.space.states[state].pool
        cap = float(min(count, want.cap or count, 1 if want.ports else count))
        held = self._reserved_opening(want, state, cap)
        if held is not None:
            return held
        state = self.reservations.without(state)
        if state == DEAD:
            return None
        each = self.each(want, state)
        allowed = each >= 1
        if not self.allowances[pool].unlimited:
            allowed = allowed & self.allowances[pool].affordable()
        if want.ports:
            allowed = allowed & ~self.rows_with_ports(pool, want.clashes, len(each))
        if pool in self._picky:
            cap = self._cap_by_variety(want, pool, np.where(allowed, each, -1.0), cap)
        if cap < 1 or not allowed.any():
            return None
        pods = np.minimum(each, cap)
        cost = self.space.cost[state][: len(each)] + self.settings.node_cost
        if self.fewest or together:
            most = pods[allowed].max()
            score = np.where(allowed & (pods == most), cost, np.inf)
        else:
            score = np.where(allowed, cost / np.maximum(pods, 1.0) - 1e-9 * pods, np.inf)
        row = int(np.argmin(score))
        number = int(pods[row])
        return Opening(state, row, number, float(cost[row] / number))

    def _reserved_opening(self, want: Want, state: int, cap: float) -> Opening | None:
        """Return the claim on a reservation that takes most pods; it is paid for."""
        allowance = self.allowances[self.space.states[state].pool]
        best: Opening | None = None
        for row, bound in self.reservations.choices(state):
            pods = int(min(self.each(want, bound)[row], cap))
            if pods >= 1 and allowance.copies(row) >= 1 and (best is None or pods > best.pods):
                best = Opening(bound, row, pods, 0.0)
        return best

    def each(self, want: Want, state: int) -> Floats:
        """Return how many pods of a class an empty claim takes, by type; -1: ruled out."""
        key = (state, want.size_number)
        each = self._per_type.get(key)
        if each is None:
            each = self._pods_per_row(want, state, np.zeros(len(want.size)))
            self._per_type[key] = each
        return each

    def _cap_by_variety(self, want: Want, pool: int, each: Floats, cap: float) -> float:
        variety = self.varieties[pool]
        room = variety.headroom(each, variety.wanted)
        if room < 1 and self.settings.min_values is MinValues.BEST_EFFORT:
            return cap
        return min(cap, room)

    def rows_with_ports(self, pool: int, ports: int, rows: int) -> Bools:
        """Return the types on which a DaemonSet holds one of these ports."""
        taken = np.zeros(rows, dtype=bool)
        for bits, mask in self._daemon_ports[pool].items():
            if bits & ports:
                taken |= mask
        return taken


def _steps(count: int) -> Floats:
    """Return the numbers of pods worth trying on one claim: 1, 2, 4, … and all."""
    steps = {count} | {1 << power for power in range(min(count.bit_length(), 12))}
    return np.array(sorted(step for step in steps if step <= count), dtype=np.float64)
