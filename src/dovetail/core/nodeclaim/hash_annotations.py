"""Hash annotations of NodeClaims: comparison with their owner, and migration.

A hash is comparable only with one of the same version. Karpenter's versions differ
from ours, so that a change of the controller, in either direction, replaces the
hashes of NodeClaims instead of the nodes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.model.karpenter.nodeclaim import NodeClaim


class HashKeys(msgspec.Struct, frozen=True):
    """Annotation keys of a hash and of its version."""

    hash: str
    version: str


NODEPOOL_KEYS: Final = HashKeys(label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION)
NODECLASS_KEYS: Final = HashKeys(label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)


def has_hash_drift(claim: NodeClaim, owner: Mapping[str, str], keys: HashKeys) -> bool:
    """Return True if the hashes of claim and owner are comparable and differ.

    ``owner`` are the annotations of the NodePool or node class.
    """
    return _is_comparable(claim, owner, keys) and claim.annotations[keys.hash] != owner[keys.hash]


def migrate_hash(
    claim: NodeClaim, keys: HashKeys, *, previous: Mapping[str, str], current: Mapping[str, str]
) -> dict[str, str]:
    """Return the annotations to set on a NodeClaim after the hash version changed.

    ``previous`` are the owner's annotations before the change, ``current`` its new
    hash and version. A claim that differed from the previous hash keeps its own, so
    that it stays drifted. If the two cannot be compared, the Drifted condition decides,
    as in Karpenter.
    """
    if claim.annotations.get(keys.version) == current[keys.version]:
        return {}
    if _is_comparable(claim, previous, keys):
        is_drifted = has_hash_drift(claim, previous, keys)
    else:
        is_drifted = DRIFTED in claim.conditions
    return {keys.version: current[keys.version]} if is_drifted else dict(current)


def _is_comparable(claim: NodeClaim, owner: Mapping[str, str], keys: HashKeys) -> bool:
    """Return True if both have a hash of the same version."""
    has_hashes = claim.annotations.get(keys.hash) and owner.get(keys.hash)
    version = claim.annotations.get(keys.version)
    return bool(has_hashes and version and version == owner.get(keys.version))
