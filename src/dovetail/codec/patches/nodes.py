"""What to write so that a Node becomes one of ours: a merge patch on the node as it is.

Taints put on nodes and taken off, the rest of the list left as it is on the wire.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.codec.kube.requirements import show_taint
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import Taint
from dovetail.model.labels import PROMISED_TO

_CLAIM_VERSION = "karpenter.sh/v1"


def adoption_patch(
    node: Mapping[str, Any],
    claim: NodeClaim,
    *,
    finalizer: str,
    labels: Mapping[str, str],
    add: Iterable[Taint],
    drop: Iterable[Taint],
) -> dict[str, Any]:
    """Return how a node (wire form) takes over what its claim says, locked.

    Lists are replaced whole by a merge patch, so they are built from the wire
    form: it has fields that the model does not keep. Empty when nothing changes.
    """
    meta, spec = node["metadata"], node.get("spec") or {}
    changed: dict[str, Any] = {}
    if finalizer not in (meta.get("finalizers") or ()):
        changed["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]
    owners = meta.get("ownerReferences") or ()
    if all(one.get("uid") != claim.uid for one in owners):
        changed["ownerReferences"] = [*owners, _owner(claim)]
    for name, wanted in (
        ("labels", {**claim.labels, **labels}),
        ("annotations", _of_the_node(claim.annotations)),
    ):
        known = meta.get(name) or {}
        missing = {key: value for key, value in wanted.items() if known.get(key) != value}
        if missing:
            changed[name] = missing
    patch: dict[str, Any] = {"metadata": changed} if changed else {}
    taints = _taints(spec.get("taints") or (), add, drop)
    if taints is not None:
        patch["spec"] = {"taints": taints}
    if not patch:
        return {}
    return {**patch, "metadata": {**changed, "resourceVersion": meta["resourceVersion"]}}


def _taints(
    known: Iterable[Mapping[str, Any]], add: Iterable[Taint], drop: Iterable[Taint]
) -> list[Mapping[str, Any]] | None:
    unwanted = {(one.key, str(one.effect)) for one in drop}
    before = list(known)
    kept = [one for one in before if (one.get("key"), one.get("effect")) not in unwanted]
    after = [*kept, *(show_taint(one) for one in add)]
    return None if after == before else after


def _owner(claim: NodeClaim) -> dict[str, Any]:
    return {
        "apiVersion": _CLAIM_VERSION,
        "kind": "NodeClaim",
        "name": claim.name,
        "uid": claim.uid,
        "blockOwnerDeletion": True,
    }


def _of_the_node(annotations: Mapping[str, str]) -> dict[str, str]:
    """Leave out whom the claim was made for: of no use once there is a node."""
    return {key: value for key, value in annotations.items() if key != PROMISED_TO}


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
