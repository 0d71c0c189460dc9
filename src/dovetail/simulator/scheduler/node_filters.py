"""What a pod asks of a node alone: labels, taints, being open for pods."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeTerm, PreferredNodeTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec, whole_number
from dovetail.model.kube.taints import Effect, Taint, Toleration
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeFacts, NodeTable

_NAME_FIELD: Final = "metadata.name"
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)


class PerNode:
    """A judgement of each node, made again only for nodes that changed."""

    def __init__(self, table: NodeTable, judge: Callable[[NodeFacts], int]) -> None:
        self._table = table
        self._judge = judge
        self._verdicts = table.column()
        self._seen = table.column(-1)
        self._up_to = -1

    @property
    def values(self) -> Ints:
        """The verdict on each node; 0 where there is none."""
        if self._up_to != self._table.changes:
            stale = np.flatnonzero(self._seen.values != self._table.stamps.values)
            for slot in stale.tolist():
                facts = self._table.facts[slot]
                self._verdicts.values[slot] = 0 if facts is None else self._judge(facts)
            self._seen.values[stale] = self._table.stamps.values[stale]
            self._up_to = self._table.changes
        return self._verdicts.values


def expression_holds(one: RequirementSpec, value: str | None) -> bool:
    """Judge one expression of node affinity against a label's value."""
    if one.operator is Operator.IN:
        return value is not None and value in one.values
    if one.operator is Operator.NOT_IN:
        return value is None or value not in one.values
    if one.operator is Operator.EXISTS:
        return value is not None
    if one.operator is Operator.DOES_NOT_EXIST:
        return value is None
    number = None if value is None else whole_number(value)
    bound = whole_number(one.values[0]) if len(one.values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if one.operator is Operator.GT else number < bound


def term_holds(term: NodeTerm, facts: NodeFacts) -> bool:
    """Judge one term; one that says nothing selects nothing."""
    if not term.expressions and not term.fields:
        return False
    fields = {_NAME_FIELD: facts.name}
    return all(
        expression_holds(one, facts.labels.get(one.key)) for one in term.expressions
    ) and all(expression_holds(one, fields.get(one.key)) for one in term.fields)


def labels_hold(selector: Mapping[str, str], terms: tuple[NodeTerm, ...], facts: NodeFacts) -> bool:
    """Judge a node selector and required node affinity."""
    if any(facts.labels.get(key) != value for key, value in selector.items()):
        return False
    return not terms or any(term_holds(term, facts) for term in terms)


def first_untolerated(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]
) -> Taint | None:
    """Return the first taint that keeps the pod away."""
    for taint in taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not _tolerated(taint, tolerations):
            return taint
    return None


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(one.tolerates(taint) for one in tolerations)


class Selecting:
    """Nodes whose labels a selector and required terms accept; shared by all that ask alike."""

    def __init__(
        self, table: NodeTable, selector: FrozenDict[str, str], terms: tuple[NodeTerm, ...]
    ) -> None:
        self._trivial = not selector and not terms
        self._table = table
        self._nodes = PerNode(table, lambda facts: labels_hold(selector, terms, facts))

    @property
    def mask(self) -> Bools:
        return self._table.there if self._trivial else self._nodes.values > 0

    def at(self, slots: Ints) -> Bools:
        """Return the same for some slots."""
        column = self._table.presence if self._trivial else self._nodes.values
        chosen: Bools = column[slots] > 0
        return chosen


class Tolerating:
    """Which taint, if any, keeps pods with some tolerations from each node."""

    def __init__(self, table: NodeTable, tolerations: tuple[Toleration, ...]) -> None:
        self._tolerations = tolerations
        self._table = table
        self._known: dict[tuple[Taint, ...], int] = {}
        self.reasons: list[Taint | None] = [None]
        """What a number in ``codes`` means."""
        self._hard = PerNode(table, self._judge)
        self._soft = PerNode(table, self._count_soft)
        self._any_soft, self._soft_up_to = False, -1
        self._closed = PerNode(table, lambda facts: facts.unschedulable)
        self.enters_closed = _tolerated(UNSCHEDULABLE, tolerations)

    @property
    def codes(self) -> Ints:
        """0 where all taints are tolerated, else which one is not: see ``reasons``."""
        return self._hard.values

    @property
    def soft(self) -> Ints | None:
        """How many taints each node has that would rather not have the pod; None: nowhere any."""
        if self._soft_up_to != self._table.changes:
            self._any_soft = bool(self._soft.values.any())
            self._soft_up_to = self._table.changes
        return self._soft.values if self._any_soft else None

    def refuses(self, slots: Ints) -> Bools:
        """Return which of some nodes taints or a cordon keep the pod from."""
        refused: Bools = self._hard.values[slots] > 0
        return refused if self.enters_closed else refused | (self._closed.values[slots] > 0)

    @property
    def closed(self) -> Bools:
        """Nodes that are cordoned, and this pod may not overlook it."""
        if self.enters_closed:
            return np.zeros(len(self._table.facts), dtype=np.bool_)
        return self._closed.values > 0

    def _judge(self, facts: NodeFacts) -> int:
        if not facts.taints:
            return 0
        known = self._known.get(facts.taints)
        if known is None:
            taint = first_untolerated(facts.taints, self._tolerations)
            if taint not in self.reasons:
                self.reasons.append(taint)
            known = self._known[facts.taints] = self.reasons.index(taint)
        return known

    def _count_soft(self, facts: NodeFacts) -> int:
        return sum(
            taint.effect is Effect.PREFER_NO_SCHEDULE and not _tolerated(taint, self._tolerations)
            for taint in facts.taints
        )


def preferring(table: NodeTable, terms: tuple[PreferredNodeTerm, ...]) -> PerNode:
    """Return the weight of the preferred terms that each node meets."""
    return PerNode(
        table, lambda facts: sum(one.weight for one in terms if term_holds(one.term, facts))
    )
