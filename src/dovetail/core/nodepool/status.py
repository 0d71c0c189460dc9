"""What a NodePool says of itself: whether it can be used, and why not."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.conditions import POOL, Subject, changed
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, UNKNOWN, status_of
from dovetail.model.kube.requirements import NUMERIC, Operator, RequirementSpec
from dovetail.model.kube.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NODES,
    PODS,
    Resources,
    total,
)
from dovetail.model.node import Node

NODE_CLASS_READY: Final = "NodeClassReady"
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
_NONE_OF_ANY: Final = Resources({name: 0 for name in (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES)})


def pool_stated(
    pool: NodePool, now: datetime, kind: str, status: str, reason: str = "", message: str = ""
) -> NodePool:
    """Return the pool with one condition as found now."""
    who = Subject(family=POOL, now=now, generation=pool.generation, deleting=pool.deleting)
    conditions = changed(pool.conditions, who, kind, status, reason=reason, message=message)
    return msgspec.structs.replace(pool, conditions=conditions)


def why_class_unusable(node_class: NodeClass | None) -> tuple[str, str] | None:
    """Return why nothing can be bought from a node class: reason and message, or None."""
    if node_class is None:
        return "NodeClassNotFound", "NodeClass not found on cluster"
    if node_class.deleting:
        return "NodeClassTerminating", "NodeClass is Terminating"
    status = status_of(node_class.conditions, "Ready")
    if status == UNKNOWN:
        return "NodeClassReadinessUnknown", "NodeClass Readiness Unknown"
    if status != TRUE:
        root = node_class.conditions["Ready"]
        return root.reason or "NodeClassNotReady", root.message
    return None


def mistakes(pool: NodePool) -> list[str]:
    """Return what the API server lets pass but nothing can be bought by."""
    return [
        *_label_mistakes(pool),
        *_taint_mistakes(pool),
        *(wrong for one in pool.template.requirements for wrong in _pool_mistakes(one)),
    ]


def usage(nodes: Iterable[Node]) -> tuple[Resources, int]:
    """Return what the nodes of a pool have together, and how many they are.

    Nodes that are going away no longer count against the pool's limits.
    """
    staying = [node for node in nodes if not node.deleting]
    had = total(node.effective_capacity() for node in staying)
    return Resources({**_NONE_OF_ANY, **had}), len(staying)


def _label_mistakes(pool: NodePool) -> Iterator[str]:
    for key in sorted(pool.template.labels):
        if key == label_keys.NODEPOOL:
            yield f"label {key} is set by the pool itself"
        elif label_keys.is_restricted(key):
            yield f"label {key} is restricted"


def _taint_mistakes(pool: NodePool) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for one in (*pool.template.taints, *pool.template.startup_taints):
        if (one.key, one.effect) in seen:
            yield f"taint {one.key}:{one.effect} is there twice"
        seen.add((one.key, one.effect))


def _pool_mistakes(one: RequirementSpec) -> Iterator[str]:
    if one.key == label_keys.NODEPOOL:
        yield f"requirement on {one.key} is not for a pool to make"
    yield from requirement_mistakes(one)


def requirement_mistakes(one: RequirementSpec) -> Iterator[str]:
    """Say what no label could ever satisfy, or nobody may ask for."""
    key = label_keys.stable_key(one.key)
    if key != label_keys.NODEPOOL and label_keys.is_restricted(key):
        yield f"requirement on {key} is restricted"
    if one.operator is Operator.IN and not one.values:
        yield f"requirement on {key} allows no value"
    if one.operator in NUMERIC and not (len(one.values) == 1 and one.values[0].isdigit()):
        yield f"requirement on {key} needs one whole number"
    if key == label_keys.CAPACITY_TYPE and one.operator is Operator.IN:
        known = [value for value in one.values if value in label_keys.CAPACITY_TYPES]
        if len(known) < max(1, one.min_values or 0):
            names = ", ".join(one.values)
            yield f"requirement on {key} allows no capacity type that there is: {names}"
