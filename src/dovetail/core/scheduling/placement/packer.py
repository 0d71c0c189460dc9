"""Packer: place pods of one class, in one domain tuple, on nodes.

In this order, each step for the pods that the steps before left over:

1. existing nodes;
2. open claims, without changing their nominal type;
3. open claims, upsized to a larger type;
4. new claims.

Steps 3 and 4 compete on the price per pod, unless the user asked for the fewest
nodes: then 3 comes before 4. Deferred classes use steps 1 and 2 only.
"""

from dataclasses import replace

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.topology import RuleKind
from dovetail.core.scheduling.fleet.native import kernel as _kernel
from dovetail.core.scheduling.placement.new_claims import ClaimOpener
from dovetail.core.scheduling.placement.state import PlacementState
from dovetail.core.scheduling.placement.upsize import Upsizer

_MAX_PRICE_RATIO = 1.08
"""A class may not join a claim if narrowing makes the nominal type this much more
expensive. Without this rule one on-demand pod turns a whole spot claim on-demand."""
_ANY_PRICE = 1e18
"""USD per hour above every real price."""
_FEW_PODS = 8
"""Up to this many pods are placed by looking at claims one by one."""
_MAX_SCANNED = 32
"""Claims checked one by one."""
_MAX_KERNEL_RULES = 12
"""Rules between pods that the compiled kernel checks."""
_KINDS = {RuleKind.SPREAD: 0, RuleKind.AFFINITY: 1, RuleKind.ANTI_AFFINITY: 2}
"""Numbers of the kinds of rules in the compiled kernel."""


