"""Accessors for Kubernetes objects in wire format."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.doctor.facts import Facts
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.kube_client import Object

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def get_field(value: Any, *path: str) -> Any:
    """Return the value at a path, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def get_list(value: Any, *path: str) -> list[Any]:
    """Return the list at a path, or an empty one."""
    items = get_field(value, *path)
    return list(items) if isinstance(items, list | tuple) else []


def is_user_set(obj: Object, *path: str) -> bool:
    """Return True if a user set a field; False if it has a default of the server.

    In a live object only applied fields are distinguishable from defaults: with
    create and update, the field manager owns the defaults, too.
    """
    if get_field(obj, "metadata", "uid") is None:
        return get_field(obj, *path) is not None
    try:
        applied = msgspec.json.decode(get_field(obj, "metadata", "annotations", _LAST_APPLIED) or "{}")
    except (msgspec.DecodeError, TypeError):
        applied = {}
    if get_field(applied, *path) is not None:
        return True
    fields = [f"f:{field}" for field in path]
    return any(
        entry.get("operation") == "Apply" and get_field(entry.get("fieldsV1"), *fields) is not None
        for entry in get_list(obj, "metadata", "managedFields")
    )


def name_of(obj: Object) -> str:
    """Return the object's name, or an empty string."""
    return str(get_field(obj, "metadata", "name") or "")


def namespace_of(obj: Object) -> str:
    """Return the object's namespace, or an empty string."""
    return str(get_field(obj, "metadata", "namespace") or "")


def label(obj: Object, key: str) -> str:
    """Return the label's value, or an empty string."""
    return str(get_field(obj, "metadata", "labels", key) or "")


def condition(obj: Object, kind: str) -> Mapping[str, Any]:
    """Return the condition of a type, or an empty mapping."""
    return next((item for item in get_list(obj, "status", "conditions") if item.get("type") == kind), {})


def parse_timestamp(text: Any) -> datetime | None:
    """Parse a timestamp; return None if it is invalid."""
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None


def age(facts: Facts, text: Any) -> timedelta:
    """Return the age of a timestamp; zero if it is invalid."""
    since = parse_timestamp(text)
    return timedelta() if since is None else facts.now - since


def decode_nodepools(facts: Facts) -> Iterator[NodePool]:
    """Yield the decoded NodePools."""
    for obj in facts.of(NODE_POOLS):
        yield decode_nodepool(Field(obj, DecodeContext(strict=False)))


def find_nodeclass(facts: Facts, name: str) -> Object | None:
    """Return the EC2NodeClass with a name."""
    return next(
        (node_class for node_class in facts.of(EC2_NODE_CLASSES) if name_of(node_class) == name), None
    )


def spot_nodepools(facts: Facts) -> list[str]:
    """Return the names of the NodePools that allow spot."""
    return [
        pool.name
        for pool in decode_nodepools(facts)
        if pool.requirements().get_or_exists(label_keys.CAPACITY_TYPE).has(label_keys.SPOT)
    ]


def tags_of(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of an EC2 or IAM resource."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in resource.get("Tags") or ()}


def join_names(names: Iterable[str], limit: int = 5) -> str:
    """Join names, with the number of omitted ones."""
    all_names = list(names)
    omitted = len(all_names) - limit
    return ", ".join(all_names[:limit]) + (f" and {omitted} more" if omitted > 0 else "")


def belongs_to_nodepool(node: Object) -> bool:
    """Return True if the node belongs to a NodePool."""
    return bool(label(node, label_keys.NODEPOOL))


def is_fargate(node: Object) -> bool:
    """Return True if the node is on Fargate."""
    return label(node, "eks.amazonaws.com/compute-type") == "fargate"
