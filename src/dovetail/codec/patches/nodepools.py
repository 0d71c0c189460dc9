"""What to write so that a NodePool's status becomes as decided."""

from typing import Any

from dovetail.codec.kube.conditions import show_conditions
from dovetail.model.karpenter.nodepool import NodePool


def pool_status_patch(before: NodePool, after: NodePool) -> dict[str, Any]:
    """Return what changed of the status, locked; empty when nothing did."""
    old, new = _status(before), _status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    if not changed:
        return {}
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": changed}


def _status(pool: NodePool) -> dict[str, Any]:
    return {
        "conditions": show_conditions(pool.conditions),
        "nodeClassObservedGeneration": pool.node_class_generation,
        "resources": None if pool.used is None else pool.used.spelled(),
        "nodes": pool.node_count,
    }
