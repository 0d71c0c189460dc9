"""Nodes as a scheduler finds them once a plan is carried out.

Part of the checker: shares no code with the solver. A planned node can be launched
as several types and offerings. A rule must hold for each of them, so a label of a
node is a set of possible values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm, Pod, PodSpec
from dovetail.model.kube.requirements import NO_VALUES, Operator, Requirement, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect, Toleration
from dovetail.model.node import Node
from dovetail.model.plan import PlannedNode
from tests.support.scheduling.plans import labels_if

Values = frozenset[str | None]
"""Possible values of a label; None if it may be absent."""
ABSENT: Values = frozenset({None})


@dataclass
class CheckedNode:
    """A planned or existing node with all of its pods."""

    name: str
    labels: Mapping[str, str]
    """Expected labels: of the existing node, or of the first type and its offering."""
    possible: Mapping[str, Values]
    """All possible values of each label."""
    taints: tuple[Taint, ...]
    resident: list[Pod]
    """Pods that run on it already."""
    arriving: list[Pod] = field(default_factory=list)
    planned: PlannedNode | None = None
    existing: Node | None = None

    def values(self, key: str) -> Values:
        return self.possible.get(key, ABSENT)

    def domain(self, key: str) -> str | None:
        return self.labels.get(key)

    def is_open(self, key: str) -> bool:
        """Return True if the launch decides the value of this label."""
        return len(self.values(key)) > 1


# --- Node selectors, node affinity and taints ---------------------------------------


def matches_expression(expression: RequirementSpec, value: str | None) -> bool:
    """Return True if a node affinity expression matches, as in Kubernetes."""
    if expression.operator is Operator.IN:
        return value is not None and value in expression.values
    if expression.operator is Operator.NOT_IN:
        return value is None or value not in expression.values
    if expression.operator is Operator.EXISTS:
        return value is not None
    if expression.operator is Operator.DOES_NOT_EXIST:
        return value is None
    try:
        number, bound = int(value or ""), int(expression.values[0])
    except ValueError:
        return False
    return {
        Operator.GT: number > bound,
        Operator.LT: number < bound,
        Operator.GTE: number >= bound,
        Operator.LTE: number <= bound,
    }[expression.operator]


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str | None]) -> bool:
    if not term.expressions:
        return False  # A term without expressions selects no node.
    return all(
        matches_expression(expression, labels.get(label_keys.normalize_key(expression.key)))
        for expression in term.expressions
    )


def matches_labels(spec: PodSpec, labels: Mapping[str, str | None]) -> bool:
    """Return True if node selector and required node affinity match these labels."""
    for key, value in spec.node_selector.items():
        if labels.get(label_keys.normalize_key(key)) != value:
            return False
    return not spec.node_terms or any(matches_term(term, labels) for term in spec.node_terms)


def label_keys_of(spec: PodSpec) -> set[str]:
    keys = {expression.key for term in spec.node_terms for expression in term.expressions}
    return {label_keys.normalize_key(key) for key in keys | set(spec.node_selector)}


def combinations(keys: Iterable[str], possible: Mapping[str, Values]) -> Iterable[dict[str, str | None]]:
    """Yield all combinations of values of these labels."""
    names = sorted(keys)
    spans = [sorted(possible.get(name, ABSENT), key=str) for name in names]
    for values in product(*spans):
        yield dict(zip(names, values, strict=True))


def always_matches(spec: PodSpec, possible: Mapping[str, Values]) -> bool:
    return all(matches_labels(spec, labels) for labels in combinations(label_keys_of(spec), possible))


def may_match(spec: PodSpec, possible: Mapping[str, Values]) -> bool:
    return any(matches_labels(spec, labels) for labels in combinations(label_keys_of(spec), possible))


def tolerates(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Return True if all taints are tolerated; PreferNoSchedule is ignored."""
    return all(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        or any(toleration.tolerates(taint) for toleration in tolerations)
        for taint in taints
    )


# --- Instance types and offerings of a planned node ----------------------------------------------------


def is_compatible(required: Requirement, offered: Requirement | None) -> bool:
    """Return True if the requirement of a claim allows that of a type or offering."""
    if offered is None:
        return True
    both = required.intersection(offered)
    if both.complement or both.values:
        return True
    return required.allows_absence and offered.allows_absence


def is_type_allowed(instance_type: InstanceType, required: Mapping[str, Requirement]) -> bool:
    return all(
        is_compatible(requirement, instance_type.requirements.get(key))
        for key, requirement in required.items()
    )


def offering_labels(offering: Offering) -> dict[str, str]:
    """Return the labels that the offering decides; an empty value is absent."""
    return {
        label_keys.ZONE: offering.zone,
        label_keys.CAPACITY_TYPE: offering.capacity_type,
        label_keys.ZONE_ID: offering.zone_id,
        label_keys.CAPACITY_RESERVATION_ID: offering.reservation_id,
    }


def is_offering_allowed(offering: Offering, required: Mapping[str, Requirement]) -> bool:
    for key, value in offering_labels(offering).items():
        if key not in required:
            continue
        if value and not required[key].has(value):
            return False
        # A claim that names reservations allows nothing else; other keys may be unknown.
        named = key == label_keys.CAPACITY_RESERVATION_ID and not required[key].allows_absence
        if not value and named:
            return False
    return True


def label_values(planned: PlannedNode, instance_type: InstanceType, offering: Offering) -> dict[str, Values]:
    """Return the possible values of each label for this type and offering."""
    fixed = labels_if(planned, instance_type, offering)
    values_of: dict[str, Values] = {key: frozenset({value}) for key, value in fixed.items()}
    decided = {key for key, value in offering_labels(offering).items() if value}
    for key in set(instance_type.requirements) | set(planned.requirements):
        if key in decided or key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_RESERVATION_ID):
            continue
        values = _allowed_values(instance_type.requirements.get(key), planned.requirements.get(key))
        if key in instance_type.requirements:
            values_of[key] = frozenset(values) if values else ABSENT
        elif key not in planned.labels and values:
            values_of[key] = frozenset(values)
    return values_of


def _allowed_values(offered: Requirement | None, required: Requirement | None) -> frozenset[str]:
    if offered is None or required is None:
        requirement = offered if required is None else required
        return NO_VALUES if requirement is None or requirement.complement else requirement.values
    both = offered.intersection(required)
    return NO_VALUES if both.complement else both.values


def merged(mappings: Iterable[Mapping[str, Values]]) -> dict[str, Values]:
    """Return the union of possible label values."""
    options = list(mappings)
    keys = {key for labels in options for key in labels}
    return {key: frozenset().union(*(labels.get(key, ABSENT) for labels in options)) for key in keys}


def existing_node(node: Node) -> CheckedNode:
    labels = {label_keys.HOSTNAME: node.name, **node.labels}
    stable = {label_keys.normalize_key(key): value for key, value in labels.items()}
    return CheckedNode(
        name=node.name,
        labels=stable,
        possible={key: frozenset({value}) for key, value in stable.items()},
        taints=node.effective_taints(),
        resident=[pod for pod in node.pods if not pod.is_terminal],
        existing=node,
    )


def allocatable_of(instance_type: InstanceType, offering: Offering) -> Resources:
    """Return the allocatable resources of a type with this offering."""
    capacity = FrozenDict({**instance_type.capacity, **(offering.capacity_override or {})})
    overhead = {**instance_type.overhead, **(offering.overhead_override or {})}
    left = {name: amount - overhead.get(name, 0) for name, amount in capacity.items()}
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if huge:
        left["memory"] = max(0, left["memory"] - huge)
    return Resources(left)
