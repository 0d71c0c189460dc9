"""Label selectors for pods and namespaces."""

from collections.abc import Mapping

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import Operator, RequirementSpec


class LabelSelector(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """Labels that must be equal, and expressions that must match; empty selects all."""

    match_labels: FrozenDict[str, str] = EMPTY
    expressions: tuple[RequirementSpec, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(_matches_expression(expression, labels) for expression in self.expressions)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that it tests."""
        return frozenset(self.match_labels) | {expression.key for expression in self.expressions}

    @property
    def is_valid(self) -> bool:
        """True if Kubernetes accepts it; an invalid selector selects nothing."""
        for expression in self.expressions:
            takes_values = expression.operator in (Operator.IN, Operator.NOT_IN)
            takes_none = expression.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
            has_values = bool(expression.values)
            if not (takes_values and has_values) and not (takes_none and not has_values):
                return False
        return True


def _matches_expression(expression: RequirementSpec, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    if expression.operator is Operator.IN:
        return value is not None and value in expression.values
    if expression.operator is Operator.NOT_IN:
        return value is None or value not in expression.values
    if expression.operator is Operator.EXISTS:
        return value is not None
    return expression.operator is Operator.DOES_NOT_EXIST and value is None
