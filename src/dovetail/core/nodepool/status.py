"""Status of a NodePool: conditions, validation and resource usage."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Final

import msgspec

from dovetail.core.conditions import NODEPOOL_CONDITIONS, ConditionOwner, set_condition
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodePool, find_node_cost_error
from dovetail.model.kube.conditions import READY, TRUE, UNKNOWN, condition_status
from dovetail.model.kube.requirements import NUMERIC_OPERATORS, Operator, RequirementSpec
from dovetail.model.kube.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NODES,
    PODS,
    Resources,
    sum_resources,
)
from dovetail.model.node import Node

_ZERO_USAGE: Final = Resources({name: 0 for name in (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES)})


def set_nodepool_condition(
    pool: NodePool, now: datetime, kind: str, status: str, reason: str = "", message: str = ""
) -> NodePool:
    """Return the NodePool with one condition set."""
    generation, deleting = pool.generation, pool.deleting
    owner = ConditionOwner(
        condition_set=NODEPOOL_CONDITIONS, now=now, generation=generation, deleting=deleting
    )
    conditions = set_condition(pool.conditions, owner, kind, status, reason=reason, message=message)
    return msgspec.structs.replace(pool, conditions=conditions)


def get_nodeclass_problem(node_class: EC2NodeClass | None) -> tuple[str, str] | None:
    """Return reason and message why a node class cannot be used, or None."""
    if node_class is None:
        return "NodeClassNotFound", "NodeClass not found on cluster"
    if node_class.deleting:
        return "NodeClassTerminating", "NodeClass is Terminating"
    status = condition_status(node_class.conditions, READY)
    if status == UNKNOWN:
        return "NodeClassReadinessUnknown", "NodeClass Readiness Unknown"
    if status != TRUE:
        root = node_class.conditions[READY]
        return root.reason or "NodeClassNotReady", root.message
    return None


def validate_nodepool(pool: NodePool) -> list[str]:
    """Return validation errors that the API server does not detect."""
    errors = map(_validate_pool_requirement, pool.template.requirements)
    return [
        *_validate_labels(pool),
        *_validate_taints(pool),
        *chain.from_iterable(errors),
        *_validate_annotations(pool),
    ]


def _validate_annotations(pool: NodePool) -> Iterator[str]:
    error = find_node_cost_error(pool.annotations)
    if error:
        yield f"annotation {label_keys.NODE_COST_ANNOTATION}: {error}"


def compute_usage(nodes: Iterable[Node]) -> tuple[Resources, int]:
    """Return the total capacity and number of a NodePool's nodes.

    Nodes that are being deleted do not count against limits.
    """
    counted = [node for node in nodes if not node.deleting]
    capacity = sum_resources(node.effective_capacity() for node in counted)
    return Resources({**_ZERO_USAGE, **capacity}), len(counted)


def _validate_labels(pool: NodePool) -> Iterator[str]:
    for key in sorted(pool.template.labels):
        if key == label_keys.NODEPOOL:
            yield f"label {key} is set by the NodePool itself"
        elif label_keys.is_restricted(key):
            yield f"label {key} is restricted"


def _validate_taints(pool: NodePool) -> Iterator[str]:
    keys: set[tuple[str, str]] = set()
    for taint in (*pool.template.taints, *pool.template.startup_taints):
        if (taint.key, taint.effect) in keys:
            yield f"taint {taint.key}:{taint.effect} is duplicated"
        keys.add((taint.key, taint.effect))


def _validate_pool_requirement(requirement: RequirementSpec) -> Iterator[str]:
    if requirement.key == label_keys.NODEPOOL:
        yield f"requirement on {requirement.key} is not allowed in a NodePool"
    yield from validate_requirement(requirement)


def validate_requirement(requirement: RequirementSpec) -> Iterator[str]:
    """Yield the errors of a requirement that is restricted or cannot be satisfied."""
    key = label_keys.normalize_key(requirement.key)
    if key != label_keys.NODEPOOL and label_keys.is_restricted(key):
        yield f"requirement on {key} is restricted"
    if requirement.operator is Operator.IN and not requirement.values:
        yield f"requirement on {key} allows no value"
    values = requirement.values
    if requirement.operator in NUMERIC_OPERATORS and not (len(values) == 1 and values[0].isdigit()):
        yield f"requirement on {key} needs one whole number"
    if key == label_keys.CAPACITY_TYPE and requirement.operator is Operator.IN:
        capacity_types = [value for value in values if value in label_keys.CAPACITY_TYPES]
        if len(capacity_types) < max(1, requirement.min_values or 0):
            yield f"requirement on {key} allows no known capacity type: {', '.join(values)}"
