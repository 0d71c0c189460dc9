"""Node filters: node affinity, taints and cordons."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm, PreferredSchedulingTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec, parse_integer
from dovetail.model.kube.taints import Taint, TaintEffect, Toleration
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeFacts, NodeTable

_NAME_FIELD: Final = "metadata.name"
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)


class PerNodeCache:
    """A value for each node, recomputed only for nodes that changed."""

    def __init__(self, table: NodeTable, evaluate: Callable[[NodeFacts], int]) -> None:
        self._table = table
        self._evaluate = evaluate
        self._results = table.column()
        self._seen_versions = table.column(-1)
        self._checked_at = -1

    @property
    def values(self) -> Ints:
        """The value of each slot; 0 without a node."""
        if self._checked_at != self._table.changes:
            stale = np.flatnonzero(self._seen_versions.values != self._table.versions.values)
            for slot in stale.tolist():
                facts = self._table.facts[slot]
                self._results.values[slot] = 0 if facts is None else self._evaluate(facts)
            self._seen_versions.values[stale] = self._table.versions.values[stale]
            self._checked_at = self._table.changes
        return self._results.values


def matches_expression(expression: RequirementSpec, value: str | None) -> bool:
    """Return True if a label value matches an expression of node affinity."""
    if expression.operator is Operator.IN:
        return value is not None and value in expression.values
    if expression.operator is Operator.NOT_IN:
        return value is None or value not in expression.values
    if expression.operator is Operator.EXISTS:
        return value is not None
    if expression.operator is Operator.DOES_NOT_EXIST:
        return value is None
    number = None if value is None else parse_integer(value)
    bound = parse_integer(expression.values[0]) if len(expression.values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if expression.operator is Operator.GT else number < bound


def matches_term(term: NodeSelectorTerm, facts: NodeFacts) -> bool:
    """Return True if a node matches a term; an empty term matches nothing."""
    if not term.expressions and not term.fields:
        return False
    fields = {_NAME_FIELD: facts.name}
    return all(
        matches_expression(expression, facts.labels.get(expression.key)) for expression in term.expressions
    ) and all(matches_expression(field, fields.get(field.key)) for field in term.fields)


def matches_node_affinity(
    selector: Mapping[str, str], terms: tuple[NodeSelectorTerm, ...], facts: NodeFacts
) -> bool:
    """Return True if a node matches a node selector and required node affinity."""
    if any(facts.labels.get(key) != value for key, value in selector.items()):
        return False
    return not terms or any(matches_term(term, facts) for term in terms)


def first_untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that is not tolerated."""
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not _tolerated(taint, tolerations):
            return taint
    return None


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


class NodeAffinityFilter:
    """Nodes that match a node selector and required terms; shared by equal classes."""

    def __init__(
        self, table: NodeTable, selector: FrozenDict[str, str], terms: tuple[NodeSelectorTerm, ...]
    ) -> None:
        self._trivial = not selector and not terms
        self._table = table
        self._nodes = PerNodeCache(table, lambda facts: matches_node_affinity(selector, terms, facts))

    @property
    def mask(self) -> Bools:
        return self._table.present if self._trivial else self._nodes.values > 0

    def at(self, slots: Ints) -> Bools:
        """Return the mask for some slots."""
        column = self._table.presence if self._trivial else self._nodes.values
        chosen: Bools = column[slots] > 0
        return chosen


class TaintFilter:
    """The first taint of each node that a set of tolerations does not tolerate."""

    def __init__(self, table: NodeTable, tolerations: tuple[Toleration, ...]) -> None:
        self._tolerations = tolerations
        self._table = table
        self._known: dict[tuple[Taint, ...], int] = {}
        self.reasons: list[Taint | None] = [None]
        """The taint for each number in ``codes``."""
        self._hard = PerNodeCache(table, self._evaluate)
        self._prefer_no_schedule = PerNodeCache(table, self._count_prefer_no_schedule)
        self._has_prefer_no_schedule, self._prefer_checked_at = False, -1
        self._unschedulable = PerNodeCache(table, lambda facts: facts.unschedulable)
        self.tolerates_unschedulable = _tolerated(UNSCHEDULABLE, tolerations)

    @property
    def codes(self) -> Ints:
        """0 where all taints are tolerated, else an index into ``reasons``."""
        return self._hard.values

    @property
    def prefer_no_schedule(self) -> Ints | None:
        """Number of untolerated PreferNoSchedule taints per node; None if there are none."""
        if self._prefer_checked_at != self._table.changes:
            self._has_prefer_no_schedule = bool(self._prefer_no_schedule.values.any())
            self._prefer_checked_at = self._table.changes
        return self._prefer_no_schedule.values if self._has_prefer_no_schedule else None

    def rejects(self, slots: Ints) -> Bools:
        """Return which slots a taint or a cordon rejects."""
        rejected: Bools = self._hard.values[slots] > 0
        return (
            rejected if self.tolerates_unschedulable else rejected | (self._unschedulable.values[slots] > 0)
        )

    @property
    def unschedulable(self) -> Bools:
        """Cordoned nodes, unless the pod tolerates that."""
        if self.tolerates_unschedulable:
            return np.zeros(len(self._table.facts), dtype=np.bool_)
        return self._unschedulable.values > 0

    def _evaluate(self, facts: NodeFacts) -> int:
        if not facts.taints:
            return 0
        code = self._known.get(facts.taints)
        if code is None:
            taint = first_untolerated(facts.taints, self._tolerations)
            if taint not in self.reasons:
                self.reasons.append(taint)
            code = self._known[facts.taints] = self.reasons.index(taint)
        return code

    def _count_prefer_no_schedule(self, facts: NodeFacts) -> int:
        return sum(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE and not _tolerated(taint, self._tolerations)
            for taint in facts.taints
        )


def preferred_affinity_weights(table: NodeTable, terms: tuple[PreferredSchedulingTerm, ...]) -> PerNodeCache:
    """Return the sum of weights of the preferred terms that each node matches."""
    return PerNodeCache(
        table, lambda facts: sum(term.weight for term in terms if matches_term(term.term, facts))
    )
