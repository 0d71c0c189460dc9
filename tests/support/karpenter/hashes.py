"""Independent model of Karpenter's hash annotations and static drift.

Written from the behaviour of Karpenter 1.14: its controllers ``nodepool.hash``,
``nodeclass.hash`` and ``nodeclaim.disruption``. Objects are in wire format; nothing
here is shared with the code under test.
"""

import json
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

Object = dict[str, Any]


class HashRule(msgspec.Struct, frozen=True):
    """One pair of hash annotations, and the drift reason of a mismatch."""

    hash_key: str
    version_key: str
    version: str
    drift_reason: str

    def hash_of(self, owner: Object) -> str:
        """Return a hash of the fields that shape nodes; the number itself does not matter."""
        spec = owner["spec"]
        static = spec["template"] if "template" in spec else spec
        return str(crc32(json.dumps(static, sort_keys=True).encode()))

    def annotations_for(self, owner: Object) -> dict[str, str]:
        """Return the annotations of a NodeClaim that Karpenter launches."""
        return {self.hash_key: self.hash_of(owner), self.version_key: self.version}


NODEPOOL = HashRule(
    "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version", "v3", "NodePoolDrifted"
)
NODECLASS = HashRule(
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "v6",
    "NodeClassDrift",
)


def reconcile_hashes(rule: HashRule, owner: Object, claims: Iterable[Object]) -> None:
    """Write hashes as Karpenter's leader does after its start.

    NodeClaims are changed only if the *owner* has another hash version. Then each
    NodeClaim of another version gets the version; and the hash, unless it is drifted.
    """
    noted = _annotations(owner)
    if noted.get(rule.version_key) != rule.version:
        for claim in claims:
            of_claim = _annotations(claim)
            if of_claim.get(rule.version_key) == rule.version:
                continue
            of_claim[rule.version_key] = rule.version
            if not has_condition(claim, "Drifted"):
                of_claim[rule.hash_key] = rule.hash_of(owner)
    noted.update(rule.annotations_for(owner))


def static_drift(rule: HashRule, owner: Object, claim: Object) -> str | None:
    """Return the drift reason if both have hashes of the same version that differ."""
    ours, theirs = _annotations(owner), _annotations(claim)
    values = [ours.get(rule.hash_key), ours.get(rule.version_key)]
    values += [theirs.get(rule.hash_key), theirs.get(rule.version_key)]
    if None in values or values[1] != values[3]:
        return None
    return rule.drift_reason if values[0] != values[2] else None


def is_comparable(rule: HashRule, owner: Object, claim: Object) -> bool:
    """Return True if Karpenter would notice a change of the owner on this NodeClaim."""
    return _annotations(owner).get(rule.version_key) == _annotations(claim).get(rule.version_key)


def has_condition(obj: Object, kind: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(condition["type"] == kind for condition in conditions)


def _annotations(obj: Object) -> dict[str, str]:
    annotations: dict[str, str] = obj["metadata"].setdefault("annotations", {})
    return annotations
