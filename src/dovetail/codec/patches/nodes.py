"""Merge patches of Nodes: registration, and taints added or removed.

A merge patch replaces lists. Lists are therefore built from the wire format, which
has fields that the model does not keep, such as ``timeAdded`` of a taint.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.codec.kube.requirements import encode_taint
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import Taint
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION, LAUNCH_REQUEST_ANNOTATION

_CLAIM_VERSION = "karpenter.sh/v1"
_CLAIM_ONLY = (ASSIGNED_PODS_ANNOTATION, LAUNCH_REQUEST_ANNOTATION)


def registration_patch(
    node: Mapping[str, Any],
    claim: NodeClaim,
    *,
    finalizer: str,
    labels: Mapping[str, str],
    add: Iterable[Taint],
    drop: Iterable[Taint],
) -> dict[str, Any]:
    """Return a locked patch that registers a node (wire format) for its NodeClaim.

    It syncs labels, annotations and taints, and adds the finalizer and the owner
    reference. Empty if nothing changes.
    """
    meta, spec = node["metadata"], node.get("spec") or {}
    changed: dict[str, Any] = {}
    if finalizer not in (meta.get("finalizers") or ()):
        changed["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]
    owners = meta.get("ownerReferences") or ()
    if all(owner.get("uid") != claim.uid for owner in owners):
        changed["ownerReferences"] = [*owners, _encode_owner(claim)]
    for name, wanted in (
        ("labels", {**claim.labels, **labels}),
        ("annotations", _node_annotations(claim.annotations)),
    ):
        current = meta.get(name) or {}
        missing = {key: value for key, value in wanted.items() if current.get(key) != value}
        if missing:
            changed[name] = missing
    patch: dict[str, Any] = {"metadata": changed} if changed else {}
    taints = _merge_taints(spec.get("taints") or (), add, drop)
    if taints is not None:
        patch["spec"] = {"taints": taints}
    if not patch:
        return {}
    return {**patch, "metadata": {**changed, "resourceVersion": meta["resourceVersion"]}}


def _merge_taints(
    known: Iterable[Mapping[str, Any]], add: Iterable[Taint], drop: Iterable[Taint]
) -> list[Mapping[str, Any]] | None:
    unwanted = {(taint.key, str(taint.effect)) for taint in drop}
    before = list(known)
    kept = [taint for taint in before if (taint.get("key"), taint.get("effect")) not in unwanted]
    after = [*kept, *(encode_taint(taint) for taint in add)]
    return None if after == before else after


def _encode_owner(claim: NodeClaim) -> dict[str, Any]:
    return {
        "apiVersion": _CLAIM_VERSION,
        "kind": "NodeClaim",
        "name": claim.name,
        "uid": claim.uid,
        "blockOwnerDeletion": True,
    }


def _node_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations without those that are useless once the node exists."""
    return {key: value for key, value in annotations.items() if key not in _CLAIM_ONLY}


def with_taint(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    """Return the taints of a node with ``taint``, which replaces taints of its key."""
    return [*_taints_with_other_keys(node, taint), encode_taint(taint)]


def without_taint(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    """Return the taints of a node without those of the key of ``taint``."""
    return _taints_with_other_keys(node, taint)


def _taints_with_other_keys(node: Mapping[str, Any], taint: Taint) -> list[dict[str, Any]]:
    # From the wire format: the model drops timeAdded, from which eviction delays count.
    current = (node.get("spec") or {}).get("taints") or ()
    return [dict(other) for other in current if other.get("key") != taint.key]
