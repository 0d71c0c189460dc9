"""What to write so that a NodeClaim becomes as decided: merge patches, nothing else touched."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dovetail.codec.kube.conditions import show_conditions
from dovetail.codec.quantities import show_instant
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources


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
    changed: dict[str, Any] = {}
    for field, (name, show) in _STATUS.items():
        old, new = getattr(before, field), getattr(after, field)
        # Values first: most often nothing changed, and writing them out takes a while.
        if old != new and show(old) != show(new):
            changed[name] = show(new)
    if not changed:
        return {}
    return _locked({"status": changed}, version or before.resource_version)


_STATUS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "provider_id": ("providerID", str),
    "node_name": ("nodeName", str),
    "image_id": ("imageID", str),
    "capacity": ("capacity", Resources.spelled),
    "allocatable": ("allocatable", Resources.spelled),
    "conditions": ("conditions", show_conditions),
    "last_pod_event": ("lastPodEventTime", show_instant),
}
"""Field of the model → its name on the wire, and how it is written there."""


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {key: None for key in old if key not in new}
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _locked(patch: dict[str, Any], version: str) -> dict[str, Any]:
    meta = {**patch.get("metadata", {}), "resourceVersion": version}
    return {**patch, "metadata": meta}
