"""What to write so that a NodeClaim becomes as decided: merge patches, nothing else touched."""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.amounts import show_instant
from dovetail.codec.conditions import show_conditions
from dovetail.model.nodeclaim import NodeClaim


def metadata_patch(before: NodeClaim, after: NodeClaim) -> dict[str, Any]:
    """Return the labels and annotations that changed, locked; empty when none did."""
    meta: dict[str, Any] = {}
    for name, old, new in (
        ("labels", before.labels, after.labels),
        ("annotations", before.annotations, after.annotations),
    ):
        if old != new:
            meta[name] = _differences(old, new)
    return _locked({"metadata": meta}, before.resource_version) if meta else {}


def status_patch(before: NodeClaim, after: NodeClaim, version: str = "") -> dict[str, Any]:
    """Return what changed of the status, locked; empty when nothing did.

    Conditions are one list: without the lock two writers would undo each other.
    ``version`` is the one to lock at, when the object was written in between.
    """
    old, new = _status(before), _status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    if not changed:
        return {}
    return _locked({"status": changed}, version or before.resource_version)


def _status(claim: NodeClaim) -> dict[str, Any]:
    return {
        "providerID": claim.provider_id,
        "nodeName": claim.node_name,
        "imageID": claim.image_id,
        "capacity": claim.capacity.spelled(),
        "allocatable": claim.allocatable.spelled(),
        "conditions": show_conditions(claim.conditions),
        "lastPodEventTime": show_instant(claim.last_pod_event),
    }


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {key: None for key in old if key not in new}
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _locked(patch: dict[str, Any], version: str) -> dict[str, Any]:
    meta = {**patch.get("metadata", {}), "resourceVersion": version}
    return {**patch, "metadata": meta}
