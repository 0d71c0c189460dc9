"""Plan builder: turn the placement state into planned nodes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from dovetail.core.scheduling.arrays.claim_states import ClaimState
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable, pick_value
from dovetail.core.scheduling.arrays.types import Bools, Ints
from dovetail.core.scheduling.problem import Problem
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import CPU, Resources
from dovetail.model.plan import (
    Constraint,
    ExistingPlacement,
    PlannedNode,
    UnschedulablePod,
    UnschedulableReason,
)

_CHUNK = 512
"""Claims compared with all types in one array operation."""
_TypesKey = tuple[int, int, bytes]
"""Claim state, position of the cheapest type, usable types."""
_MIN_VALUES_CUT = "cut to the maximum number of instance types, its NodeClaim would break minValues"


class PlanBuilder:
    """Builds planned nodes from claims and the placement log.

    It may build many plans of one problem, one after the other.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        # Caches that are valid as long as the problem. Claims with the same claim state, cheapest
        # type and usable types (as bytes) share lists of types and requirements; labels depend on
        # the claim state alone.
        self._types: dict[_TypesKey, tuple[InstanceType, ...]] = {}
        self._requirements: dict[_TypesKey, Requirements] = {}
        self._labels: dict[int, FrozenDict[str, str]] = {}
        self._offerings: dict[tuple[int, int], Offering] = {}
        self.dropped: list[UnschedulablePod] = []
        self._last_numbers: dict[str, int] = {}
        self._claims_per_pool: dict[int, int] = {}

    def build(self) -> tuple[tuple[PlannedNode, ...], tuple[ExistingPlacement, ...]]:
        """Return the new nodes, and the pods placed on existing ones.

        Afterwards ``dropped`` has the pods of claims that cannot be planned: cut to
        the maximum number of instance types they would break minValues.
        """
        self.dropped, self._last_numbers = [], {}
        pods = self._pods_by_node()
        nodes = self._problem.nodes
        existing = tuple(
            ExistingPlacement(nodes.existing_nodes[index].name, pods[index])
            for index in sorted(pods)
            if index < nodes.existing_count
        )
        planned: dict[int, PlannedNode] = {}
        claims = np.arange(nodes.existing_count, nodes.count)
        states = nodes.claim_state[nodes.existing_count : nodes.count]
        pools, counts = np.unique(self._problem.space.pool_of[states], return_counts=True)
        self._claims_per_pool = dict(zip(pools.tolist(), counts.tolist(), strict=True))
        for state in np.unique(states).tolist():
            self._build_claims(state, claims[states == state], pods, planned)
        return tuple(planned[claim] for claim in sorted(planned)), existing

    @cached_property
    def _used_names(self) -> set[str]:
        """Names of nodes and NodeClaims that exist."""
        nodes = self._problem.snapshot.nodes
        return {node.name for node in nodes} | {node.claim for node in nodes}

    def _pods_by_node(self) -> dict[int, list[Pod]]:
        """Return node index → pods. Pods of a class are taken in their order."""
        pods: dict[int, list[Pod]] = defaultdict(list)
        next_pod: dict[int, int] = {}
        for compiled, indexes, counts in self._problem.placement.log:
            pod_class = compiled.pod_class
            at = next_pod.get(id(pod_class), 0)
            members = pod_class.pods
            for index, count in zip(indexes, counts, strict=True):
                pods[index] += members[at : at + count]
                at += count
            next_pod[id(pod_class)] = at
        return pods

    def _build_claims(
        self, state_id: int, claims: Ints, pods: Mapping[int, list[Pod]], planned: dict[int, PlannedNode]
    ) -> None:
        """Build the planned nodes of all claims in one claim state."""
        problem = self._problem
        state = problem.space.states[state_id]
        table = problem.tables[state.pool]
        order = problem.space.rows_by_price(state_id)
        alloc = table.alloc[order]  # [types by price, resources]
        credits = _CreditPrices(problem, state_id, table, order)
        name = table.pool.name
        template = table.pool.template
        labels = self._labels_of(state_id, state, table)
        names = problem.resource_names
        for at in range(0, len(claims), _CHUNK):
            chunk = claims[at : at + _CHUNK]
            used = problem.nodes.used[:, chunk].T  # [claims, resources]
            amounts = used.astype(np.int64).tolist()
            fits = np.ones((len(chunk), len(order)), dtype=bool)  # [claims, types by price]
            for r in range(len(names)):
                fits &= used[:, r : r + 1] <= alloc[None, :, r]
            for i, claim in enumerate(chunk.tolist()):
                usable = self._allowed(claim, state.pool, order, fits[i])
                # The first usable type by price is the cheapest that holds the pods.
                first = int(usable.argmax())
                if credits.has_surcharges:
                    first, listed = credits.choose(usable, amounts[i])
                    types = self._types_of((state_id, first, listed.tobytes()), table, order, listed)
                    if self._meets_min_values(claim, state, types):
                        usable = listed
                row = int(order[first])
                daemon_requests = table.daemon_requests[row]
                key = (state_id, first, usable.tobytes())
                if not self._meets_min_values(claim, state, self._types_of(key, table, order, usable)):
                    reason = UnschedulableReason(name, Constraint.MIN_VALUES, _MIN_VALUES_CUT)
                    self.dropped += [UnschedulablePod(pod, (reason,)) for pod in pods[claim]]
                    continue
                planned[claim] = PlannedNode(
                    name=self._name(name),
                    nodepool=name,
                    instance_types=self._types_of(key, table, order, usable),
                    offering=self._offering(state_id, state, table, row),
                    pods=pods[claim],
                    requirements=self._requirements_of(key, state, table, order, usable, claim),
                    requested=Resources(zip(names, amounts[i], strict=True)) + daemon_requests,
                    daemon_requests=daemon_requests,
                    labels=labels,
                    taints=template.taints,
                    startup_taints=template.startup_taints,
                    min_values_relaxed=claim in problem.placement.relaxed_min_values,
                    reservation_ids=_reservations(state),
                    node_cost=table.node_cost,
                )

    def _name(self, pool: str) -> str:
        """Return the next free name ``<pool>-<number>``."""
        while True:
            self._last_numbers[pool] = self._last_numbers.get(pool, 0) + 1
            name = f"{pool}-{self._last_numbers[pool]:05d}"
            if name not in self._used_names:
                return name

    def _allowed(self, claim: int, pool: int, order: Ints, fits: Bools) -> Bools:
        """Return [types by price]: types that limits and host ports allow on a claim."""
        placement, nodes = self._problem.placement, self._problem.nodes
        headroom = placement.limit_headrooms[pool]
        if not headroom.is_unlimited:
            nominal = int(nodes.nominal_row[claim])
            fits = fits & headroom.allowed_alternatives(nominal, self._claims_per_pool[pool])[order]
        if nodes.port_bits[claim]:
            rows = len(self._problem.tables[pool].rows)
            fits = fits & ~placement.rows_with_ports(pool, nodes.port_bits[claim], rows)[order]
        return fits

    def _meets_min_values(self, claim: int, state: ClaimState, types: Sequence[InstanceType]) -> bool:
        min_values = self._problem.placement.min_values[state.pool]
        if not min_values.required:
            return True
        names = {instance_type.name for instance_type in types}
        table = self._problem.tables[state.pool]
        rows = np.array([row.type.name in names for row in table.rows], dtype=bool)
        required = self._problem.placement.relaxed_min_values.get(claim, min_values.required)
        return min_values.is_met(rows, required)

    def _types_of(
        self, key: _TypesKey, table: NodePoolTable, order: Ints, usable: Bools
    ) -> tuple[InstanceType, ...]:
        types = self._types.get(key)
        if types is None:
            _, first, _ = key
            names: dict[str, InstanceType] = {}
            for row in (int(order[first]), *order[usable].tolist()):
                names.setdefault(table.rows[row].type.name, table.rows[row].type)
            types = tuple(names.values())[: self._problem.settings.max_instance_types]
            self._types[key] = types
        return types

    def _requirements_of(
        self, key: _TypesKey, state: ClaimState, table: NodePoolTable, order: Ints, usable: Bools, claim: int
    ) -> Requirements:
        """Return the requirements of the NodeClaim, with types and capacity types listed."""
        relaxed = self._problem.placement.relaxed_min_values.get(claim)
        requirements = self._requirements.get(key) if relaxed is None else None
        if requirements is None:
            types = self._types_of(key, table, order, usable)
            merged = dict(state.requirements)
            names = frozenset(instance_type.name for instance_type in types)
            merged[label_keys.INSTANCE_TYPE] = _with_values(merged, label_keys.INSTANCE_TYPE, names)
            merged[label_keys.CAPACITY_TYPE] = self._capacity_types(state, table, order[usable])
            for name, count in (relaxed or {}).items():
                merged[name] = replace(merged[name], min_values=count, must_exist=False)
            requirements = Requirements(merged)
            if relaxed is None:
                self._requirements[key] = requirements
        return requirements

    def _capacity_types(self, state: ClaimState, table: NodePoolTable, rows: Ints) -> Requirement:
        own = state.requirements.get(label_keys.CAPACITY_TYPE)
        if own is not None and own.values == {label_keys.RESERVED} and not own.complement:
            return own
        possible = np.isfinite(table.price[rows]).any(axis=0) & state.columns
        columns = [table.columns[column] for column in np.flatnonzero(possible).tolist()]
        values = {value for column in columns for value in column[label_keys.CAPACITY_TYPE].values}
        return _with_values(state.requirements, label_keys.CAPACITY_TYPE, frozenset(values))

    def _offering(self, state_id: int, state: ClaimState, table: NodePoolTable, row: int) -> Offering:
        """Return the cheapest offering of a type in a claim state; ties by zone."""
        cheapest = self._offerings.get((state_id, row))
        if cheapest is None:
            reserved_only = _reservations(state) != ()
            offerings: Sequence[Offering] = [
                offering
                for offering in table.rows[row].offerings
                if offering.available
                and (offering.capacity_type == label_keys.RESERVED) == reserved_only
                and state.requirements.find_disjoint_key(offering.requirements()) is None
            ]
            cheapest = min(offerings, key=lambda entry: (entry.price, entry.zone, entry.capacity_type))
            self._offerings[(state_id, row)] = cheapest
        return cheapest

    def _labels_of(self, state_id: int, state: ClaimState, table: NodePoolTable) -> FrozenDict[str, str]:
        cached = self._labels.get(state_id)
        if cached is None:
            template = table.pool.template
            key, value = template.node_class.label
            labels = {**template.labels, label_keys.NODEPOOL: table.pool.name, key: value}
            for name, requirement in sorted(state.requirements.items()):
                custom = name not in label_keys.WELL_KNOWN and not label_keys.is_restricted(name)
                # Choose a value only for labels that the NodePool says its nodes have.
                stated = name in table.requirements or not requirement.complement
                chosen = pick_value(requirement)
                if custom and stated and chosen and not table.defines_label(name):
                    labels[name] = chosen
            cached = self._labels[state_id] = FrozenDict(labels)
        return cached


