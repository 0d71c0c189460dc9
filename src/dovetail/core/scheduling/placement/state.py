"""Placement state: everything that changes while pods are placed.

The packer, the upsizer, the claim opener and the fleet search all read and write
this one object. All of them place pods through ``place`` or ``place_on_claim``,
which update nodes, topology groups and volumes together and append to ``log``.
``log`` is complete: the plan, and the undo of a trial, are computed from it.
"""

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import ClaimStateSpace, to_bits
from dovetail.core.scheduling.arrays.types import NO_LIMIT, Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.limits import LimitHeadroom
from dovetail.core.scheduling.constraints.min_values import PoolMinValues
from dovetail.core.scheduling.constraints.reservations import Reservations
from dovetail.core.scheduling.constraints.topology import RuleKind
from dovetail.core.scheduling.placement.nodes import NodeArrays
from dovetail.model.settings import Packing, SchedulingSettings

PlacementLog = list[tuple[CompiledClass, list[int], list[int]]]
"""(class, node indexes, pods on each), in the order of placement."""

_WINDOW = 256
"""Open claims evaluated in one array operation."""
_REQUESTS_AT_ONCE = 1024
"""Distinct requests compared with all types in one array operation."""
_MIN_VALUES_WINDOW = 16
"""The same with minValues, which make each claim much more expensive to evaluate."""


