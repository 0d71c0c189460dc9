"""New claims: choose NodePool, nominal type and number of claims for a class."""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.fleet.native import kernel as _kernel
from dovetail.core.scheduling.placement.state import PlacementState
from dovetail.model.settings import MinValuesPolicy

_MORE_PODS_BONUS = 1e-9
"""USD per hour and pod: of equal prices per pod, the type with more pods wins."""


class NewClaim(NamedTuple):
    """A claim that could be opened for a class."""

    state: int
    row: int
    pods: int
    """On one claim."""
    cost_per_pod: float
    """USD per hour, node cost included; 0 on a capacity reservation."""


class ClaimOpener:
    """Opens claims for pods that no open claim takes."""

    def __init__(self, placement: PlacementState) -> None:
        self._placement = placement
        self._cache: dict[tuple[int, int, float], NewClaim | None] = {}

    def open_claims(self, compiled: CompiledClass, constraint: int, count: int, *, once: bool = False) -> int:
        """Open claims for up to ``count`` pods; return how many pods were placed.

        With ``once`` only claims of the best type are opened, so that the
        caller can compare prices again for the rest.
        """
        placed = 0
        while placed < count:
            best = self.find_best(compiled, constraint, count - placed)
            if best is None:
                break
            opened = self.open_copies(compiled, best, count - placed)
            placed += opened
            if once or not opened:
                break
        return placed

    def open_copies(self, compiled: CompiledClass, best: NewClaim, count: int) -> int:
        """Open as many copies of a claim as ``count`` pods fill; at least one."""
        pool = self._placement.space.states[best.state].pool
        headroom = self._placement.limit_headrooms[pool]
        max_claims = self._placement.reservations.max_claims(best.state)
        copies = int(min(max(1, count // best.pods), headroom.max_copies(best.row), max_claims))
        if copies < 1:
            return 0
        headroom.consume(best.row, copies)
        self._placement.reservations.consume(best.state, copies)
        claims = self._placement.nodes.open_claims(best.state, best.row, copies)
        if pool in self._placement.min_values_pools:
            self._record_relaxed_min_values(compiled, best, claims)
        pods = min(best.pods, count)
        self._placement.place(compiled, claims, np.full(copies, pods, dtype=np.int64))
        return pods * copies

    def _record_relaxed_min_values(self, compiled: CompiledClass, best: NewClaim, claims: Ints) -> None:
        min_values = self._placement.min_values[self._placement.space.states[best.state].pool]
        pods = self._placement.pods_per_row(compiled, best.state, np.zeros(len(compiled.requests)))
        reachable = min_values.count_values(pods >= best.pods)
        relaxed = {key: min(low, reachable[key]) for key, low in min_values.required.items()}
        if relaxed != min_values.required:
            for claim in claims.tolist():
                self._placement.relaxed_min_values[claim] = relaxed

    def find_best(
        self, compiled: CompiledClass, constraint: int, count: int, *, maximize_pods: bool = False
    ) -> NewClaim | None:
        """Return the best new claim in the NodePools of the highest possible weight.

        ``maximize_pods`` takes the cheapest type among those with most pods,
        not the one with the lowest price per pod.
        """
        if compiled.has_hostname_affinity:
            return None  # A new node has no pods to share it with.
        space = self._placement.space
        for roots in space.roots_by_weight():
            options = [
                best
                for root in roots
                if (state := space.narrow(root, constraint)) != INFEASIBLE
                and (best := self._best_type(compiled, state, count, maximize_pods=maximize_pods)) is not None
            ]
            if options:
                # Pools of equal weight compete on price. For the fewest nodes the first
                # is taken, as in Karpenter.
                by_name = self._placement.by_name
                return options[0] if by_name else min(options, key=lambda option: option.cost_per_pod)
        return None

    def _best_type(
        self, compiled: CompiledClass, state: int, count: int, *, maximize_pods: bool
    ) -> NewClaim | None:
        placement = self._placement
        pool = placement.space.states[state].pool
        max_pods = float(min(count, compiled.max_per_node or count, 1 if compiled.port_bits else count))
        if (
            maximize_pods
            or compiled.port_bits
            or pool in placement.min_values_pools
            or placement.reservations.is_offered(pool)
            or not placement.limit_headrooms[pool].allows_every_type
        ):
            return self._choose_type(compiled, state, max_pods, maximize_pods=maximize_pods)
        # Only the requests matter: the result is the same for every such class.
        key = (state, compiled.requests_id, max_pods)
        if key not in self._cache:
            self._cache[key] = self._choose_type(compiled, state, max_pods, maximize_pods=False)
        return self._cache[key]

    def _choose_type(
        self, compiled: CompiledClass, state: int, max_pods: float, *, maximize_pods: bool
    ) -> NewClaim | None:
        pool = self._placement.space.states[state].pool
        # Reserved capacity is paid for: it comes before everything else.
        reserved = self._reserved_claim(compiled, state, max_pods)
        if reserved is not None:
            return reserved
        state = self._placement.reservations.exclude_reserved(state)
        if state == INFEASIBLE:
            return None
        if _kernel is not None and not maximize_pods and self._can_use_kernel(compiled, pool, max_pods):
            alloc = self._placement.space.tables[pool].alloc
            cost = self._placement.space.cost[state][: len(alloc)]
            row, most = _kernel.best_type(alloc.shape, compiled.requests, alloc, cost, max_pods)
            return NewClaim(state, row, int(most), float(cost[row] / most)) if row >= 0 else None
        per_row = self._placement.pods_per_empty_claim(compiled, state)  # [types]
        allowed = per_row >= 1
        if not self._placement.limit_headrooms[pool].is_unlimited:
            allowed = allowed & self._placement.limit_headrooms[pool].allowed_rows()
        if compiled.port_bits:
            bits = compiled.conflicting_port_bits
            allowed = allowed & ~self._placement.rows_with_ports(pool, bits, len(per_row))
        if pool in self._placement.min_values_pools:
            max_pods = self._cap_by_min_values(pool, np.where(allowed, per_row, -1.0), max_pods)
        if max_pods < 1 or not allowed.any():
            return None
        pods = np.minimum(per_row, max_pods)
        cost = self._placement.space.cost[state][: len(per_row)]
        if self._placement.fewest_nodes or maximize_pods:
            most = pods[allowed].max()
            score = np.where(allowed & (pods == most), cost, np.inf)
        else:
            score = np.where(allowed, cost / np.maximum(pods, 1.0) - _MORE_PODS_BONUS * pods, np.inf)
        row = int(np.argmin(score))
        pods_per_claim = int(pods[row])
        return NewClaim(state, row, pods_per_claim, float(cost[row] / pods_per_claim))

    def _can_use_kernel(self, compiled: CompiledClass, pool: int, max_pods: float) -> bool:
        """Return True if only prices and resources decide."""
        placement = self._placement
        return (
            max_pods >= 1
            and not placement.fewest_nodes
            and not compiled.port_bits
            and pool not in placement.min_values_pools
            and placement.limit_headrooms[pool].is_unlimited
        )

    def _reserved_claim(self, compiled: CompiledClass, state: int, max_pods: float) -> NewClaim | None:
        """Return the claim on a capacity reservation that takes most pods."""
        headroom = self._placement.limit_headrooms[self._placement.space.states[state].pool]
        best: NewClaim | None = None
        for row, bound_state in self._placement.reservations.options(state):
            pods = int(min(self._placement.pods_per_empty_claim(compiled, bound_state)[row], max_pods))
            if pods >= 1 and headroom.max_copies(row) >= 1 and (best is None or pods > best.pods):
                best = NewClaim(bound_state, row, pods, 0.0)
        return best

    def _cap_by_min_values(self, pool: int, per_row: Floats, max_pods: float) -> float:
        """Return how many pods a claim may take while enough types remain for it."""
        min_values = self._placement.min_values[pool]
        reachable = min_values.max_pods(per_row, min_values.required)
        if reachable < 1 and self._placement.settings.min_values_policy is MinValuesPolicy.BEST_EFFORT:
            return max_pods
        return min(max_pods, reachable)