class _CreditPrices:
    """Exact prices of the types of a claim state: tables price CPU credits in steps."""

    def __init__(self, problem: Problem, state_id: int, table: NodePoolTable, order: Ints) -> None:
        surcharge = table.surcharge[order]
        self.has_surcharges = bool(surcharge.any())
        if not self.has_surcharges:
            return
        names = problem.resource_names
        self._cpu = names.index(CPU) if CPU in names else None
        self._premium = table.premium[order]
        self._list_prices = problem.space.cost[state_id][order] - surcharge
        self._credit_price = table.credit_price(order)
        self._included = table.included_cpu(order)

    def choose(self, usable: Bools, amounts: Sequence[int]) -> tuple[int, Bools]:
        """Return the cheapest usable type, and which types to list.

        EC2 chooses by list price. A type with a surcharge is not listed if the cheapest
        type has none, or a higher list price. ``usable`` is [types by price].
        """
        cpu = 0 if self._cpu is None else amounts[self._cpu]
        surcharge = self._premium + self._credit_price * np.maximum(cpu - self._included, 0.0)
        price = np.where(usable, self._list_prices + surcharge, np.inf)
        first = int(price.argmin())
        is_misleading = surcharge > 0
        if is_misleading[first]:
            is_misleading &= self._list_prices < self._list_prices[first]
        return first, usable & ~is_misleading


def _with_values(requirements: Mapping[str, Requirement], key: str, values: frozenset[str]) -> Requirement:
    """Return a requirement of the given values, with the minValues of the present one."""
    own = requirements.get(key)
    return Requirement(key, False, values, min_values=own.min_values if own else None)


def _reservations(state: ClaimState) -> tuple[str, ...]:
    reservation = state.requirements.get(label_keys.CAPACITY_RESERVATION_ID)
    if reservation is None or reservation.complement or not reservation.values:
        return ()
    return tuple(sorted(reservation.values))
