"""Taints put on nodes and taken off, the rest of the list left as it is on the wire."""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.requirements import show_taint
from dovetail.model.taints import Taint


def with_taint(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    """Return a node's taints with one more, in place of any other under its key."""
    return [*_others(node, taint), show_taint(taint)]


def without_taint(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    """Return a node's taints without those under a key."""
    return _others(node, taint)


def _others(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    # Not by way of the model: that forgets when a taint was added, and evictions count from there.
    known = (node.get("spec") or {}).get("taints") or ()
    return [dict(one) for one in known if one.get("key") != taint.key]
