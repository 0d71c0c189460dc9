"""Writing down what was decided, as a Plan."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import State
from dovetail.core.scheduling.arrays.nodepools import PoolTable, some_value
from dovetail.core.scheduling.arrays.types import Bools, Ints
from dovetail.core.scheduling.problem import Problem
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import Resources
from dovetail.model.plan import ExistingPlacement, PlannedNode


class Answer:
    """Turns hosts and the log of placements into planned nodes."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._types: dict[tuple[int, bytes], tuple[InstanceType, ...]] = {}
        self._requirements: dict[tuple[int, bytes], Requirements] = {}
        self._labels: dict[int, FrozenDict[str, str]] = {}
        self._offerings: dict[tuple[int, int], Offering] = {}
        self.dropped: list[tuple[str, list[Pod]]] = []
        self._numbers: dict[str, int] = {}
        self._claims: dict[int, int] = {}

    def write(self) -> tuple[tuple[PlannedNode, ...], tuple[ExistingPlacement, ...]]:
        """Return the new nodes and what existing ones take.

        Afterwards ``dropped`` has the pods of claims that could not be written:
        cut to the longest list of types, they leave less choice than minValues want.
        """
        pods = self._pods_by_host()
        hosts = self._problem.hosts
        existing = tuple(
            ExistingPlacement(hosts.nodes[host].name, pods[host])
            for host in sorted(pods)
            if host < hosts.existing
        )
        nodes: dict[int, PlannedNode] = {}
        claims = np.arange(hosts.existing, hosts.count)
        states = hosts.state[hosts.existing : hosts.count]
        pools, counts = np.unique(self._problem.space.pool_of[states], return_counts=True)
        self._claims = dict(zip(pools.tolist(), counts.tolist(), strict=True))
        for state in np.unique(states).tolist():
            self._write_state(state, claims[states == state], pods, nodes)
        return tuple(nodes[claim] for claim in sorted(nodes)), existing

    @cached_property
    def _taken(self) -> set[str]:
        """The names that nodes and claims bear."""
        nodes = self._problem.snapshot.nodes
        return {node.name for node in nodes} | {node.claim for node in nodes}

    def _pods_by_host(self) -> dict[int, list[Pod]]:
        pods: dict[int, list[Pod]] = defaultdict(list)
        handed: dict[int, int] = {}
        for want, where, counts in self._problem.board.log:
            one = want.pod_class
            at = handed.get(id(one), 0)
            members = one.pods
            for host, count in zip(where, counts, strict=True):
                pods[host] += members[at : at + count]
                at += count
            handed[id(one)] = at
        return pods

    def _write_state(
        self,
        number: int,
        claims: Ints,
        pods: Mapping[int, list[Pod]],
        nodes: dict[int, PlannedNode],
    ) -> None:
        problem = self._problem
        state = problem.space.states[number]
        table = problem.tables[state.pool]
        order = problem.space.in_price_order(number)
        alloc = table.alloc[order]
        name = table.pool.name
        template = table.pool.template
        labels = self._labels_of(number, state, table)
        axis = problem.axis
        for at in range(0, len(claims), 512):
            some = claims[at : at + 512]
            used = problem.hosts.used[:, some].T
            amounts = used.astype(np.int64).tolist()
            fits = np.ones((len(some), len(order)), dtype=bool)
            for r in range(len(axis)):
                fits &= used[:, r : r + 1] <= alloc[None, :, r]
            for place, claim in enumerate(some.tolist()):
                kept = self._allowed(claim, state.pool, order, fits[place])
                row = int(order[int(kept.argmax())])
                daemons = table.daemon_requests[row]
                key = (number, kept.tobytes())
                if not self._leaves_choice(claim, state, self._types_of(key, table, order, kept)):
                    self.dropped.append((name, pods[claim]))
                    continue
                nodes[claim] = PlannedNode(
                    name=self._name(name),
                    nodepool=name,
                    instance_types=self._types_of(key, table, order, kept),
                    offering=self._offering(number, state, table, row),
                    pods=pods[claim],
                    requirements=self._requirements_of(key, state, table, order, kept, claim),
                    requested=Resources(zip(axis, amounts[place], strict=True)) + daemons,
                    daemon_requests=daemons,
                    labels=labels,
                    taints=template.taints,
                    startup_taints=template.startup_taints,
                    min_values_relaxed=claim in problem.board.relaxed,
                    reservation_ids=_reservations(state),
                )

    def _name(self, pool: str) -> str:
        """Return the next name of a pool's claims that nothing bears yet."""
        while True:
            self._numbers[pool] = self._numbers.get(pool, 0) + 1
            name = f"{pool}-{self._numbers[pool]:05d}"
            if name not in self._taken:
                return name

    def _allowed(self, claim: int, pool: int, order: Ints, fits: Bools) -> Bools:
        """Hold a claim's alternatives to its pool's limits and to its ports."""
        board, hosts = self._problem.board, self._problem.hosts
        allowance = board.allowances[pool]
        if not allowance.unlimited:
            nominal = int(hosts.nominal[claim])
            fits = fits & allowance.alternatives(nominal, self._claims[pool])[order]
        if hosts.ports[claim]:
            clear = ~board.rows_with_ports(
                pool, hosts.ports[claim], len(self._problem.tables[pool].rows)
            )
            fits = fits & clear[order]
        return fits

    def _leaves_choice(self, claim: int, state: State, types: Sequence[InstanceType]) -> bool:
        variety = self._problem.board.varieties[state.pool]
        if not variety.wanted:
            return True
        names = {one.name for one in types}
        table = self._problem.tables[state.pool]
        rows = np.array([row.type.name in names for row in table.rows], dtype=bool)
        return variety.enough(rows, self._problem.board.relaxed.get(claim, variety.wanted))

    def _types_of(
        self, key: tuple[int, bytes], table: PoolTable, order: Ints, kept: Bools
    ) -> tuple[InstanceType, ...]:
        known = self._types.get(key)
        if known is None:
            rows = order[kept].tolist()
            names: dict[str, InstanceType] = {}
            for row in rows:
                names.setdefault(table.rows[row].type.name, table.rows[row].type)
            most = self._problem.settings.max_instance_types
            known = self._types[key] = tuple(names.values())[:most]
        return known

    def _requirements_of(
        self,
        key: tuple[int, bytes],
        state: State,
        table: PoolTable,
        order: Ints,
        kept: Bools,
        claim: int,
    ) -> Requirements:
        """Return what the NodeClaim will say: types and capacity types always spelled out."""
        lowered = self._problem.board.relaxed.get(claim)
        known = self._requirements.get(key) if lowered is None else None
        if known is None:
            types = self._types_of(key, table, order, kept)
            merged = dict(state.requirements)
            low = merged.get(label_keys.INSTANCE_TYPE)
            merged[label_keys.INSTANCE_TYPE] = Requirement(
                label_keys.INSTANCE_TYPE,
                False,
                frozenset(one.name for one in types),
                min_values=low.min_values if low else None,
            )
            merged[label_keys.CAPACITY_TYPE] = self._capacity_types(state, table, order[kept])
            for name, count in (lowered or {}).items():
                one = merged[name]
                merged[name] = Requirement(
                    name, one.complement, one.values, one.gte, one.lte, count
                )
            known = Requirements(merged)
            if lowered is None:
                self._requirements[key] = known
        return known

    def _capacity_types(self, state: State, table: PoolTable, rows: Ints) -> Requirement:
        wanted = state.requirements.get(label_keys.CAPACITY_TYPE)
        low = wanted.min_values if wanted else None
        if wanted is not None and wanted.values == {label_keys.RESERVED} and not wanted.complement:
            return wanted
        possible = np.isfinite(table.price[rows]).any(axis=0) & state.columns
        values: frozenset[str] = frozenset().union(
            *(
                table.columns[column][label_keys.CAPACITY_TYPE].values
                for column in np.flatnonzero(possible).tolist()
            )
        )
        return Requirement(label_keys.CAPACITY_TYPE, False, values, min_values=low)

    def _offering(self, number: int, state: State, table: PoolTable, row: int) -> Offering:
        """Return the cheapest way to have a row in a state; ties by zone."""
        known = self._offerings.get((number, row))
        if known is None:
            reserved_only = _reservations(state) != ()
            fine: Sequence[Offering] = [
                one
                for one in table.rows[row].offerings
                if one.available
                and (one.capacity_type == label_keys.RESERVED) == reserved_only
                and state.requirements.clash(one.requirements()) is None
            ]
            known = min(fine, key=lambda one: (one.price, one.zone, one.capacity_type))
            self._offerings[(number, row)] = known
        return known

    def _labels_of(self, number: int, state: State, table: PoolTable) -> FrozenDict[str, str]:
        known = self._labels.get(number)
        if known is None:
            template = table.pool.template
            key, value = template.node_class.label
            labels = {**template.labels, label_keys.NODEPOOL: table.pool.name, key: value}
            for name, one in sorted(state.requirements.items()):
                custom = name not in label_keys.WELL_KNOWN and not label_keys.is_restricted(name)
                # A value must be made up only for labels that the pool says its nodes have.
                stated = name in table.base or not one.complement
                chosen = some_value(one)
                if custom and stated and chosen and not table.defines(name):
                    labels[name] = chosen
            known = self._labels[number] = FrozenDict(labels)
        return known


def _reservations(state: State) -> tuple[str, ...]:
    held = state.requirements.get(label_keys.CAPACITY_RESERVATION_ID)
    if held is None or held.complement or not held.values:
        return ()
    return tuple(sorted(held.values))
