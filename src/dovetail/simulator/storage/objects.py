"""Volumes, claims and attachments as they stand on the wire."""

from hashlib import sha256
from typing import Any, Final

from dovetail.model.labels import ZONE
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.store import key_of

Key = tuple[str, str]
"""Namespace and name of a claim."""

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_DEFAULT_SIZE: Final = "1Gi"


def claims_used(pod: Object) -> list[tuple[Key, Object | None]]:
    """Return the claims that back a pod's volumes; with the template, where one is to be made."""
    volumes = pod["spec"].get("volumes")
    if not volumes:
        return []
    namespace, name = key_of(pod)
    found: list[tuple[Key, Object | None]] = []
    for one in volumes:
        if "persistentVolumeClaim" in one:
            found.append(((namespace, one["persistentVolumeClaim"]["claimName"]), None))
        elif "ephemeral" in one:
            template = one["ephemeral"].get("volumeClaimTemplate") or {}
            found.append(((namespace, f"{name}-{one['name']}"), template))
    return found


def ephemeral_claim(pod: Object, key: Key, template: Object) -> dict[str, Any]:
    """Return the claim of a volume that lives and dies with its pod."""
    meta = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own = template.get("metadata") or {}
    kept = {name: own[name] for name in ("labels", "annotations") if name in own}
    return {
        "metadata": {**kept, "name": key[1], "namespace": key[0], "ownerReferences": [owner]},
        "spec": template.get("spec") or {},
    }


def new_volume(claim: Object, *, driver: str, zone: str, storage_class: Object) -> dict[str, Any]:
    """Return a volume made for a claim, bound to it, in one zone."""
    meta, spec = claim["metadata"], claim["spec"]
    volume: dict[str, Any] = {
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "capacity": {"storage": look(spec, "resources", "requests", "storage") or _DEFAULT_SIZE},
        "claimRef": claim_reference(claim),
        "csi": {"driver": driver, "volumeHandle": f"vol-{meta['uid'].replace('-', '')[:17]}"},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": spec.get("volumeMode", "Filesystem"),
    }
    if zone:
        here = {"key": ZONE, "operator": "In", "values": [zone]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
        volume["nodeAffinity"] = {"required": terms}
    return {"metadata": {"name": f"pvc-{meta['uid']}"}, "spec": volume}


def claim_reference(claim: Object) -> dict[str, str]:
    """Return how a volume names the claim it is bound to."""
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


def attachment_name(volume: str, driver: str, node: str) -> str:
    """Return the name that the attachment of a volume to a node always has."""
    return "csi-" + sha256(f"{volume}{driver}{node}".encode()).hexdigest()


def new_attachment(volume: str, driver: str, node: str) -> dict[str, Any]:
    """Return the wish that a volume be attached to a node."""
    source = {"persistentVolumeName": volume}
    return {
        "metadata": {"name": attachment_name(volume, driver, node)},
        "spec": {"attacher": driver, "nodeName": node, "source": source},
    }
