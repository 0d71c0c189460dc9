"""Merge patches of the NodePool status."""

from typing import Any

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.codec.patches.maps import diff_maps
from dovetail.model.karpenter.nodepool import NodePool


def nodepool_status_patch(before: NodePool, after: NodePool) -> dict[str, Any]:
    """Return a locked patch of changed status fields; empty if none changed."""
    old, new = _encode_status(before), _encode_status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    if not changed:
        return {}
    if old["resources"] is not None and changed.get("resources") is not None:
        changed["resources"] = diff_maps(old["resources"], new["resources"])
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": changed}


def _encode_status(pool: NodePool) -> dict[str, Any]:
    return {
        "conditions": encode_conditions(pool.conditions),
        "nodeClassObservedGeneration": pool.node_class_generation,
        "resources": None if pool.resources is None else pool.resources.to_quantities(),
        "nodes": pool.node_count,
    }
