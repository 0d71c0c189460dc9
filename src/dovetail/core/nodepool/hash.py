"""Hash of a NodePool's template, to detect drift of its NodeClaims."""

import json
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.taints import Taint

HASH_VERSION: Final = "dovetail-v1"
"""Differs from Karpenter's: a NodeClaim with another version gets a new hash, not a replacement."""


def compute_nodepool_hash(pool: NodePool) -> str:
    """Return a hash of the fields that only a new node can adopt.

    Requirements are excluded, because a node may meet new ones already. So are
    fields that concern the NodePool and not its nodes. Order does not matter.
    """
    template = pool.template
    static: dict[str, Any] = {
        "labels": dict(template.labels),
        "annotations": dict(template.annotations),
        "taints": _format_taints(template.taints),
        "startupTaints": _format_taints(template.startup_taints),
        "nodeClassRef": msgspec.structs.astuple(template.node_class),
        "expireAfter": _to_seconds(template.expire_after),
        "terminationGracePeriod": _to_seconds(template.termination_grace_period),
    }
    fields = {name: value for name, value in static.items() if value}
    digest = sha256(json.dumps(fields, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def compute_nodepool_hash_annotations(pool: NodePool) -> dict[str, str]:
    """Return the hash annotations of a NodePool and of NodeClaims launched from it."""
    return {
        label_keys.NODEPOOL_HASH: compute_nodepool_hash(pool),
        label_keys.NODEPOOL_HASH_VERSION: HASH_VERSION,
    }


def _format_taints(taints: tuple[Taint, ...]) -> list[str]:
    return sorted(str(taint) for taint in taints)


def _to_seconds(span: timedelta | None) -> float | None:
    return None if span is None else float(span.total_seconds())
