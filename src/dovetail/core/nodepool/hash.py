"""Hashes by which claims are seen to come from an older version of their pool."""

import json
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.taints import Taint

HASH_VERSION: Final = "dovetail-v1"
"""Not upstream's: a claim with another version is stamped anew instead of replaced."""


class Stamp(msgspec.Struct, frozen=True):
    """What annotations say of the template that an object goes by."""

    hash: str
    version: str = HASH_VERSION

    def annotations(self) -> dict[str, str]:
        return {
            label_keys.NODEPOOL_HASH: self.hash,
            label_keys.NODEPOOL_HASH_VERSION: self.version,
        }


def pool_hash(pool: NodePool) -> str:
    """Return a number that changes with what only a new node can have.

    Requirements are left out, as a node may meet new ones already, and so is all
    that concerns the pool and not its nodes. Order does not matter.
    """
    template = pool.template
    static: dict[str, Any] = {
        "labels": dict(template.labels),
        "annotations": dict(template.annotations),
        "taints": _spelled(template.taints),
        "startupTaints": _spelled(template.startup_taints),
        "nodeClassRef": msgspec.structs.astuple(template.node_class),
        "expireAfter": _seconds(template.expire_after),
        "terminationGracePeriod": _seconds(template.termination_grace_period),
    }
    said = {name: value for name, value in static.items() if value}
    digest = sha256(json.dumps(said, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def restamped(claim: NodeClaim, pool: Stamp) -> dict[str, str]:
    """Return the annotations that a claim needs after the version of hashes changed.

    A claim that has drifted keeps its hash, so that it stays drifted.
    """
    if claim.annotations.get(label_keys.NODEPOOL_HASH_VERSION) == pool.version:
        return {}
    if "Drifted" in claim.conditions:
        return {label_keys.NODEPOOL_HASH_VERSION: pool.version}
    return pool.annotations()


def _spelled(taints: tuple[Taint, ...]) -> list[str]:
    return sorted(str(one) for one in taints)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else float(span.total_seconds())
