"""What every way of placing pods looks at and writes to."""

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import StateSpace
from dovetail.core.scheduling.arrays.types import NO_LIMIT, Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.limits import Allowance
from dovetail.core.scheduling.constraints.min_values import Variety
from dovetail.core.scheduling.constraints.reservations import Reservations
from dovetail.core.scheduling.constraints.topology import Kind
from dovetail.core.scheduling.placement.nodes import Hosts
from dovetail.model.settings import Packing, SchedulingSettings


class Board:
    """Hosts, pools and their limits, and the log of who went where."""

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
        self.daemon_ports = daemon_ports
        """For each pool: host port (as a bit) → types on which a DaemonSet holds it."""
        self.picky = {index for index, one in enumerate(varieties) if one.wanted}
        """Pools with minValues."""
        self.settings = settings
        self.fewest = self.by_name = settings.packing is Packing.FEWEST
        """Fill claims before opening others; and choose between equal pools by name."""
        self.log: list[tuple[Want, list[int], list[int]]] = []
        """(class, hosts, how many of its pods on each), in the order of placing."""
        self.relaxed: dict[int, dict[str, int]] = {}
        """Claim → the minValues that could be had, where fewer had to do."""
        self.attached: dict[str, list[set[str]]] = {}
        """CSI driver → for each existing node, the claims it has attached."""
        self.cursor = 0
        """Where the last gap was filled; the next search starts there."""
        self.window = 16 if self.picky else 256
        """Hosts looked at together; minValues make looking at one a good deal dearer."""
        self._per_type: dict[tuple[int, int], Floats] = {}

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
        self.log.append((want, hosts.tolist(), counts.tolist()))

    def put_one(self, want: Want, host: int, count: int) -> None:
        """Do the same for one claim, without arrays: most steps place a pod or two."""
        hosts = self.hosts
        hosts.used[:, host] += want.size * count
        hosts.headroom[host] -= count
        for counter in want.host_counters:
            counter.matched[host] += count
        for rule, _ in want.host_rules:
            rule.owned[host] += count
        self.log.append((want, [host], [count]))

    def room_on(self, want: Want, host: int) -> int:
        """Return what ``room`` says of one claim, for classes without host ports."""
        room = int(self.hosts.headroom.item(host))
        for rule, own in want.host_rules:
            matched = rule.counter.matched.item(host)
            if rule.kind is Kind.SPREAD:
                room = min(room, rule.skew - matched) if own or matched > rule.skew else room
            elif (rule.kind is Kind.ANTI) == (matched > 0):
                return 0
            elif own and rule.kind is Kind.ANTI:
                room = min(room, 1)
        for rule in want.inverse:
            if rule.owned.item(host):
                if rule.kind is Kind.ANTI:
                    return 0
                room = min(room, rule.skew - rule.counter.matched.item(host))
        return room

    def room(self, want: Want, hosts: Ints, states: Ints | None, *, grown: bool = False) -> Floats:
        """Return how many pods of a class each host takes, by every host-level rule.

        ``states`` are those after joining; None for existing nodes. ``grown``
        claims may change to a larger type, so what their type holds is no bound.
        """
        headroom = self.hosts.headroom
        room = np.full(len(hosts), NO_LIMIT) if grown else headroom[hosts]
        _obey_own_rules(want, hosts, room)
        _obey_others_rules(want, hosts, room)
        if want.ports:
            ports = self.hosts.ports
            for place, host in enumerate(hosts.tolist()):
                room[place] = 0 if ports[host] & want.clashes else min(1.0, room[place])
            if states is not None:
                self._mind_daemon_ports(want, hosts, room)
        if states is None:
            self._mind_volumes(want, hosts, room)
        elif self.picky:
            self._keep_variety(want, hosts, states, room)
        return room

    def _keep_variety(self, want: Want, hosts: Ints, states: Ints, room: Floats) -> None:
        for place, (host, state) in enumerate(zip(hosts.tolist(), states.tolist(), strict=True)):
            pool = self.space.states[state].pool
            if pool in self.picky and room[place] >= 1:
                wanted = self.relaxed.get(host, self.varieties[pool].wanted)
                each = self.pods_per_row(want, state, self.hosts.used[:, host])
                room[place] = min(room[place], self.varieties[pool].headroom(each, wanted))

    def _mind_daemon_ports(self, want: Want, claims: Ints, room: Floats) -> None:
        for place, claim in enumerate(claims.tolist()):
            pool = self.space.states[int(self.hosts.state[claim])].pool
            for bits, rows in self.daemon_ports[pool].items():
                if bits & want.clashes and rows[self.hosts.nominal[claim]]:
                    room[place] = 0

    def _mind_volumes(self, want: Want, hosts: Ints, room: Floats) -> None:
        for driver, claims in want.volumes.items():
            for place, host in enumerate(hosts.tolist()):
                limit = self.hosts.nodes[host].volume_limits.get(driver)
                if limit is not None and len(self.attached[driver][host] | claims) > limit:
                    room[place] = 0

    def pods_per_row(self, want: Want, state: int, used: Floats) -> Floats:
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

    def each(self, want: Want, state: int) -> Floats:
        """Return how many pods of a class an empty claim takes, by type; -1: ruled out."""
        key = (state, want.size_number)
        each = self._per_type.get(key)
        if each is None:
            each = self.pods_per_row(want, state, np.zeros(len(want.size)))
            self._per_type[key] = each
        return each

    def rows_with_ports(self, pool: int, ports: int, rows: int) -> Bools:
        """Return the types on which a DaemonSet holds one of these ports."""
        taken = np.zeros(rows, dtype=bool)
        for bits, mask in self.daemon_ports[pool].items():
            if bits & ports:
                taken |= mask
        return taken


def _obey_own_rules(want: Want, hosts: Ints, room: Floats) -> None:
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


def _obey_others_rules(want: Want, hosts: Ints, room: Floats) -> None:
    """Keep away from pods that these would disturb."""
    for rule in want.inverse:
        owned = rule.owned[hosts]
        if not owned.any():
            continue
        if rule.kind is Kind.ANTI:
            room[owned > 0] = 0
        else:
            left = rule.skew - rule.counter.matched[hosts]
            np.minimum(room, np.where(owned > 0, left, NO_LIMIT), out=room)
