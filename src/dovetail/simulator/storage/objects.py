"""Encoding of volumes, claims and attachments."""

from hashlib import sha256
from typing import Any, Final

from dovetail.model.labels import ZONE
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.controllermanager.owner_references import controller_reference

Key = tuple[str, str]
"""Namespace and name of a claim."""

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Its value is the provisioner of the storage class, also of an in-tree one that a CSI driver serves."""
_DEFAULT_SIZE: Final = "1Gi"


def list_claims(pod: Object) -> list[tuple[Key, Object | None]]:
    """Return the claims of a pod's volumes, with the template of ephemeral ones."""
    volumes = pod["spec"].get("volumes")
    if not volumes:
        return []
    namespace, name = object_key(pod)
    claims: list[tuple[Key, Object | None]] = []
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            claims.append(((namespace, volume["persistentVolumeClaim"]["claimName"]), None))
        elif "ephemeral" in volume:
            template = volume["ephemeral"].get("volumeClaimTemplate") or {}
            claims.append(((namespace, f"{name}-{volume['name']}"), template))
    return claims


def encode_ephemeral_claim(pod: Object, key: Key, template: Object) -> dict[str, Any]:
    """Return the claim of an ephemeral volume; the pod owns it."""
    own = template.get("metadata") or {}
    kept = {name: own[name] for name in ("labels", "annotations") if name in own}
    owners = [controller_reference(pod)]
    return {
        "metadata": {**kept, "name": key[1], "namespace": key[0], "ownerReferences": owners},
        "spec": template.get("spec") or {},
    }


def encode_volume(claim: Object, *, driver: str, zone: str, storage_class: Object) -> dict[str, Any]:
    """Return a volume that is provisioned for a claim, in one zone."""
    meta, spec = claim["metadata"], claim["spec"]
    volume: dict[str, Any] = {
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "capacity": {"storage": get_field(spec, "resources", "requests", "storage") or _DEFAULT_SIZE},
        "claimRef": encode_claim_reference(claim),
        "csi": {"driver": driver, "volumeHandle": f"vol-{meta['uid'].replace('-', '')[:17]}"},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": spec.get("volumeMode", "Filesystem"),
    }
    if zone:
        in_zone = {"key": ZONE, "operator": "In", "values": [zone]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}
        volume["nodeAffinity"] = {"required": terms}
    annotations = {PROVISIONED_BY: storage_class["provisioner"]}
    return {"metadata": {"name": f"pvc-{meta['uid']}", "annotations": annotations}, "spec": volume}


def encode_claim_reference(claim: Object) -> dict[str, str]:
    """Return the ``claimRef`` of a volume."""
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


def encode_attachment(volume: str, driver: str, node: str) -> dict[str, Any]:
    """Return a request to attach a volume to a node; its name is deterministic."""
    return {
        "metadata": {"name": "csi-" + sha256(f"{volume}{driver}{node}".encode()).hexdigest()},
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    }
