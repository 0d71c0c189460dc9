"""Nodes as a scheduler would find them once a plan came true.

Part of the checker: shares no code with the solver. A planned node may be
bought in several ways (type and offering); whatever is judged must hold for
each way, so a label of a host is a set of possible values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeTerm, Pod, PodSpec
from dovetail.model.kube.requirements import NO_VALUES, Operator, Requirement, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Effect, Taint, Toleration
from dovetail.model.node import Node
from dovetail.model.plan import PlannedNode
from tests.support.outcome import labels_if

Values = frozenset[str | None]
"""What a label may turn out to be; None: not there."""
ABSENT: Values = frozenset({None})


@dataclass
class Host:
    """A node, planned or existing, with all that will run on it."""

    name: str
    labels: Mapping[str, str]
    """As expected: of an existing node, or of the first type and its offering."""
    possible: Mapping[str, Values]
    """Every value that a label may turn out to have."""
    taints: tuple[Taint, ...]
    resident: list[Pod]
    """Pods that run there already."""
    arriving: list[Pod] = field(default_factory=list)
    planned: PlannedNode | None = None
    node: Node | None = None

    def values(self, key: str) -> Values:
        return self.possible.get(key, ABSENT)

    def domain(self, key: str) -> str | None:
        return self.labels.get(key)

    def is_open(self, key: str) -> bool:
        """Tell whether buying it could still give different values for this label."""
        return len(self.values(key)) > 1


# --- What a pod demands of a node's labels and taints ---------------------------------------


def expression_holds(one: RequirementSpec, value: str | None) -> bool:
    """Judge one node-affinity expression as Kubernetes does."""
    if one.operator is Operator.IN:
        return value is not None and value in one.values
    if one.operator is Operator.NOT_IN:
        return value is None or value not in one.values
    if one.operator is Operator.EXISTS:
        return value is not None
    if one.operator is Operator.DOES_NOT_EXIST:
        return value is None
    try:
        number, bound = int(value or ""), int(one.values[0])
    except ValueError:
        return False
    return {
        Operator.GT: number > bound,
        Operator.LT: number < bound,
        Operator.GTE: number >= bound,
        Operator.LTE: number <= bound,
    }[one.operator]


def term_holds(term: NodeTerm, labels: Mapping[str, str | None]) -> bool:
    if not term.expressions:
        return False  # A term without expressions selects no node.
    return all(
        expression_holds(one, labels.get(label_keys.stable_key(one.key)))
        for one in term.expressions
    )


def demand_holds(spec: PodSpec, labels: Mapping[str, str | None]) -> bool:
    """Judge node selector and required node affinity against known labels."""
    for key, value in spec.node_selector.items():
        if labels.get(label_keys.stable_key(key)) != value:
            return False
    return not spec.node_terms or any(term_holds(term, labels) for term in spec.node_terms)


def demanded_keys(spec: PodSpec) -> set[str]:
    asked = {one.key for term in spec.node_terms for one in term.expressions}
    return {label_keys.stable_key(key) for key in asked | set(spec.node_selector)}


def combinations(
    keys: Iterable[str], possible: Mapping[str, Values]
) -> Iterable[dict[str, str | None]]:
    """Every way these labels may turn out together."""
    names = sorted(keys)
    spans = [sorted(possible.get(name, ABSENT), key=str) for name in names]
    for values in product(*spans):
        yield dict(zip(names, values, strict=True))


def always_holds(spec: PodSpec, possible: Mapping[str, Values]) -> bool:
    return all(demand_holds(spec, labels) for labels in combinations(demanded_keys(spec), possible))


def may_hold(spec: PodSpec, possible: Mapping[str, Values]) -> bool:
    return any(demand_holds(spec, labels) for labels in combinations(demanded_keys(spec), possible))


def tolerates(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Judge taints as kube-scheduler does: PreferNoSchedule keeps nobody away."""
    return all(
        taint.effect is Effect.PREFER_NO_SCHEDULE
        or any(one.tolerates(taint) for one in tolerations)
        for taint in taints
    )


# --- The ways a planned node can be bought ----------------------------------------------------


def meets(asked: Requirement, offered: Requirement | None) -> bool:
    """Tell whether a claim's requirement and what a type or offering has go together."""
    if offered is None:
        return True
    both = asked.intersection(offered)
    if both.complement or both.values:
        return True
    return asked.tolerates_absence and offered.tolerates_absence


def type_allowed(kind: InstanceType, asked: Mapping[str, Requirement]) -> bool:
    return all(meets(one, kind.requirements.get(key)) for key, one in asked.items())


def offering_labels(offering: Offering) -> dict[str, str]:
    """The labels that only the way of buying decides; an empty one is not there."""
    return {
        label_keys.ZONE: offering.zone,
        label_keys.CAPACITY_TYPE: offering.capacity_type,
        label_keys.ZONE_ID: offering.zone_id,
        label_keys.CAPACITY_RESERVATION_ID: offering.reservation_id,
    }


def offering_allowed(offering: Offering, asked: Mapping[str, Requirement]) -> bool:
    for key, value in offering_labels(offering).items():
        if key not in asked:
            continue
        if value and not asked[key].has(value):
            return False
        # A claim that names reservations wants nothing else; other keys may be unknown.
        named = key == label_keys.CAPACITY_RESERVATION_ID and not asked[key].tolerates_absence
        if not value and named:
            return False
    return True


def label_values(planned: PlannedNode, kind: InstanceType, offering: Offering) -> dict[str, Values]:
    """What each label may be when the node is bought as this type, this way."""
    fixed = labels_if(planned, kind, offering)
    found: dict[str, Values] = {key: frozenset({value}) for key, value in fixed.items()}
    had = {key for key, value in offering_labels(offering).items() if value}
    for key in set(kind.requirements) | set(planned.requirements):
        if key in had or key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_RESERVATION_ID):
            continue
        values = _allowed_values(kind.requirements.get(key), planned.requirements.get(key))
        if key in kind.requirements:
            found[key] = frozenset(values) if values else ABSENT
        elif key not in planned.labels and values:
            found[key] = frozenset(values)
    return found


def _allowed_values(offered: Requirement | None, asked: Requirement | None) -> frozenset[str]:
    if offered is None or asked is None:
        one = offered if asked is None else asked
        return NO_VALUES if one is None or one.complement else one.values
    both = offered.intersection(asked)
    return NO_VALUES if both.complement else both.values


def merged(many: Iterable[Mapping[str, Values]]) -> dict[str, Values]:
    """Put the ways together: a label may be what it is in any of them."""
    ways = list(many)
    keys = {key for one in ways for key in one}
    return {key: frozenset().union(*(one.get(key, ABSENT) for one in ways)) for key in keys}


def existing_host(node: Node) -> Host:
    labels = {label_keys.HOSTNAME: node.name, **node.labels}
    stable = {label_keys.stable_key(key): value for key, value in labels.items()}
    return Host(
        name=node.name,
        labels=stable,
        possible={key: frozenset({value}) for key, value in stable.items()},
        taints=node.effective_taints(),
        resident=[pod for pod in node.pods if not pod.terminal],
        node=node,
    )


def room_of(kind: InstanceType, offering: Offering) -> Resources:
    """What pods and DaemonSets can have of a type that is bought this way."""
    capacity = FrozenDict({**kind.capacity, **(offering.capacity_override or {})})
    overhead = {**kind.overhead, **(offering.overhead_override or {})}
    left = {name: amount - overhead.get(name, 0) for name, amount in capacity.items()}
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if huge:
        left["memory"] = max(0, left["memory"] - huge)
    return Resources(left)
