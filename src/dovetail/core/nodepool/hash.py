"""Hash of a NodePool's template, to detect drift of its NodeClaims."""

import json
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.taints import Taint

HASH_VERSION: Final = "dovetail-v1"
"""Differs from Karpenter's: a NodeClaim with another version gets a new hash, not a replacement."""


class HashAnnotations(msgspec.Struct, frozen=True):
    """Hash and hash version, as written to annotations."""

    hash: str
    version: str = HASH_VERSION

    def encode(self) -> dict[str, str]:
        return {label_keys.NODEPOOL_HASH: self.hash, label_keys.NODEPOOL_HASH_VERSION: self.version}


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


def migrate_nodepool_hash(claim: NodeClaim, pool: HashAnnotations) -> dict[str, str]:
    """Return the annotations to set on a NodeClaim after the hash version changed.

    A drifted NodeClaim keeps its hash, so that it stays drifted.
    """
    if claim.annotations.get(label_keys.NODEPOOL_HASH_VERSION) == pool.version:
        return {}
    if DRIFTED in claim.conditions:
        return {label_keys.NODEPOOL_HASH_VERSION: pool.version}
    return pool.encode()


def _format_taints(taints: tuple[Taint, ...]) -> list[str]:
    return sorted(str(taint) for taint in taints)


def _to_seconds(span: timedelta | None) -> float | None:
    return None if span is None else float(span.total_seconds())
