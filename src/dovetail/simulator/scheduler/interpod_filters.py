"""Rules between pods: spread, affinity and anti-affinity, for all nodes at once."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dovetail.model.kube.pod import NodePolicy, Spread
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeTable, PerSlot
from dovetail.simulator.scheduler.pod_counts import Chosen, Counting, chosen_by

Floats = npt.NDArray[np.float64]


class Neighbours:
    """Judges nodes by the pods that are there already."""

    def __init__(self, table: NodeTable, counting: Counting) -> None:
        self._table = table
        self._counting = counting

    def spread_refusals(
        self, kind: PodClass, selected: Callable[[], Bools], tolerated: Callable[[], Bools]
    ) -> Bools | None:
        """Return where a spread constraint forbids one more; None when there is none."""
        hard = [one for one in kind.spec.spreads if one.required]
        if not hard:
            return None
        table = self._table
        labelled = table.there
        for one in hard:
            labelled = labelled & (table.domains(one.topology_key).codes.values >= 0)
        refused = ~labelled
        for one in hard:
            counted = labelled
            if one.node_affinity_policy is NodePolicy.HONOR:
                counted = counted & selected()
            if one.node_taints_policy is NodePolicy.HONOR:
                counted = counted & tolerated()
            refused |= self._too_skewed(kind, one, counted)
        return refused

    def _too_skewed(self, kind: PodClass, spread: Spread, counted: Bools) -> Bools:
        chosen = spread_choice(kind, spread)
        domains = self._table.domains(spread.topology_key)
        codes = domains.codes.values
        there = codes[counted]
        matching = self._counting.count((chosen,), live_only=True).values[counted]
        most = len(domains.numbers)
        totals = np.bincount(there, weights=matching, minlength=most)
        present = np.bincount(there, minlength=most) > 0
        lowest = totals[present].min() if present.any() else 0
        if spread.min_domains is not None and int(present.sum()) < spread.min_domains:
            lowest = 0
        joins = 1 if self._counting.matches(chosen, kind) else 0
        at_node = totals[codes] if most else np.zeros(len(codes))
        skewed: Bools = at_node + joins - lowest > spread.max_skew
        return skewed

    def affinity_refusals(self, kind: PodClass) -> Bools | None:
        """Return where the pods that must be near are not; None when none must."""
        terms = kind.spec.affinity
        if not terms:
            return None
        # Kubernetes counts a pod as near only if it meets every one of the terms.
        choices = tuple(chosen_by(term, kind.namespace) for term in terms)
        near = self._counting.count(choices, live_only=False)
        labelled, beside, anywhere = self._table.there, self._table.there, False
        for term in terms:
            codes = self._table.domains(term.topology_key).codes.values
            labelled = labelled & (codes >= 0)
            totals = self._totals(term.topology_key, near)
            anywhere = anywhere or bool(totals[:-1].any())
            beside = beside & (totals[codes] > 0)
        if not anywhere and all(self._counting.matches(one, kind) for one in choices):
            return ~labelled  # The first of a series may start wherever its labels are known.
        return ~(labelled & beside)

    def avoidance_refusals(self, kind: PodClass) -> Bools | None:
        """Return where a pod must not be near the others, or they not near it."""
        refused: Bools | None = None
        for term in kind.spec.anti_affinity:
            chosen = chosen_by(term, kind.namespace)
            named = self._counting.count((chosen,), live_only=False)
            refused = self._or_where(refused, term.topology_key, named)
        return refused

    def unwelcome(self, kind: PodClass) -> Bools | None:
        """Return where pods run that do not want this one near."""
        refused: Bools | None = None
        for carrier in self._counting.naming(kind):
            if carrier.weight == 0:
                refused = self._or_where(refused, carrier.key, carrier.per_slot)
        return refused

    def is_wished_for(self, kind: PodClass) -> bool:
        """Tell whether pods run that wish pods of this class near, or away."""
        return any(carrier.weight for carrier in self._counting.naming(kind))

    def affinity_wishes(self, kind: PodClass) -> Floats | None:
        """Return how much more each node is wished for because of its pods."""
        wishes: Floats | None = None
        spec = kind.spec
        own = [(one.term, one.weight) for one in spec.preferred_affinity]
        own += [(one.term, -one.weight) for one in spec.preferred_anti_affinity]
        for term, weight in own:
            chosen = chosen_by(term, kind.namespace)
            named = self._counting.count((chosen,), live_only=False)
            wishes = self._plus(wishes, term.topology_key, named, weight)
        for carrier in self._counting.naming(kind):
            if carrier.weight:
                wishes = self._plus(wishes, carrier.key, carrier.per_slot, carrier.weight)
        return wishes

    def spread_costs(self, kind: PodClass, among: Ints) -> Floats | None:
        """Return, for some slots, how crowded their domains are by the soft constraints."""
        soft = [one for one in kind.spec.spreads if not one.required]
        if not soft:
            return None
        costs = np.zeros(len(among))
        for one in soft:
            domains = self._table.domains(one.topology_key)
            chosen = spread_choice(kind, one)
            matching = self._counting.count((chosen,), live_only=True)
            totals = self._totals(one.topology_key, matching)
            codes = domains.codes.values[among]
            size = len(np.unique(codes[codes >= 0]))
            crowd = totals[codes] * np.log(size + 2) + (one.max_skew - 1)
            # A node without the label is as bad as can be.
            costs += np.where(codes >= 0, crowd, crowd.max(initial=0) + 1)
        return costs

    def _totals(self, key: str, per_slot: PerSlot) -> Floats:
        """Return the number of pods per domain; the last one, at -1, is for nodes without."""
        domains = self._table.domains(key)
        codes = domains.codes.values
        most = len(domains.numbers)
        known = codes >= 0
        totals = np.bincount(codes[known], weights=per_slot.values[known], minlength=most + 1)
        return totals.astype(np.float64)

    def _or_where(self, refused: Bools | None, key: str, per_slot: PerSlot) -> Bools:
        where: Bools = self._totals(key, per_slot)[self._table.domains(key).codes.values] > 0
        return where if refused is None else refused | where

    def _plus(self, wishes: Floats | None, key: str, per_slot: PerSlot, weight: int) -> Floats:
        more = self._totals(key, per_slot)[self._table.domains(key).codes.values] * weight
        return more if wishes is None else wishes + more


def spread_choice(kind: PodClass, spread: Spread) -> Chosen:
    """Return whom a spread constraint counts, label keys to match included."""
    selector = spread.selector
    if selector is not None and spread.match_label_keys:
        more = tuple(
            RequirementSpec(key, Operator.IN, (kind.labels[key],))
            for key in spread.match_label_keys
            if key in kind.labels
        )
        selector = LabelSelector(selector.match_labels, (*selector.expressions, *more))
    return Chosen(selector, (kind.namespace,))
