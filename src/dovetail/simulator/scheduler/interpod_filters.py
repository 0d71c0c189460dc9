"""Inter-pod filters and scores: spread, affinity, anti-affinity, for all nodes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dovetail.model.kube.pod import NodeInclusionPolicy, TopologySpreadConstraint
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeColumn, NodeTable
from dovetail.simulator.scheduler.pod_counts import PodCounts, PodSelector, term_selector

Floats = npt.NDArray[np.float64]


class InterPodFilters:
    """Evaluates nodes by the pods that run there. Arrays are of shape [slots]."""

    def __init__(self, table: NodeTable, pod_counts: PodCounts) -> None:
        self._table = table
        self._pod_counts = pod_counts

    def spread_violations(
        self, pod_class: PodClass, selected: Callable[[], Bools], tolerated: Callable[[], Bools]
    ) -> Bools | None:
        """Return where a spread constraint forbids one more pod; None if it has none."""
        required = [spread for spread in pod_class.spec.spreads if spread.required]
        if not required:
            return None
        table = self._table
        has_labels = table.present
        for spread in required:
            has_labels = has_labels & (table.domains(spread.topology_key).codes.values >= 0)
        rejected = ~has_labels
        for spread in required:
            counted = has_labels
            if spread.node_affinity_policy is NodeInclusionPolicy.HONOR:
                counted = counted & selected()
            if spread.node_taints_policy is NodeInclusionPolicy.HONOR:
                counted = counted & tolerated()
            rejected |= self._exceeds_max_skew(pod_class, spread, counted)
        return rejected

    def _exceeds_max_skew(
        self, pod_class: PodClass, spread: TopologySpreadConstraint, counted: Bools
    ) -> Bools:
        selector = spread_selector(pod_class, spread)
        domains = self._table.domains(spread.topology_key)
        codes = domains.codes.values
        counted_codes = codes[counted]
        matching = self._pod_counts.count((selector,), live_only=True).values[counted]
        domain_count = len(domains.numbers)
        totals = np.bincount(counted_codes, weights=matching, minlength=domain_count)
        present = np.bincount(counted_codes, minlength=domain_count) > 0
        min_count = totals[present].min() if present.any() else 0
        if spread.min_domains is not None and int(present.sum()) < spread.min_domains:
            min_count = 0
        self_match = 1 if self._pod_counts.matches(selector, pod_class) else 0
        domain_counts = totals[codes] if domain_count else np.zeros(len(codes))
        skewed: Bools = domain_counts + self_match - min_count > spread.max_skew
        return skewed

    def affinity_violations(self, pod_class: PodClass) -> Bools | None:
        """Return where required affinity is not met; None without terms."""
        terms = pod_class.spec.affinity
        if not terms:
            return None
        # Kubernetes counts a pod only if it matches all of the terms.
        selectors = tuple(term_selector(term, pod_class.namespace) for term in terms)
        matching = self._pod_counts.count(selectors, live_only=False)
        has_labels, satisfied, any_match = self._table.present, self._table.present, False
        for term in terms:
            codes = self._table.domains(term.topology_key).codes.values
            has_labels = has_labels & (codes >= 0)
            totals = self._totals(term.topology_key, matching)
            any_match = any_match or bool(totals[:-1].any())
            satisfied = satisfied & (totals[codes] > 0)
        if not any_match and all(self._pod_counts.matches(selector, pod_class) for selector in selectors):
            return ~has_labels  # The first pod of a group that selects itself may start in any domain.
        return ~(has_labels & satisfied)

    def anti_affinity_violations(self, pod_class: PodClass) -> Bools | None:
        """Return where a pod's own anti-affinity terms match running pods."""
        rejected: Bools | None = None
        for term in pod_class.spec.anti_affinity:
            selector = term_selector(term, pod_class.namespace)
            matching = self._pod_counts.count((selector,), live_only=False)
            rejected = self._or_domains(rejected, term.topology_key, matching)
        return rejected

    def existing_anti_affinity_violations(self, pod_class: PodClass) -> Bools | None:
        """Return where running pods have anti-affinity to this class."""
        rejected: Bools | None = None
        for term_count in self._pod_counts.terms_matching(pod_class):
            if term_count.weight == 0:
                rejected = self._or_domains(rejected, term_count.key, term_count.per_slot)
        return rejected

    def is_preferred_by_pods(self, pod_class: PodClass) -> bool:
        """Return True if running pods have a preference about pods of this class."""
        return any(term_count.weight for term_count in self._pod_counts.terms_matching(pod_class))

    def affinity_scores(self, pod_class: PodClass) -> Floats | None:
        """Return the weighted sum of preferences for each node; None without preferences."""
        scores: Floats | None = None
        spec = pod_class.spec
        preferences = [(preference.term, preference.weight) for preference in spec.preferred_affinity]
        preferences += [(preference.term, -preference.weight) for preference in spec.preferred_anti_affinity]
        for term, weight in preferences:
            selector = term_selector(term, pod_class.namespace)
            matching = self._pod_counts.count((selector,), live_only=False)
            scores = self._add_weighted(scores, term.topology_key, matching, weight)
        for term_count in self._pod_counts.terms_matching(pod_class):
            if term_count.weight:
                scores = self._add_weighted(scores, term_count.key, term_count.per_slot, term_count.weight)
        return scores

    def spread_penalties(self, pod_class: PodClass, slots: Ints) -> Floats | None:
        """Return a penalty for each slot by the pods in its domains (ScheduleAnyway)."""
        preferred = [spread for spread in pod_class.spec.spreads if not spread.required]
        if not preferred:
            return None
        penalties = np.zeros(len(slots))
        for spread in preferred:
            domains = self._table.domains(spread.topology_key)
            selector = spread_selector(pod_class, spread)
            matching = self._pod_counts.count((selector,), live_only=True)
            totals = self._totals(spread.topology_key, matching)
            codes = domains.codes.values[slots]
            domain_count = len(np.unique(codes[codes >= 0]))
            penalty = totals[codes] * np.log(domain_count + 2) + (spread.max_skew - 1)
            # Nodes without the topology label get the highest penalty.
            penalties += np.where(codes >= 0, penalty, penalty.max(initial=0) + 1)
        return penalties

    def _totals(self, key: str, per_slot: NodeColumn) -> Floats:
        """Return the number of pods per domain; index -1 is for nodes without the label."""
        domains = self._table.domains(key)
        codes = domains.codes.values
        domain_count = len(domains.numbers)
        has_labels = codes >= 0
        totals = np.bincount(
            codes[has_labels], weights=per_slot.values[has_labels], minlength=domain_count + 1
        )
        return totals.astype(np.float64)

    def _or_domains(self, rejected: Bools | None, key: str, per_slot: NodeColumn) -> Bools:
        where: Bools = self._totals(key, per_slot)[self._table.domains(key).codes.values] > 0
        return where if rejected is None else rejected | where

    def _add_weighted(self, scores: Floats | None, key: str, per_slot: NodeColumn, weight: int) -> Floats:
        weighted = self._totals(key, per_slot)[self._table.domains(key).codes.values] * weight
        return weighted if scores is None else scores + weighted


def spread_selector(pod_class: PodClass, spread: TopologySpreadConstraint) -> PodSelector:
    """Return the pods that a spread constraint counts, with ``matchLabelKeys``."""
    selector = spread.selector
    if selector is not None and spread.match_label_keys:
        weighted = tuple(
            RequirementSpec(key, Operator.IN, (pod_class.labels[key],))
            for key in spread.match_label_keys
            if key in pod_class.labels
        )
        selector = LabelSelector(selector.match_labels, (*selector.expressions, *weighted))
    return PodSelector(selector, (pod_class.namespace,))
