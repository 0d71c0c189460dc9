"""Upsize: move open claims to larger instance types to make room for pods.

A claim may be upsized because it is not launched yet: only its requirements and
the pods on it are fixed, not its type. Upsizing competes with new claims on the
extra price per pod.
"""

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.fleet.native import kernel as _kernel
from dovetail.core.scheduling.placement.price_index import JoinedPriceIndex, PriceIndexes
from dovetail.core.scheduling.placement.state import PlacementState

_FINITE = 1e18
"""USD per hour above every real price; infinite prices are never accepted."""
_EPSILON = 1e-9
"""USD per hour: rounding tolerance of prices."""
_MORE_PODS_BONUS = 1e-9
"""USD per hour and pod: of equal extra prices, the step with more pods wins."""
_EXPECTED_SHARE = 0.7
"""Share of the expected load for which claims are presized.

The rest goes where it is cheapest.
"""
_MAX_POWER = 12
"""Largest step tried, as a power of two, beside the full count."""


class Upsizer:
    """Upsizes the claims whose next larger type costs least per added pod."""

    def __init__(self, placement: PlacementState) -> None:
        self._placement = placement
        self._price_indexes = PriceIndexes(placement.space)

    def upsize(self, compiled: CompiledClass, constraint: int, count: int, limit: float) -> int:
        """Place up to ``count`` pods on upsized claims; return how many.

        ``limit`` is the highest extra price per pod, in USD per hour. Claims
        are scanned in windows from the cursor on. Two windows are enough where
        new claims compete; otherwise all claims are scanned.
        """
        nodes = self._placement.nodes
        first, end = nodes.existing_count, nodes.count
        if first == end:
            return 0
        placed, scanned, width = 0, 0, self._placement.window
        start = min(max(self._placement.cursor, first), end)
        scan_all = self._placement.fewest_nodes or compiled.has_hostname_affinity
        max_scanned = end - first if scan_all else 2 * width
        for low, high in ((start, end), (first, start)):
            for at in range(low, high, width):
                window = np.arange(at, min(at + width, high))
                scanned += len(window)
                placed += self._upsize_window(compiled, window, constraint, count - placed, limit)
                if placed >= count or scanned >= max_scanned:
                    return placed
        return placed

    def _upsize_window(
        self, compiled: CompiledClass, window: Ints, constraint: int, count: int, limit: float
    ) -> int:
        """Upsize claims ``window`` [claims], of all claim states together."""
        nodes = self._placement.nodes
        space = self._placement.space
        states = space.narrow_states(nodes.claim_state[window], constraint)
        feasible = states.nonzero()[0]  # INFEASIBLE is 0.
        if not len(feasible):
            return 0
        window, states = window[feasible], states[feasible]
        max_pods = np.minimum(self._placement.max_pods(compiled, window, states, any_type=True), count)
        for i, claim in enumerate(window.tolist() if any(self._placement.daemon_ports) else ()):
            # A larger type may run a DaemonSet that uses a host port of these pods.
            if (
                nodes.port_bits[claim] | compiled.port_bits
                and self._placement.daemon_ports[self._placement.space.states[int(states[i])].pool]
            ):
                max_pods[i] = 0
        usable = (max_pods >= 1).nonzero()[0]
        if not len(usable):
            return 0
        return self._upsize_claims(compiled, window[usable], states[usable], max_pods[usable], count, limit)

    def _upsize_claims(
        self, compiled: CompiledClass, claims: Ints, states: Ints, max_pods: Floats, count: int, limit: float
    ) -> int:
        """Upsize claims, each to a claim state of ``states``; return the pods placed.

        For each claim and each step (number of pods added) the cheapest type
        that holds the claim's pods and the added ones is looked up. The best
        step of each claim is taken, cheapest claims first.
        """
        nodes, space = self._placement.nodes, self._placement.space
        distinct = tuple(sorted(set(states.tolist())))
        price_index = self._price_indexes.join(distinct)
        part_of = np.searchsorted(distinct, states)
        # [claims]: present price. A claim in a reserved state has none: it is free.
        old_price = space.cost[nodes.claim_state[claims], nodes.nominal_row[claims]]
        old_price[~np.isfinite(old_price)] = 0.0
        pools = {space.states[state].pool for state in distinct}
        headrooms = self._placement.limit_headrooms
        if _kernel is not None and all(headrooms[pool].allows_every_type for pool in pools):
            pods, positions, extra = price_index.best_steps(
                part_of, compiled.requests, nodes.used, claims, max_pods, old_price, _steps(count), limit
            )
        else:
            pods, positions, extra = self._best_steps(
                compiled, claims, states, price_index, part_of, max_pods, old_price, count, limit
            )
        within_limit = (extra <= min(limit, _FINITE)).nonzero()[0]
        if not len(within_limit):
            return 0
        chosen = within_limit[extra[within_limit].argsort(kind="stable")]  # ties: lower index first
        # Stop at the claim with which ``count`` is reached; it takes only the rest.
        possible = pods[chosen]
        added_before = possible.cumsum() - possible
        chosen = chosen[added_before < count]
        added: Ints = np.minimum(possible, count - added_before)[: len(chosen)].astype(np.int64)
        rows = price_index.rows[positions[chosen]]
        # Single swaps fit the limits, but all of them together may not.
        allowed = self._charge_limits(claims[chosen], states[chosen], rows)
        if not allowed.all():
            chosen, added, rows = chosen[allowed], added[allowed], rows[allowed]
        if len(chosen):
            nodes.change_types(claims[chosen], states[chosen], rows)
            self._placement.place(compiled, claims[chosen], added)
        return int(added.sum())

    def _best_steps(
        self,
        compiled: CompiledClass,
        claims: Ints,
        states: Ints,
        price_index: JoinedPriceIndex,
        part_of: Ints,
        max_pods: Floats,
        old_price: Floats,
        count: int,
        limit: float,
    ) -> tuple[Floats, Ints, Floats]:
        """Return [claims]: pods of the best step, position of its type, price.

        The price is the extra price per pod; infinite where no step is possible.
        """
        nodes, steps = self._placement.nodes, _steps(count)
        pods = np.minimum(max_pods[:, None], steps[None, :])  # [claims, steps]
        # [resources, claims, steps]: load of each claim after each step.
        loads = nodes.used[:, claims, None] + compiled.requests[:, None, None] * pods
        # [claims, steps]: types above this price exceed the limit; do not search them.
        max_price = (old_price[:, None] + pods * limit) * (1 + _EPSILON) + _EPSILON
        positions = price_index.cheapest_fit(
            np.repeat(part_of, len(steps)), loads.reshape(len(compiled.requests), -1), max_price.ravel()
        ).reshape(pods.shape)  # [claims, steps] int64, position in the price index
        impossible = positions >= len(price_index.rows)
        positions = np.where(impossible, 0, positions)
        for pool, of_pool in self._by_pool(states):
            headroom = self._placement.limit_headrooms[pool]
            if not headroom.allows_every_type:
                old_rows = nodes.nominal_row[claims[of_pool]][:, None]
                impossible[of_pool] |= ~headroom.can_swap(old_rows, price_index.rows[positions[of_pool]])
        # [claims, steps]: extra price per added pod.
        extra = np.maximum(price_index.prices[positions] - old_price[:, None], 0.0) / pods
        extra[impossible] = np.inf
        best_step = np.argmin(extra - _MORE_PODS_BONUS * pods, axis=1)  # [claims]
        order = np.arange(len(claims))
        return pods[order, best_step], positions[order, best_step], extra[order, best_step]

    def _by_pool(self, states: Ints) -> list[tuple[int, Ints]]:
        """Return each NodePool of claim states, and the positions of its states."""
        pools = self._placement.space.pool_of[states]
        return [(pool, (pools == pool).nonzero()[0]) for pool in sorted(set(pools.tolist()))]

    def presize(self, load: Floats) -> None:
        """Upsize all open claims for their share of a load that is still to come.

        Pods with self anti-affinity on hostname fix the number of nodes. Room
        made at once for the pods that join them saves upsizing claims one by
        one. It costs nothing: the plan builder gives each claim the cheapest
        type that holds its pods. ``load`` [resources] is the sum of requests.
        """
        nodes = self._placement.nodes
        claims = np.arange(nodes.existing_count, nodes.count)
        if not len(claims) or self._placement.min_values_pools or any(self._placement.daemon_ports):
            return
        share = load / len(claims) * _EXPECTED_SHARE
        for state in sorted(set(nodes.claim_state[claims].tolist()), key=self._placement.space.order_key):
            of_state = claims[nodes.claim_state[claims] == state]
            price_index = self._price_indexes.get(state)
            positions = price_index.cheapest_fit(nodes.used[:, of_state] + share[:, None])
            fits = positions < len(price_index.rows)
            of_state, rows = of_state[fits], price_index.rows[positions[fits]]
            states = np.full(len(of_state), state)
            allowed = self._charge_limits(of_state, states, rows)
            if allowed.any():
                nodes.change_types(of_state[allowed], states[allowed], rows[allowed])

    def _charge_limits(self, claims: Ints, states: Ints, rows: Ints) -> Bools:
        """Charge new types [claims] to the limits of their pools; return [claims]: True if allowed."""
        allowed = np.ones(len(claims), dtype=bool)
        if all(headroom.is_unlimited for headroom in self._placement.limit_headrooms):
            return allowed
        for pool, of_pool in self._by_pool(states):
            headroom = self._placement.limit_headrooms[pool]
            old_rows, new_rows = self._placement.nodes.nominal_row[claims[of_pool]], rows[of_pool]
            if headroom.is_unlimited or headroom.try_swap(old_rows, new_rows):
                continue
            for i, position in enumerate(of_pool.tolist()):
                allowed[position] = headroom.try_swap(old_rows[i : i + 1], new_rows[i : i + 1])
        return allowed


def _steps(count: int) -> Floats:
    """Return the numbers of pods to try on one claim: 1, 2, 4, … and ``count``."""
    steps = {count} | {1 << power for power in range(min(count.bit_length(), _MAX_POWER))}
    return np.array(sorted(step for step in steps if step <= count), dtype=np.float64)
