"""Topology groups of spread, affinity and anti-affinity, as in kube-scheduler.

Part of the checker: shares no code with the solver.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.model.kube.pod import Pod, TopologySpreadConstraint
from dovetail.model.kube.selectors import LabelSelector
from tests.support.scheduling.checker.nodes import CheckedNode, Values

Selected = tuple[frozenset[str], LabelSelector | None]
"""Namespaces and labels of the pods that a term counts."""


def selects(selected: Selected, pod: Pod) -> bool:
    namespaces, selector = selected
    if selector is None or not selector.is_valid:
        return False
    return pod.namespace in namespaces and selector.matches(pod.labels)


@dataclass
class SpreadGroup:
    """Counts the pods of one spread constraint per domain."""

    selected: Selected
    key: str
    domain_of: Mapping[str, str]
    """Node → domain, for the nodes that this constraint counts."""
    counts: dict[str, int]
    histogram: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.histogram = Counter(self.counts.values())

    def add(self, node: str, amount: int) -> None:
        domain = self.domain_of.get(node)
        if domain is None:
            return
        before = self.counts[domain]
        self.counts[domain] = before + amount
        self.histogram[before] -= 1
        if not self.histogram[before]:
            del self.histogram[before]
        self.histogram[before + amount] += 1

    def allows(self, spread: TopologySpreadConstraint, pod: Pod, domain: str) -> bool:
        lowest = min(self.histogram, default=0)
        if spread.min_domains is not None and len(self.counts) < spread.min_domains:
            lowest = 0
        joins = 1 if selects(self.selected, pod) else 0
        return self.counts.get(domain, 0) + joins - lowest <= spread.max_skew


@dataclass
class AffinityGroup:
    """Counts the pods that meet all affinity terms of some pod, per topology pair."""

    terms: tuple[tuple[str, Selected], ...]
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def counts(self, pod: Pod) -> bool:
        return all(selects(selected, pod) for _, selected in self.terms)

    def add(self, node: CheckedNode, amount: int) -> None:
        for key, _ in self.terms:
            domain = node.domain(key)
            if domain is not None:
                self.pairs[key, domain] += amount
                if not self.pairs[key, domain]:
                    del self.pairs[key, domain]

    def allows(self, pod: Pod, node: CheckedNode) -> bool:
        domains = [(key, node.domain(key)) for key, _ in self.terms]
        if any(domain is None for _, domain in domains):
            return False
        if all(self.pairs.get((key, str(domain)), 0) > 0 for key, domain in domains):
            return True
        # The first pod of a self-affine class may start anywhere.
        return not self.pairs and self.counts(pod)


@dataclass
class AvoidGroup:
    """Counts the pods that an anti-affinity term selects, and those that have it."""

    key: str
    selected: Selected
    named: Counter[str | None] = field(default_factory=Counter)
    carriers: Counter[str | None] = field(default_factory=Counter)


def count_in(counter: Counter[str | None], values: Values, amount: int) -> None:
    """Count a pod in every domain it may turn out to be in; nowhere without the label."""
    for value in values:
        if value is not None:
            counter[value] += amount
