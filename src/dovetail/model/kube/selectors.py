"""Selecting pods and namespaces by their labels."""

from collections.abc import Mapping

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import Operator, RequirementSpec


class LabelSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """Labels that must be equal, and expressions that must hold; empty selects all."""

    match_labels: FrozenDict[str, str] = EMPTY
    expressions: tuple[RequirementSpec, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(_holds(one, labels) for one in self.expressions)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys it looks at."""
        return frozenset(self.match_labels) | {one.key for one in self.expressions}

    @property
    def is_valid(self) -> bool:
        """Tell whether Kubernetes would accept it; an invalid one selects nothing."""
        for one in self.expressions:
            needs_values = one.operator in (Operator.IN, Operator.NOT_IN)
            bare = one.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
            if not (needs_values and one.values) and not (bare and not one.values):
                return False
        return True


def _holds(one: RequirementSpec, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    if one.operator is Operator.IN:
        return value is not None and value in one.values
    if one.operator is Operator.NOT_IN:
        return value is None or value not in one.values
    if one.operator is Operator.EXISTS:
        return value is not None
    return one.operator is Operator.DOES_NOT_EXIST and value is None
