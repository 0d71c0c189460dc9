"""Deferred pods: independent classes that wait for one common fleet search.

A batch may use claims in the states that its own constraint leads to, and claims
opened for more constrained batches if it does not narrow them further. The fleet
search does not know claim states: each (state, row) is a type of its own, which
admits the batches that may use the state.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.domains import DomainTuple
from dovetail.core.scheduling.fleet import Bundle, Demand, cheapest_fleet
from dovetail.core.scheduling.problem import Problem

_MAX_CLASSES = 128
"""Classes in one fleet search; more are divided by the claim states they would open."""
# Pods per open claim up to which many small classes go to open claims instead.
_PODS_PER_CLAIM = 2
# Claim states in one fleet search.
_MAX_STATES = 12
# Fleet searches for the same batches, if limits cut the fleets short.
_MAX_SEARCHES = 4
_NO_CAP = np.iinfo(np.int64).max


class Batch(NamedTuple):
    """Pods of one class in one domain tuple that wait for the fleet search."""

    compiled: CompiledClass
    constraint: int
    domains: DomainTuple
    pods: int
    states: tuple[int, ...]
    """States of the claims it would open: one per NodePool of the highest usable weight."""


class Shortfall(NamedTuple):
    """Pods of a batch that got no node."""

    batch: Batch
    pods: int
    is_postponed: bool = False
    """There was no time for its fleet search; the next pass plans them."""


class DeferredPods:
    """Collects batches, then opens claims for all of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._batches: dict[int, list[Batch]] = {}
        """Id of a class → its batches."""

    def count_pods(self) -> int:
        """Return the number of pods that wait for ``open_fleets``."""
        return sum(batch.pods for batches in self._batches.values() for batch in batches)

    def try_defer(
        self, compiled: CompiledClass, constraint: int, domains: DomainTuple, count: int
    ) -> int | None:
        """Defer pods; return the state of the claims they would open, or None if impossible."""
        of_class = self._batches.setdefault(id(compiled.pod_class), [])
        for index, batch in enumerate(of_class):
            if (batch.compiled, batch.constraint, batch.domains) == (compiled, constraint, domains):
                of_class[index] = batch._replace(pods=batch.pods + count)
                return batch.states[0]
        if any(_could_share_node(batch, compiled, domains) for batch in of_class):
            return None
        space, placement = self._problem.space, self._problem.placement
        for roots in space.roots_by_weight():
            states = []
            for root in roots:
                state = space.narrow(root, constraint)
                if state == INFEASIBLE or not placement.fits_empty_claim(compiled, state):
                    continue
                if not self._is_unconstrained(state):
                    return None
                if self._fits_new_claim(compiled, state):  # Else limits are used up.
                    states.append(state)
            if states:
                of_class.append(Batch(compiled, constraint, domains, count, tuple(states)))
                return states[0]
        return None

    def _is_unconstrained(self, state: int) -> bool:
        """Return True if only price and resources decide about claims in a state.

        minValues and reservations are unknown to the fleet search.
        """
        placement = self._problem.placement
        pool = self._problem.space.states[state].pool
        return not placement.min_values[pool].required and not placement.reservations.is_offered(pool)

    def _fits_new_claim(self, compiled: CompiledClass, state: int) -> bool:
        """Return True if a pod fits on a type that the fleet search may use."""
        placement = self._problem.placement
        if placement.limit_headrooms[self._problem.space.states[state].pool].is_unlimited:
            return placement.fits_empty_claim(compiled, state)
        return bool((self._usable_rows(state) & (placement.pods_per_empty_claim(compiled, state) >= 1)).any())

    def _usable_rows(self, state: int) -> Bools:
        """Return [types]: True where the fleet search may use the type in this state."""
        space = self._problem.space
        headroom = self._problem.placement.limit_headrooms[space.states[state].pool]
        rows = space.available_rows(state)
        return rows if headroom.is_unlimited else rows & headroom.allowed_rows()

    def open_fleets(self) -> list[Shortfall]:
        """Open claims for all batches; return the shortfalls.

        The batches with the fewest types come first, so that others can use the
        room that they leave.
        """
        shortfalls: list[Shortfall] = []
        groups = self._group_batches()
        for number, batches in enumerate(groups):
            if number and self._problem.work.should_stop():
                # Pods with topology keys are counted in their domains already.
                late = [batch for batch in batches if not batch.compiled.topology_keys]
                shortfalls += [Shortfall(batch, batch.pods, is_postponed=True) for batch in late]
                batches = [batch for batch in batches if batch.compiled.topology_keys]
            remaining = self._fill_open_claims(batches) if len(groups) > 1 else batches
            if not remaining:
                continue
            if not self._should_use_open_claims(remaining):
                remaining = self._open_fleet_within_limits(remaining)
            shortfalls += self._open_by_class(remaining)
        return shortfalls

    def _should_use_open_claims(self, batches: list[Batch]) -> bool:
        """Return True if many small classes should go to claims that are open anyway.

        With few pods for each of many claims, upsizing is cheaper than separate
        nodes, and faster than a fleet search over hundreds of classes.
        """
        pods = sum(batch.pods for batch in batches)
        claims = self._problem.nodes.count - self._problem.nodes.existing_count
        return len(batches) > _MAX_CLASSES and pods <= _PODS_PER_CLAIM * claims

    def _group_batches(self) -> list[list[Batch]]:
        """Return the batches by fleet search, those with the fewest types first."""
        batches = [batch for of_class in self._batches.values() for batch in of_class]
        self._batches = {}
        states = {state for batch in batches for state in batch.states}
        if len(states) <= _MAX_STATES and len(batches) <= _MAX_CLASSES:
            return [batches] if batches else []
        by_states: dict[tuple[int, ...], list[Batch]] = {}
        for batch in batches:
            by_states.setdefault(batch.states, []).append(batch)
        type_counts = {key: sum(int(self._usable_rows(state).sum()) for state in key) for key in by_states}
        order_key = self._problem.space.order_key
        order = sorted(by_states, key=lambda key: (type_counts[key], [order_key(state) for state in key]))
        return [by_states[key] for key in order]

    def _fill_open_claims(self, batches: list[Batch]) -> list[Batch]:
        """Place pods on open claims; return the batches with what is left of them."""
        remaining = []
        for batch in batches:
            self._problem.nodes.count_fitting(batch.compiled.requests)
            placed = self._problem.packer.fill_open_claims(batch.compiled, batch.constraint, batch.pods)
            if placed < batch.pods:
                remaining.append(batch._replace(pods=batch.pods - placed))
        return remaining

    def _open_fleet_within_limits(self, batches: list[Batch]) -> list[Batch]:
        """Open the cheapest fleet; return what is left of the batches.

        The search does not know limits. If its fleet exceeds them, only a part is
        opened, and the rest of the pods is searched again with the types still allowed.
        """
        for _ in range(_MAX_SEARCHES):
            states = self._candidate_states(batches)
            joinable = [self._joinable_states(batch, states) for batch in batches]
            fits = [self._fits(batch, states, flags) for batch, flags in zip(batches, joinable, strict=True)]
            if not all(fits):
                break  # Limits used by others leave no type for some batch.
            rows = {state: np.flatnonzero(self._usable_rows(state)).tolist() for state in states}
            type_options = [(state, row) for state in states for row in rows[state]]
            bundles = cheapest_fleet(self._demand(batches, states, joinable))
            pods_placed = np.zeros(len(batches), dtype=np.int64)
            # Nothing is looked up while claims are opened: count once, afterwards.
            self._problem.nodes.invalidate_fitting()
            for bundle in self._cut_to_limits(type_options, bundles, joinable):
                self._open_bundle(batches, *type_options[bundle.type_index], bundle)
                pods_placed += bundle.counts * bundle.copies
            left = zip(batches, pods_placed.tolist(), strict=True)
            batches = [
                batch._replace(pods=batch.pods - placed) for batch, placed in left if placed < batch.pods
            ]
            if not batches or not pods_placed.any():
                break
        return batches

    def _open_bundle(self, batches: list[Batch], state: int, row: int, bundle: Bundle) -> None:
        """Open equal claims and place their pods."""
        placement = self._problem.placement
        placement.limit_headrooms[self._problem.space.states[state].pool].consume(row, bundle.copies)
        claims = self._problem.nodes.open_claims(state, row, bundle.copies)
        for index in np.flatnonzero(bundle.counts).tolist():
            pods_per_claim = np.full(bundle.copies, bundle.counts[index], dtype=np.int64)
            placement.place(batches[index].compiled, claims, pods_per_claim)

    def _cut_to_limits(
        self, type_options: list[tuple[int, int]], bundles: list[Bundle], joinable: list[tuple[bool, ...]]
    ) -> list[Bundle]:
        """Return the part of a fleet that the limits allow.

        Nodes whose pods have the fewest other states to go to come first.
        """
        if self._is_within_limits(type_options, bundles):
            return bundles
        headrooms, states = self._problem.placement.limit_headrooms, self._problem.space.states
        remaining = {pool: headroom.remaining.copy() for pool, headroom in enumerate(headrooms)}
        choices = np.array([sum(flags) for flags in joinable])
        allowed = []
        for bundle in sorted(bundles, key=lambda bundle: int(choices[bundle.counts > 0].min())):
            state, row = type_options[bundle.type_index]
            pool = states[state].pool
            need = headrooms[pool].capacity[row]
            limited = need > 0
            copies = bundle.copies
            if limited.any():
                copies = min(copies, int(np.floor(remaining[pool][limited] / need[limited]).min()))
            if copies > 0:
                remaining[pool] -= need * copies
                allowed.append(replace(bundle, copies=copies))
        return allowed

    def _candidate_states(self, batches: list[Batch]) -> list[int]:
        """Return the states of the batches, and those that two of them have in common."""
        space = self._problem.space
        own_states = sorted({state for batch in batches for state in batch.states}, key=space.order_key)
        constraints = {batch.constraint for batch in batches}
        shared = {space.narrow(state, constraint) for state in own_states for constraint in constraints}
        other_states = sorted(shared - {INFEASIBLE, *own_states}, key=space.order_key)
        return own_states + other_states[: max(0, _MAX_STATES - len(own_states))]

    def _joinable_states(self, batch: Batch, states: list[int]) -> tuple[bool, ...]:
        """Return [states]: True where a batch may join claims without narrowing them."""
        space = self._problem.space
        weight = space.weight(batch.states[0])
        return tuple(
            state in batch.states
            or (space.weight(state) == weight and space.narrow(state, batch.constraint) == state)
            for state in states
        )

    def _fits(self, batch: Batch, states: list[int], joinable: tuple[bool, ...]) -> bool:
        """Return True if a pod of the batch fits on a usable type of a joinable state."""
        return any(
            is_joinable and self._fits_new_claim(batch.compiled, state)
            for state, is_joinable in zip(states, joinable, strict=True)
        )

    def _demand(self, batches: list[Batch], states: list[int], joinable: list[tuple[bool, ...]]) -> Demand:
        """Return the input of the fleet search."""
        space = self._problem.space
        alloc: list[Floats] = []  # per state: [types, resources]
        price: list[Floats] = []  # per state: [types]
        for state in states:
            rows = self._usable_rows(state)
            alloc.append(space.tables[space.states[state].pool].alloc[rows])
            price.append(space.cost[state][: len(rows)][rows])
        admits: Bools = np.array(joinable, dtype=np.bool_).T  # [states, batches]
        caps = [_NO_CAP if (cap := batch.compiled.max_per_node) is None else cap for batch in batches]
        return Demand(
            sizes=np.array([batch.compiled.requests for batch in batches]),
            counts=np.array([batch.pods for batch in batches], dtype=np.int64),
            alloc=np.vstack(alloc),
            price=np.concatenate(price),
            max_per_node=np.array(caps, dtype=np.int64),
            admission=np.repeat(np.arange(len(states)), [len(types) for types in price]),
            admits=admits,
            fewer_nodes_tolerance=self._problem.settings.fewer_nodes_tolerance,
        )

    def _is_within_limits(self, type_options: list[tuple[int, int]], bundles: list[Bundle]) -> bool:
        """Return True if the limits of all NodePools allow this fleet."""
        placement, space = self._problem.placement, self._problem.space
        used: dict[int, Floats] = {}
        for bundle in bundles:
            state, row = type_options[bundle.type_index]
            pool = space.states[state].pool
            capacity = placement.limit_headrooms[pool].capacity[row] * bundle.copies  # [names]
            used[pool] = used.get(pool, np.zeros_like(capacity)) + capacity
        return all(bool((used[pool] <= placement.limit_headrooms[pool].remaining).all()) for pool in used)

    def _open_by_class(self, batches: list[Batch]) -> list[Shortfall]:
        """Place batches one by one, as far as the limits allow."""
        shortfalls = []
        for batch in batches:
            for rest in self._fill_open_claims([batch]):
                placed = self._problem.packer.upsize_or_open(rest.compiled, rest.constraint, rest.pods)
                if placed < rest.pods:
                    shortfalls.append(Shortfall(rest, rest.pods - placed))
        return shortfalls


def _could_share_node(batch: Batch, compiled: CompiledClass, domains: DomainTuple) -> bool:
    """Return True if pods of one class in two batches could share a node wrongly.

    The fleet search limits the pods of one batch per node, not of two together.
    """
    if batch.compiled.max_per_node is None and compiled.max_per_node is None:
        return False
    separate = batch.compiled.topology_keys == compiled.topology_keys and batch.domains != domains
    return not separate
