"""Short ways to look into objects as they are on the wire."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodepools import decode_node_pool
from dovetail.doctor.facts import Facts
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.kube_client import Object

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def at(value: Any, *path: str) -> Any:
    """Return what is at a path, None when any step of it is missing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def many(value: Any, *path: str) -> list[Any]:
    """Return the list at a path, empty when there is none."""
    found = at(value, *path)
    return list(found) if isinstance(found, list | tuple) else []


def is_stated(obj: Object, *path: str) -> bool:
    """Tell whether somebody wrote a field, rather than the API server its default.

    An object of a file says what it says. Of a live one, only what was applied can
    be told from what was filled in; whoever creates or updates owns the defaults, too.
    """
    if at(obj, "metadata", "uid") is None:
        return at(obj, *path) is not None
    try:
        applied = msgspec.json.decode(at(obj, "metadata", "annotations", _LAST_APPLIED) or "{}")
    except (msgspec.DecodeError, TypeError):
        applied = {}
    if at(applied, *path) is not None:
        return True
    fields = [f"f:{one}" for one in path]
    return any(
        entry.get("operation") == "Apply" and at(entry.get("fieldsV1"), *fields) is not None
        for entry in many(obj, "metadata", "managedFields")
    )


def name_of(obj: Object) -> str:
    """Return an object's name, empty when it has none."""
    return str(at(obj, "metadata", "name") or "")


def namespace_of(obj: Object) -> str:
    """Return an object's namespace, empty when it is in none."""
    return str(at(obj, "metadata", "namespace") or "")


def label(obj: Object, key: str) -> str:
    """Return a label's value, empty when it is not there."""
    return str(at(obj, "metadata", "labels", key) or "")


def condition(obj: Object, kind: str) -> Mapping[str, Any]:
    """Return a condition; an empty one when there is none."""
    return next((one for one in many(obj, "status", "conditions") if one.get("type") == kind), {})


def instant(text: Any) -> datetime | None:
    """Read a time; None when it is none."""
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None


def age(facts: Facts, text: Any) -> timedelta:
    """Return how long ago a time was; nothing when it is none."""
    since = instant(text)
    return timedelta() if since is None else facts.now - since


def pools(facts: Facts) -> Iterator[NodePool]:
    """Hand out the NodePools as controllers read them."""
    for obj in facts.of(NODE_POOLS):
        yield decode_node_pool(Field(obj, Findings(written_by_hand=False)))


def class_called(facts: Facts, name: str) -> Object | None:
    """Return the node class of a name."""
    return next((one for one in facts.of(EC2_NODE_CLASSES) if name_of(one) == name), None)


def allows_spot(facts: Facts) -> list[str]:
    """Return the names of the pools that may buy spot instances."""
    return [
        one.name
        for one in pools(facts)
        if one.requirements().allowed(label_keys.CAPACITY_TYPE).has(label_keys.SPOT)
    ]


def tags_of(thing: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of something that EC2 or IAM describes."""
    return {str(one["Key"]): str(one["Value"]) for one in thing.get("Tags") or ()}


def shown(names: Iterable[str], most: int = 5) -> str:
    """Write names for people, and how many more there are."""
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def is_bought(node: Object) -> bool:
    """Tell whether a node was bought for a pool."""
    return bool(label(node, label_keys.NODEPOOL))


def is_fargate(node: Object) -> bool:
    """Tell whether a node is one pod's, on Fargate."""
    return label(node, "eks.amazonaws.com/compute-type") == "fargate"