class PlacementState:
    """Nodes and claims, limits, reservations, volumes, and the placement log.

    Lists over NodePools (``limit_headrooms``, ``min_values``, ``daemon_ports``)
    have the order of ``ClaimStateSpace.tables``.
    """

    def __init__(
        self,
        space: ClaimStateSpace,
        nodes: NodeArrays,
        limit_headrooms: list[LimitHeadroom],
        min_values: list[PoolMinValues],
        reservations: Reservations,
        daemon_ports: list[dict[int, Bools]],
        settings: SchedulingSettings,
    ) -> None:
        self.space = space
        self.nodes = nodes
        self.limit_headrooms = limit_headrooms
        self.min_values = min_values
        self.reservations = reservations
        self.daemon_ports = daemon_ports
        """Per NodePool: host port (one bit) → rows [types] where a DaemonSet uses it."""
        self.min_values_pools = {index for index, pool in enumerate(min_values) if pool.required}
        """Indexes of the NodePools with minValues."""
        self.settings = settings
        self.fewest_nodes = self.by_name = settings.packing is Packing.FEWEST
        """Fill claims before opening others; and choose between equal pools by name."""
        self.log: PlacementLog = []
        self.relaxed_min_values: dict[int, dict[str, int]] = {}
        """Claim → reachable minValues, for claims that cannot meet those of the pool."""
        self.attached_volumes: dict[str, list[set[str]]] = {}
        """CSI driver → per existing node, the attached PersistentVolumeClaims."""
        self.cursor = 0
        """Claim that was filled last. Scans start here, so that their cost does not
        grow with the number of claims that are already full."""
        self.window = _MIN_VALUES_WINDOW if self.min_values_pools else _WINDOW
        self._pods_per_empty_claim: dict[tuple[int, int], Floats] = {}
        self._pods_per_empty_type: dict[tuple[int, int], Floats] = {}
        self._fits_empty_claim: dict[tuple[int, int], bool] = {}
        self._fitting_types: dict[int, list[int]] = {}
        """NodePool → [distinct requests]: types on which such a pod fits, as bit sets."""
        self.distinct_requests: list[Floats] = []
        """By ``CompiledClass.requests_id``: [resources] of one pod."""

    def place(self, compiled: CompiledClass, indexes: Ints, counts: Ints) -> None:
        """Place ``counts[i]`` pods on node ``indexes[i]``; indexes are distinct."""
        self.nodes.add_pods(compiled, indexes, counts)
        if compiled.volume_claims:
            for driver, claims in compiled.volume_claims.items():
                attached = self.attached_volumes.get(driver)
                if attached is not None:
                    for index in indexes.tolist():
                        if index < len(attached):
                            attached[index] |= claims
        self.log.append((compiled, indexes.tolist(), counts.tolist()))

    def place_on_claim(self, compiled: CompiledClass, claim: int, count: int) -> None:
        """Place pods without host ports on one claim.

        Without array operations: most steps place one or two pods, and scalar
        access is then several times faster.
        """
        nodes = self.nodes
        nodes.used[:, claim] += compiled.requests * count
        nodes.fitting_pods[claim] -= count
        for group in compiled.hostname_groups:
            group.add_to_nodes(claim, count)
        for rule, _ in compiled.hostname_rules:
            rule.add_owners_to_nodes(claim, count)
        self.log.append((compiled, [claim], [count]))

    def max_pods_on_claim(self, compiled: CompiledClass, claim: int) -> int:
        """Return ``max_pods`` of one claim, for classes without host ports."""
        pods = int(self.nodes.fitting_pods.item(claim))
        for rule, selects_self in compiled.hostname_rules:
            matched = rule.group.node_counts.item(claim)
            if rule.kind is RuleKind.SPREAD:
                if selects_self or matched > rule.max_skew:
                    pods = min(pods, rule.max_skew - matched)
            elif (rule.kind is RuleKind.ANTI_AFFINITY) == (matched > 0):
                return 0
            elif selects_self and rule.kind is RuleKind.ANTI_AFFINITY:
                pods = min(pods, 1)
        for rule in compiled.inverse_hostname_rules:
            if rule.node_owners.item(claim):
                if rule.kind is RuleKind.ANTI_AFFINITY:
                    return 0
                pods = min(pods, rule.max_skew - rule.group.node_counts.item(claim))
        return pods

    def max_pods(
        self, compiled: CompiledClass, indexes: Ints, states: Ints | None, *, any_type: bool = False
    ) -> Floats:
        """Return [indexes]: pods of a class that each node takes.

        Applies resources, hostname topology, host ports, volume limits and
        minValues. Node labels and taints are checked by the caller. ``states``
        [indexes] are the claim states after the class is added; None for
        existing nodes. With ``any_type`` resources are not checked: the claim
        may be moved to a larger type.
        """
        fitting = self.nodes.fitting_pods
        pods = np.full(len(indexes), NO_LIMIT) if any_type else fitting[indexes]
        _apply_own_rules(compiled, indexes, pods)
        _apply_inverse_rules(compiled, indexes, pods)
        if compiled.port_bits:
            port_bits = self.nodes.port_bits
            for i, index in enumerate(indexes.tolist()):
                pods[i] = 0 if port_bits[index] & compiled.conflicting_port_bits else min(1.0, pods[i])
            if states is not None:
                self._apply_daemon_ports(compiled, indexes, pods)
        if states is None:
            self._apply_volume_limits(compiled, indexes, pods)
        elif self.min_values_pools:
            self._apply_min_values(compiled, indexes, states, pods)
        return pods

    def _apply_min_values(self, compiled: CompiledClass, claims: Ints, states: Ints, pods: Floats) -> None:
        for i, (claim, state) in enumerate(zip(claims.tolist(), states.tolist(), strict=True)):
            pool = self.space.states[state].pool
            if pool in self.min_values_pools and pods[i] >= 1:
                min_values = self.min_values[pool]
                required = self.relaxed_min_values.get(claim, min_values.required)
                per_row = self.pods_per_row(compiled, state, self.nodes.used[:, claim])
                pods[i] = min(pods[i], min_values.max_pods(per_row, required))

    def _apply_daemon_ports(self, compiled: CompiledClass, claims: Ints, pods: Floats) -> None:
        for i, claim in enumerate(claims.tolist()):
            pool = self.space.states[int(self.nodes.claim_state[claim])].pool
            for port_bit, rows in self.daemon_ports[pool].items():
                if port_bit & compiled.conflicting_port_bits and rows[self.nodes.nominal_row[claim]]:
                    pods[i] = 0

    def _apply_volume_limits(self, compiled: CompiledClass, indexes: Ints, pods: Floats) -> None:
        for driver, claims in compiled.volume_claims.items():
            for i, index in enumerate(indexes.tolist()):
                limit = self.nodes.existing_nodes[index].volume_limits.get(driver)
                if limit is not None and len(self.attached_volumes[driver][index] | claims) > limit:
                    pods[i] = 0

    def pods_per_row(self, compiled: CompiledClass, state: int, used: Floats) -> Floats:
        """Return [types]: pods that still fit on each type; -1 where it is ruled out.

        ``used`` [resources] are the requests of the pods already on the claim.
        """
        pods = self._pods_per_type(compiled, self.space.states[state].pool, used)
        pods[~np.isfinite(self.space.cost[state][: len(pods)])] = -1
        return pods

    def _pods_per_type(self, compiled: CompiledClass, pool: int, used: Floats) -> Floats:
        """Return [types]: pods that still fit on each type of a pool, whatever its price."""
        alloc = self.space.tables[pool].alloc  # [types, resources]
        pods = np.full(len(alloc), NO_LIMIT)
        for r in range(len(compiled.requests)):
            if compiled.requests[r] > 0:
                np.minimum(pods, np.floor((alloc[:, r] - used[r]) / compiled.requests[r]), out=pods)
            else:
                pods[alloc[:, r] < used[r]] = -1
        return pods

    def pods_per_empty_claim(self, compiled: CompiledClass, state: int) -> Floats:
        """Return [types]: pods of a class on an empty claim; -1 where it is ruled out."""
        key = (state, compiled.requests_id)
        pods = self._pods_per_empty_claim.get(key)
        if pods is None:
            per_type = self._pods_on_empty_types(compiled, state)
            pods = np.where(self.space.available_rows(state), per_type, -1.0)
            self._pods_per_empty_claim[key] = pods
        return pods

    def fits_empty_claim(self, compiled: CompiledClass, state: int) -> bool:
        """Return True if a pod of a class fits on an empty claim in a state; cached."""
        key = (state, compiled.requests_id)
        fits = self._fits_empty_claim.get(key)
        if fits is None:
            available = self.space.available_row_bits(state)
            fits = bool(available & self._fitting_row_bits(compiled, self.space.states[state].pool))
            self._fits_empty_claim[key] = fits
        return fits

    def _fitting_row_bits(self, compiled: CompiledClass, pool: int) -> int:
        """Return the types of a pool on which a pod fits, as a bit set."""
        bits = self._fitting_types.setdefault(pool, [])
        while len(bits) <= compiled.requests_id:
            # For many requests at once: each has its turn soon.
            requests = np.array(self.distinct_requests[len(bits) : len(bits) + _REQUESTS_AT_ONCE])
            alloc = self.space.tables[pool].alloc  # [types, resources]
            fits = np.ones((len(requests), len(alloc)), dtype=bool)
            for r in range(alloc.shape[1]):
                fits &= requests[:, r, None] <= alloc[:, r]
            bits += [to_bits(fits_each) for fits_each in fits]
        return bits[compiled.requests_id]

    def _pods_on_empty_types(self, compiled: CompiledClass, state: int) -> Floats:
        """Return [types]: pods on an empty node of each type in the pool of a state.

        Many states of a pool differ in the zone only: resources are compared once.
        """
        key = (self.space.states[state].pool, compiled.requests_id)
        per_type = self._pods_per_empty_type.get(key)
        if per_type is None:
            per_type = self._pods_per_type(compiled, key[0], np.zeros(len(compiled.requests)))
            self._pods_per_empty_type[key] = per_type
        return per_type

    def rows_with_ports(self, pool: int, port_bits: int, rows: int) -> Bools:
        """Return [types]: True where a DaemonSet uses one of these host ports."""
        used = np.zeros(rows, dtype=bool)
        for port_bit, mask in self.daemon_ports[pool].items():
            if port_bit & port_bits:
                used |= mask
        return used


