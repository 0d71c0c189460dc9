"""Merge patches of NodeClaims: the difference between two versions of the model.

"Locked" patches contain ``metadata.resourceVersion``: a concurrent write makes the
API server answer with Conflict.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.codec.patches.maps import diff_maps
from dovetail.codec.quantities import encode_time
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources


def metadata_patch(before: NodeClaim, after: NodeClaim) -> dict[str, Any]:
    """Return a locked patch of changed labels and annotations; empty if none changed."""
    meta: dict[str, Any] = {}
    for name, old, new in (
        ("labels", before.labels, after.labels),
        ("annotations", before.annotations, after.annotations),
    ):
        if old != new:
            meta[name] = diff_maps(old, new)
    return _with_resource_version({"metadata": meta}, before.resource_version) if meta else {}


def status_patch(before: NodeClaim, after: NodeClaim, version: str = "") -> dict[str, Any]:
    """Return a locked patch of changed status fields; empty if none changed.

    Conditions are one list: without the lock, two writers would overwrite each
    other. ``version`` replaces the resourceVersion of ``before`` for the lock, if
    the object was written in between.
    """
    changed: dict[str, Any] = {}
    for field, (name, show) in _STATUS.items():
        old, new = getattr(before, field), getattr(after, field)
        # Compare values first: mostly nothing changed, and encoding is expensive.
        if old != new and (shown := show(new)) != show(old):
            changed[name] = shown
    if not changed:
        return {}
    return _with_resource_version({"status": changed}, version or before.resource_version)


_STATUS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "provider_id": ("providerID", str),
    "node_name": ("nodeName", str),
    "image_id": ("imageID", str),
    "capacity": ("capacity", Resources.to_quantities),
    "allocatable": ("allocatable", Resources.to_quantities),
    "conditions": ("conditions", encode_conditions),
    "last_pod_event": ("lastPodEventTime", encode_time),
}
"""Field of the model → wire name and encoder."""


def _with_resource_version(patch: dict[str, Any], version: str) -> dict[str, Any]:
    meta = {**patch.get("metadata", {}), "resourceVersion": version}
    return {**patch, "metadata": meta}