class Packer:
    """Places pods of one class on nodes and claims."""

    def __init__(self, placement: PlacementState) -> None:
        self.placement = placement
        self._upsizer = Upsizer(placement)
        self._claim_opener = ClaimOpener(placement)

    def place(self, compiled: CompiledClass, constraint: int, count: int, *, open_new: bool = True) -> int:
        """Place up to ``count`` pods; return how many got a node."""
        self.placement.nodes.count_fitting(compiled.requests)
        if compiled.has_hostname_affinity:
            return self._place_with_affinity(compiled, constraint, count, open_new=open_new)
        placed = self.place_on_existing(compiled, constraint, count)
        if placed < count:
            placed += self.fill_open_claims(compiled, constraint, count - placed)
        if placed < count and open_new:
            placed += self.upsize_or_open(compiled, constraint, count - placed)
        return placed

    def upsize_or_open(self, compiled: CompiledClass, constraint: int, count: int) -> int:
        """Upsize claims or open new ones, whichever costs less per pod."""
        if self.placement.fewest_nodes:
            placed = self._upsizer.upsize(compiled, constraint, count, _ANY_PRICE)
            return placed + self._claim_opener.open_claims(compiled, constraint, count - placed)
        placed = 0
        while placed < count:
            best = self._claim_opener.find_best(compiled, constraint, count - placed)
            limit = best.cost_per_pod if best else _ANY_PRICE
            upsized = self._upsizer.upsize(compiled, constraint, count - placed, limit)
            placed += upsized
            opened = self._claim_opener.open_claims(compiled, constraint, count - placed, once=True)
            placed += opened
            if not opened and not upsized:
                break
        return placed

    def presize_claims(self, load: Floats) -> None:
        """Upsize every open claim for its share of ``load`` [resources]."""
        self._upsizer.presize(load)

    def place_on_existing(self, compiled: CompiledClass, constraint: int, count: int) -> int:
        """Place pods on existing nodes, first fit in the order of the nodes."""
        nodes = self.placement.nodes
        if not nodes.existing_count:
            return 0
        candidates = self._existing_candidates(constraint)
        if not len(candidates):
            return 0
        max_pods = self.placement.max_pods(compiled, candidates, None)
        return self._place_in_order(compiled, candidates, max_pods, None, count)

    def _existing_candidates(self, constraint: int) -> Ints:
        """Return the existing nodes that match a constraint and have resources left."""
        nodes = self.placement.nodes
        matching = nodes.nodes_matching(constraint)
        return np.flatnonzero(matching & (nodes.fitting_pods[: nodes.existing_count] >= 1))

    def fill_open_claims(self, compiled: CompiledClass, constraint: int, count: int) -> int:
        """Place pods on open claims without changing their nominal type.

        Claims are scanned from the cursor on, in windows that grow: most pods
        fit into the first one.
        """
        nodes = self.placement.nodes
        existing, end = nodes.existing_count, nodes.count
        if _kernel is not None and existing < end and self._can_use_kernel(compiled):
            return self._fill_by_kernel(compiled, constraint, count)
        candidates = (nodes.fitting_pods[existing:end] >= 1).nonzero()[0] + existing
        if not len(candidates):
            return 0
        start = int(candidates.searchsorted(self.placement.cursor))
        placed, width = 0, self.placement.window
        if count <= _FEW_PODS and not self.placement.min_values_pools and not compiled.port_bits:
            placed = self._fill_few_pods(
                compiled, constraint, candidates[start : start + _MAX_SCANNED], count
            )
        for part in (candidates[start:], candidates[:start]):
            at = 0
            while at < len(part) and placed < count:
                window = part[at : at + width]
                at, width = at + width, width * 4
                window, states = self._joinable_claims(window, constraint)
                if len(window):
                    max_pods = self.placement.max_pods(compiled, window, states)
                    placed += self._place_in_order(compiled, window, max_pods, states, count - placed)
            if placed >= count:
                break
        return placed

    def _fill_few_pods(self, compiled: CompiledClass, constraint: int, candidates: Ints, count: int) -> int:
        """Fill claims one by one: faster than array operations for a few pods."""
        placement, nodes, space = self.placement, self.placement.nodes, self.placement.space
        targets = space.transition_row(constraint)
        placed = 0
        for claim in candidates.tolist():
            before = nodes.claim_state.item(claim)
            after = targets.item(before)
            if after < 0:
                after = targets[before] = space.narrow(before, constraint)
            if after == INFEASIBLE:
                continue
            if after != before:
                row = nodes.nominal_row.item(claim)
                max_price = (
                    _ANY_PRICE if placement.fewest_nodes else space.cost.item(before, row) * _MAX_PRICE_RATIO
                )
                if space.cost.item(after, row) > min(max_price, _ANY_PRICE):
                    continue
            max_pods = placement.max_pods_on_claim(compiled, claim)
            if max_pods < 1:
                continue
            nodes.claim_state[claim] = after
            added = min(max_pods, count - placed)
            placement.place_on_claim(compiled, claim, added)
            placed += added
            if placed == count:
                placement.cursor = claim
                break
        return placed

    def _can_use_kernel(self, compiled: CompiledClass) -> bool:
        """Return True unless minValues, host ports or very many rules matter."""
        rules = len(compiled.hostname_rules) + len(compiled.inverse_hostname_rules)
        return not self.placement.min_values_pools and not compiled.port_bits and rules <= _MAX_KERNEL_RULES

    def _fill_by_kernel(self, compiled: CompiledClass, constraint: int, count: int) -> int:
        """Fill claims by the compiled kernel: first fit from the cursor on."""
        placement, nodes, space = self.placement, self.placement.nodes, self.placement.space
        first, end = nodes.existing_count, nodes.count
        rules: tuple[tuple[int, bool, int, Ints, Ints | None], ...] = ()
        if compiled.hostname_rules or compiled.inverse_hostname_rules:
            own = compiled.hostname_rules
            inverse = compiled.inverse_hostname_rules
            rules = (
                *((_KINDS[r.kind], selects, r.max_skew, r.group.node_counts, None) for r, selects in own),
                *((_KINDS[r.kind], False, r.max_skew, r.group.node_counts, r.node_owners) for r in inverse),
            )
        most = min(count, end - first)
        claims, pods, after = np.empty((3, most), dtype=np.int64)
        scan = (first, end, placement.cursor, count)
        max_ratio = np.inf if placement.fewest_nodes else _MAX_PRICE_RATIO
        while True:
            targets = space.transition_row(constraint)
            used = _kernel.first_fit(
                (len(nodes.claim_state), len(targets), *space.cost.shape),
                scan,
                max_ratio,
                nodes.fitting_pods,
                nodes.claim_state,
                nodes.nominal_row,
                targets,
                space.cost,
                rules,
                claims,
                pods,
                after,
            )
            if used >= 0:
                break
            # The target of a claim state is not known yet.
            state = -1 - used
            target = space.narrow(state, constraint)
            space.transition_row(constraint)[state] = target
        if not used:
            return 0
        chosen, added = claims[:used].tolist(), pods[:used].tolist()
        placed: int = sum(added)
        if placed == count or not self._is_near(chosen[-1], count):
            placement.cursor = chosen[-1]
        nodes.claim_state[claims[:used]] = after[:used]
        if used <= _FEW_PODS:
            for claim, pods_added in zip(chosen, added, strict=True):
                placement.place_on_claim(compiled, claim, pods_added)
        else:
            placement.place(compiled, claims[:used], pods[:used])
        return placed

    def _is_near(self, claim: int, count: int) -> bool:
        """Return True if a few pods reach a claim one by one, as in ``_fill_few_pods``.

        The cursor stays if such claims take only some of the pods.
        """
        nodes, start = self.placement.nodes, max(self.placement.cursor, self.placement.nodes.existing_count)
        if count > _FEW_PODS or claim < start:
            return False
        return int((nodes.fitting_pods[start : claim + 1] >= 1).sum()) <= _MAX_SCANNED

    def _joinable_claims(self, claims: Ints, constraint: int) -> tuple[Ints, Ints]:
        """Return the claims that a class may join, and their claim states after it.

        The nominal type must stay possible at about the same price.
        """
        nodes, space = self.placement.nodes, self.placement.space
        before = nodes.claim_state[claims]
        after = space.narrow_states(before, constraint)
        feasible = after.nonzero()[0]
        if len(feasible) < len(claims):
            claims, before, after = claims[feasible], before[feasible], after[feasible]
        if not (before != after).any():
            return claims, after
        rows = nodes.nominal_row[claims]
        max_price = (
            _ANY_PRICE
            if self.placement.fewest_nodes
            else np.minimum(space.cost[before, rows] * _MAX_PRICE_RATIO, _ANY_PRICE)
        )
        joinable = (space.cost[after, rows] <= max_price).nonzero()[0]
        return claims[joinable], after[joinable]

    def _place_in_order(
        self, compiled: CompiledClass, indexes: Ints, max_pods: Floats, states: Ints | None, count: int
    ) -> int:
        """Fill nodes in the given order, each up to ``max_pods`` [indexes].

        ``states`` [indexes] are the claim states after the class is added; None
        for existing nodes. Return the number of pods placed.
        """
        usable = (max_pods >= 1).nonzero()[0]
        if not len(usable):
            return 0
        if len(usable) < len(indexes):
            indexes, max_pods = indexes[usable], max_pods[usable]
            states = None if states is None else states[usable]
        total = max_pods.cumsum()
        last = int(total.searchsorted(count))
        if last < len(indexes):
            # The last node takes only what is left of ``count``.
            indexes, max_pods = indexes[: last + 1], max_pods[: last + 1].copy()
            states = None if states is None else states[: last + 1]
            max_pods[-1] -= total[last] - count
        counts = max_pods.astype(np.int64)
        if states is not None:
            self.placement.nodes.claim_state[indexes] = states
            self.placement.cursor = int(indexes[-1])
        self.placement.place(compiled, indexes, counts)
        return int(counts.sum())

    # -- affinity on hostname -----------------------------------------------------------

    def _place_with_affinity(
        self, compiled: CompiledClass, constraint: int, count: int, *, open_new: bool
    ) -> int:
        """Place pods that must share a node with pods that a selector matches."""
        rules = [own for own in compiled.hostname_rules if own.rule.kind is RuleKind.AFFINITY]
        placed = self._place_followers(compiled, constraint, count)
        may_be_first = all(own.selects_self and not own.rule.group.node_counts.any() for own in rules)
        if placed == count or not may_be_first:
            return placed
        # No matching pod runs anywhere: as in kube-scheduler, a pod that matches its
        # own term may go to any node. The others follow it.
        unbound = replace(compiled, topology=compiled.topology.without_hostname_affinity())
        first = self._place_first(unbound, constraint, count, open_new=open_new)
        if not first:
            return placed
        return placed + first + self._place_followers(compiled, constraint, count - placed - first)

    def _place_followers(self, compiled: CompiledClass, constraint: int, count: int) -> int:
        """Place pods on nodes that already have matching pods."""
        if count <= 0:
            return 0
        placed = self.place_on_existing(compiled, constraint, count)
        if placed < count:
            placed += self.fill_open_claims(compiled, constraint, count - placed)
        if placed < count:
            placed += self._upsizer.upsize(compiled, constraint, count - placed, _ANY_PRICE)
        return placed

    def _place_first(self, compiled: CompiledClass, constraint: int, count: int, *, open_new: bool) -> int:
        """Place the first pods on the node that takes most of them."""
        existing = self.placement.nodes.existing_count
        candidates = self._existing_candidates(constraint) if existing else np.zeros(0, dtype=np.int64)
        if len(candidates):
            max_pods = self.placement.max_pods(compiled, candidates, None)
            best = int(np.argmax(np.minimum(max_pods, count)))
            if max_pods[best] >= 1:
                only = slice(best, best + 1)
                return self._place_in_order(compiled, candidates[only], max_pods[only], None, count)
        if not open_new:
            return 0
        best_new = self._claim_opener.find_best(compiled, constraint, count, maximize_pods=True)
        if best_new is None:
            return 0
        return self._claim_opener.open_copies(compiled, best_new, best_new.pods)