def _apply_own_rules(compiled: CompiledClass, indexes: Ints, pods: Floats) -> None:
    """Limit ``pods`` [indexes], in place, by the hostname rules of the class itself."""
    for rule, selects_self in compiled.hostname_rules:
        matched = rule.group.node_counts[indexes]
        if rule.kind is RuleKind.AFFINITY:
            pods[matched == 0] = 0
        elif rule.kind is RuleKind.ANTI_AFFINITY:
            np.minimum(pods, np.where(matched == 0, 1.0 if selects_self else NO_LIMIT, 0.0), out=pods)
        elif selects_self:
            # A new node is an empty domain, so the minimum over nodes is always 0.
            np.minimum(pods, rule.max_skew - matched, out=pods)
        else:
            pods[matched > rule.max_skew] = 0


def _apply_inverse_rules(compiled: CompiledClass, indexes: Ints, pods: Floats) -> None:
    """Limit ``pods`` [indexes], in place, by rules of other pods on these nodes."""
    for rule in compiled.inverse_hostname_rules:
        owners = rule.node_owners[indexes]
        if not owners.any():
            continue
        if rule.kind is RuleKind.ANTI_AFFINITY:
            pods[owners > 0] = 0
        else:
            left = rule.max_skew - rule.group.node_counts[indexes]
            np.minimum(pods, np.where(owners > 0, left, NO_LIMIT), out=pods)
