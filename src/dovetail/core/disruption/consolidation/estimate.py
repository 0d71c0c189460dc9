"""Estimate of the replacement for removed nodes, from arrays alone.

An estimate takes a fraction of a millisecond, a scheduling simulation some ten
times longer. It ignores topology, host ports, volumes, preferences and limits. For a
single node it may respect the domains that required spreads leave to its pods. It is
not available for NodePools with minValues or capacity reservations.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, TopologyRule
from dovetail.core.scheduling.placement.price_index import PriceIndexes
from dovetail.core.scheduling.pods.volumes import NO_VOLUMES
from dovetail.model import labels as label_keys

INFINITE_PRICE: Final = float("inf")
_WINDOW: Final = 32
"""Nodes tried in the first step of a placement; each further step tries four times as many."""
_MAX_STALENESS: Final = 64
"""Number of applied commands after which the list of nodes with room is rebuilt."""


class _Shape(NamedTuple):
    """Requests and constraints that pods share."""

    requests: tuple[float, ...]
    constraint: int
    """Node constraint, interned."""
    key: str = ""
    """Topology key of ``domains``; empty: pods may go to any domain."""
    domains: frozenset[str] = frozenset()
    """Domains that a required spread allows."""


class Estimate(NamedTuple):
    """Estimated placement of the pods of removed nodes."""

    price: float
    """USD per hour of the new instance; 0: none is needed; infinite: one is not enough."""
    placements: list[tuple[int, int, int]]
    """(pod shape, existing node, number of pods); see ``Estimator.shape_of_class``."""
    unplaceable_shape: int = -1
    """The first pod shape that fits no node at all; -1: none."""
    uninitialized_node: int = -1
    """An existing node that is needed but not initialized; -1: none."""
    may_be_spot: bool = False
    """The new node may be a spot instance."""
    instance_type: str = ""
    """The cheapest sufficient instance type of the new node."""
    node_cost: float = 0.0
    """USD per hour of the new node beyond its instance."""


class Estimator:
    """Estimates placements for the cluster of a scheduling simulation.

    A pod shape is what a node sees of an equivalence class: resource requests and
    node constraint. Classes that differ in nothing else share a shape. Pods with a
    required spread have further shapes, one for each set of domains that is left to
    the pods of a removed node.
    """

    def __init__(self, simulation: SchedulingSimulation) -> None:
        self._simulation = simulation
        problem = self._problem = simulation.problem
        self.shape_of_class: list[int] = []
        """Equivalence class → pod shape without domains."""
        self._shapes: list[_Shape] = []
        self._numbers: dict[_Shape, int] = {}
        """Pod shape → its number, the index into all that is kept by shape."""
        self._nonzero_requests: list[list[tuple[int, float]]] = []
        self._requests: Floats = np.zeros((0, len(problem.resource_names)))
        self._spreads: list[TopologyRule | None] = []
        """Equivalence class → required spread of its own pods that limits their domains."""
        self._counted_by: list[frozenset[int]] = []
        """Equivalence class → ids of the groups over domains that count its pods."""
        self._counted_classes: Counter[int] = Counter()
        """Id of a group over domains → number of classes that it counts."""
        self._is_simple: list[bool] = []
        for pod_class in simulation.trial.classes:
            form_count = len(problem.relaxed_specs[id(pod_class)])
            # The last form has no preferences left: it constrains nodes least.
            compiled = simulation.trial.placer.compile_class(pod_class, form_count - 1)
            shape = _Shape(tuple(compiled.requests.tolist()), compiled.constraint)
            self.shape_of_class.append(self._add_shape(shape))
            self._spreads.append(_find_limiting_spread(compiled))
            self._counted_by.append(frozenset(map(id, compiled.domain_groups)))
            self._counted_classes.update(self._counted_by[-1])
            self._is_simple.append(
                form_count == 1
                and not (compiled.rules or compiled.hostname_groups or compiled.domain_groups)
                and not (compiled.port_bits or compiled.volume_claims)
                and compiled.volume_topologies is NO_VOLUMES.topologies
            )
        self._spread_shapes: dict[tuple[int, str, int], int] = {}
        """Class, domain and number of pods that leave it → shape, since the last ``refresh``."""
        self._node_domains: dict[str, list[str | None]] = {}
        """Topology key → domain of each existing node."""
        self._nodes_in: dict[tuple[str, frozenset[str]], Bools] = {}
        placement = problem.placement
        self._ignores_limits = not all(
            headroom.is_unlimited or headroom.allows_every_type for headroom in placement.limit_headrooms
        )
        self._has_simple_nodepools = not any(
            placement.min_values_pools or placement.reservations.is_offered(pool)
            for pool in range(len(problem.tables))
        )
        if self._ignores_limits and len(problem.space.roots_by_weight()) > 1:
            # A NodePool of lower weight may be cheaper than one that is at its limit.
            self._has_simple_nodepools = False
        self.uninitialized_nodes = {
            node for node in range(problem.nodes.existing_count) if simulation.is_uninitialized(node)
        }
        self._price_index = PriceIndexes(problem.space)
        self._nodes_with_room: dict[int, tuple[int, Ints]] = {}
        self._new_states: dict[tuple[int, ...], list[list[int]]] = {}
        self._spot_states: dict[int, bool] = {}
        self._prices: dict[tuple[int, int], float] = {}
        self._version = 0
        self.free: Floats = np.zeros(0)
        """Free resources of existing nodes: [resources, nodes]."""
        self._scratch: Floats = np.zeros(0)
        """A copy of ``free`` that an estimate changes, and resets at its end."""
        self._scratch_rows: list[Floats] = []
        self.refresh()

    def refresh(self) -> None:
        """Read free resources again, after a command was applied."""
        nodes = self._problem.nodes
        end = nodes.existing_count
        self.free = nodes.available[:, :end] - nodes.used[:, :end]
        self._scratch = self.free.copy()
        self._scratch_rows = list(self._scratch)
        self._version += 1
        self._spread_shapes.clear()

    @property
    def requests(self) -> Floats:
        """Requests of one pod: [shapes, resources]."""
        if len(self._requests) < len(self._shapes):
            rows = [shape.requests for shape in self._shapes]
            self._requests = np.array(rows, dtype=float).reshape((len(rows), -1))
        return self._requests

    def get_constraint(self, shape: int) -> int:
        """Return the node constraint of a shape."""
        return self._shapes[shape].constraint

    def _add_shape(self, shape: _Shape) -> int:
        number = self._numbers.setdefault(shape, len(self._shapes))
        if number == len(self._shapes):
            self._shapes.append(shape)
            self._nonzero_requests.append(
                [(resource, amount) for resource, amount in enumerate(shape.requests) if amount > 0]
            )
        return number

    def is_exact(self, removed: list[int], *, needs_new_node: bool = True) -> bool:
        """Return True if nothing that an estimate ignores applies to the nodes' pods.

        Limits do not apply unless a new node is needed.
        """
        if needs_new_node and self._ignores_limits:
            return False
        pods_by_node = self._simulation.pods_by_node
        return self.is_bound(removed) and all(
            self._is_simple[pod_class] for node in removed for pod_class in pods_by_node.get(node, ())
        )

    def is_bound(self, removed: list[int]) -> bool:
        """Return True if an estimate for these nodes is a lower bound of the price.

        What it ignores (topology, ports, volumes, preferences, limits) only adds to the price.
        """
        return self._has_simple_nodepools and not self._simulation.get_unschedulable(removed)

    def has_spreads(self, node: int) -> bool:
        """Return True if spreads may limit the domains of a node's pods."""
        pods_by_class = self._simulation.pods_by_node.get(node, ())
        return any(self._spreads[pod_class] is not None for pod_class in pods_by_class)

    def estimate(self, removed: list[int], *, with_spreads: bool = False) -> Estimate:
        """Place the pods of these nodes by first fit, largest first.

        ``with_spreads`` is for one node: its pods go only to domains that are left to them.
        """
        demand = self._order_demand(self.count_pods(removed, with_spreads=with_spreads))
        self._scratch[:, removed] = -1.0
        placements: list[tuple[int, int, int]] = []
        unplaced: list[tuple[int, int]] = []
        for shape, count in demand:
            remaining = self._place(shape, count, placements)
            if remaining:
                unplaced.append((shape, remaining))
        self._reset([*removed, *(node for _, node, _ in placements)])
        uninitialized = -1
        if self.uninitialized_nodes:
            uninitialized = next((node for _, node, _ in placements if node in self.uninitialized_nodes), -1)
        if unplaced:
            estimate = self._price_new_node(unplaced, placements)
        else:
            estimate = Estimate(0.0, placements)
        return estimate._replace(uninitialized_node=uninitialized)

    def count_pods(self, removed: Sequence[int], *, with_spreads: bool) -> dict[int, int]:
        """Return the number of pods of each shape on these nodes."""
        counts: dict[int, int] = {}
        for node in removed:
            for pod_class, pods in self._simulation.pods_by_node.get(node, {}).items():
                shape = self.shape_of_class[pod_class]
                spread = self._spreads[pod_class] if with_spreads else None
                if spread is not None:
                    shape = self._get_spread_shape(pod_class, spread, node, len(pods))
                counts[shape] = counts.get(shape, 0) + len(pods)
        return counts

    def _get_spread_shape(self, pod_class: int, spread: TopologyRule, node: int, pods: int) -> int:
        """Return the shape of pods that leave a node alone, with the domains left to them."""
        group = spread.group
        domain = self._get_node_domains(group.key)[node]
        if domain not in group.counts:
            return self.shape_of_class[pod_class]
        leaving = pods if self._counted_classes[id(group)] == 1 else self._count_leaving(id(group), node)
        shape = self._spread_shapes.get((pod_class, domain, leaving))
        if shape is None:
            shape = self.shape_of_class[pod_class]
            domains = find_open_domains(group.counts, spread.max_skew, domain, leaving)
            if len(domains) < len(group.counts):
                shape = self._add_shape(self._shapes[shape]._replace(key=group.key, domains=domains))
            self._spread_shapes[pod_class, domain, leaving] = shape
        return shape

    def _get_node_domains(self, key: str) -> list[str | None]:
        domains = self._node_domains.get(key)
        if domains is None:
            nodes = self._problem.nodes.existing_nodes
            domains = self._node_domains[key] = [node.labels.get(key) for node in nodes]
        return domains

    def _count_leaving(self, group: int, node: int) -> int:
        """Return how many pods on a node are counted by the group with this id."""
        pods_by_class = self._simulation.pods_by_node[node].items()
        return sum(len(pods) for number, pods in pods_by_class if group in self._counted_by[number])

    def _order_demand(self, counts: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return (shape, pods), largest share of the total requests first."""
        shapes = sorted(counts)
        if len(shapes) < 2:
            return list(counts.items())
        requests = self.requests[shapes]  # [shapes, resources]
        total = np.maximum(np.array([counts[shape] for shape in shapes]) @ requests, 1.0)
        order = np.argsort(-(requests / total).sum(axis=1), kind="stable")
        return [(shapes[index], counts[shapes[index]]) for index in order.tolist()]

    def _place(self, shape: int, count: int, placements: list[tuple[int, int, int]]) -> int:
        """Place pods on existing nodes in order; return the number of unplaced pods."""
        nodes = self.get_nodes_with_room(shape)
        nonzero, requests = self._nonzero_requests[shape], self.requests[shape]
        start, width = 0, _WINDOW
        while start < len(nodes):
            window = nodes[start : start + width]
            start, width = start + width, width * 4
            resource, amount = nonzero[0]
            slots = self._scratch_rows[resource].take(window) / amount  # pods per node
            for resource, amount in nonzero[1:]:
                np.minimum(slots, self._scratch_rows[resource].take(window) / amount, out=slots)
            for index in (slots >= 1.0).nonzero()[0].tolist():
                node = int(window[index])
                placed = min(count, int(slots[index]))
                self._scratch[:, node] -= requests * placed
                placements.append((shape, node, placed))
                count -= placed
                if not count:
                    return 0
        return count

    def get_nodes_with_room(self, shape: int) -> Ints:
        """Return the existing nodes with room for a pod; the list may be slightly stale.

        Stale entries are harmless: commands only take room, and ``_place`` checks it.
        """
        cached = self._nodes_with_room.get(shape)
        if cached is None or self._version - cached[0] >= _MAX_STALENESS:
            _, constraint, key, domains = self._shapes[shape]
            has_room = self._problem.nodes.nodes_matching(constraint).copy()
            if key:
                has_room &= self._get_nodes_in(key, domains)
            for resource, amount in self._nonzero_requests[shape]:
                has_room &= self.free[resource] >= amount
            cached = self._nodes_with_room[shape] = (self._version, np.flatnonzero(has_room))
        return cached[1]

    def _get_nodes_in(self, key: str, domains: frozenset[str]) -> Bools:
        """Return [existing nodes]: True where a node is in one of the domains."""
        is_inside = self._nodes_in.get((key, domains))
        if is_inside is None:
            is_inside = np.array([domain in domains for domain in self._get_node_domains(key)])
            self._nodes_in[key, domains] = is_inside
        return is_inside

    def _reset(self, nodes: list[int]) -> None:
        self._scratch[:, nodes] = self.free[:, nodes]

    # -- one new node ---------------------------------------------------------------------

    def _price_new_node(self, pods: list[tuple[int, int]], placed: list[tuple[int, int, int]]) -> Estimate:
        """Return the estimate with the cheapest single node for unplaced (shape, pods)."""
        load = np.zeros(self.requests.shape[1])
        for shape, count in pods:
            load += self.requests[shape] * count
        constraints = tuple(sorted({self.get_constraint(shape) for shape, _ in pods}))
        (estimate,) = self.estimate_prices(constraints, load[None])
        unplaceable = -1
        if estimate.price == INFINITE_PRICE:
            unplaceable = next((shape for shape, _ in pods if not self._fits_new_node(shape)), -1)
        return estimate._replace(placements=placed, unplaceable_shape=unplaceable)

    def estimate_prices(self, constraints: tuple[int, ...], loads: Floats) -> list[Estimate]:
        """Return the cheapest single node for each of several loads [loads, resources].

        A node must satisfy all constraints. NodePools of lower weight serve only
        loads that no node of a higher weight holds.
        """
        estimates = [Estimate(INFINITE_PRICE, [])] * len(loads)
        unpriced = np.arange(len(loads))
        for tier in self._get_states(constraints):
            best: Floats = np.full(len(unpriced), INFINITE_PRICE)
            chosen: list[tuple[int, int]] = [(INFEASIBLE, -1)] * len(unpriced)
            for state in tier:
                prices = self._price_index.get(state)
                positions = prices.cheapest_fit(loads[unpriced].T)
                for index, position in enumerate(positions.tolist()):
                    if position < len(prices.prices) and prices.prices[position] < best[index]:
                        best[index] = prices.prices[position]
                        chosen[index] = (state, int(prices.rows[position]))
            for index, load in enumerate(unpriced.tolist()):
                if best[index] != INFINITE_PRICE:
                    state, row = chosen[index]
                    table = self._get_table(state)
                    estimates[load] = Estimate(
                        self._get_price(state, row),
                        [],
                        may_be_spot=self._can_be_spot(state),
                        instance_type=table.rows[row].type.name,
                        node_cost=table.node_cost,
                    )
            unpriced = unpriced[best == INFINITE_PRICE]
        return estimates

    def _get_table(self, state: int) -> NodePoolTable:
        space = self._problem.space
        return space.tables[space.states[state].pool]

    def _get_price(self, state: int, row: int) -> float:
        """Return the price of the cheapest offering of a type; exact, unlike cost minus node cost."""
        price = self._prices.get((state, row))
        if price is None:
            columns = self._problem.space.states[state].columns
            table = self._get_table(state)
            price = float(table.price[row, columns].min() - table.premium[row])
            self._prices[(state, row)] = price
        return price

    def _fits_new_node(self, shape: int) -> bool:
        requests = self.requests[shape][:, None]
        for tier in self._get_states((self.get_constraint(shape),)):
            for state in tier:
                prices = self._price_index.get(state)
                if int(prices.cheapest_fit(requests)[0]) < len(prices.prices):
                    return True
        return False

    def _get_states(self, constraints: tuple[int, ...]) -> list[list[int]]:
        """Return the claim states that satisfy all constraints, by weight of NodePools."""
        tiers = self._new_states.get(constraints)
        if tiers is None:
            space = self._problem.space
            tiers = []
            for roots in space.roots_by_weight():
                states = []
                for state in roots:
                    for constraint in constraints:
                        state = space.narrow(state, constraint)
                    if state != INFEASIBLE:
                        states.append(state)
                tiers.append(states)
            self._new_states[constraints] = tiers
        return tiers

    def _can_be_spot(self, state: int) -> bool:
        can_be_spot = self._spot_states.get(state)
        if can_be_spot is None:
            space = self._problem.space
            claim_state = space.states[state]
            table = space.tables[claim_state.pool]
            can_be_spot = any(
                is_allowed
                and label_keys.SPOT in column[label_keys.CAPACITY_TYPE].values
                and bool(np.isfinite(table.price[claim_state.rows, index]).any())
                for index, (is_allowed, column) in enumerate(
                    zip(claim_state.columns.tolist(), table.columns, strict=True)
                )
            )
            self._spot_states[state] = can_be_spot
        return can_be_spot


def _find_limiting_spread(compiled: CompiledClass) -> TopologyRule | None:
    """Return a spread of the pods' own class whose open domains follow from its counts alone."""
    for own in compiled.own_spreads:
        rule = own.rule
        counts_all = rule.group.node_filter == EVERY_NODE and not compiled.required_terms
        if counts_all and not rule.soft and not rule.min_domains:
            return rule
    return None


def find_open_domains(counts: Mapping[str, int], max_skew: int, domain: str, leaving: int) -> frozenset[str]:
    """Return the domains that may take one of several pods that leave a domain.

    A domain takes another pod only if all others have nearly as many, so that some of
    the pods must fill those first: at least one must remain. The pods may always return.
    """
    left = {**counts, domain: counts[domain] - leaving}
    least = min(left.values())
    opened = {domain}
    for other, count in left.items():
        level = count + 1 - max_skew
        if level <= least or sum(level - below for below in left.values() if below < level) < leaving:
            opened.add(other)
    return frozenset(opened)
