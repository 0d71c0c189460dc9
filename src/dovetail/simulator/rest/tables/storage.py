"""The columns of volumes and what they come from."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    Cell,
    Column,
    Show,
    size,
    text,
    yes_or_no,
)

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET: Final = "<unset>"


def _modes(*path: str) -> Show:
    def show(obj: Object, _: datetime) -> Cell:
        return ",".join(_SHORT_MODES.get(one, str(one)) for one in look(obj, *path) or ())

    return show


def _claim(obj: Object, _: datetime) -> Cell:
    claim = look(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _claim_status(obj: Object, _: datetime) -> Cell:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(look(obj, "status", "phase") or "")


def _class_name(obj: Object, _: datetime) -> Cell:
    name = str(obj["metadata"]["name"])
    annotations = obj["metadata"].get("annotations") or {}
    return f"{name} (default)" if annotations.get(_DEFAULT_CLASS) == "true" else name


VOLUME_COLUMNS: Final = (
    NAME,
    Column("Capacity", text("spec", "capacity", "storage")),
    Column("Access Modes", _modes("spec", "accessModes")),
    Column("Reclaim Policy", text("spec", "persistentVolumeReclaimPolicy", missing="Retain")),
    Column("Status", _claim_status),
    Column("Claim", _claim),
    Column("StorageClass", text("spec", "storageClassName")),
    Column("VolumeAttributesClass", text("spec", "volumeAttributesClassName", missing=_UNSET)),
    Column("Reason", text("status", "reason")),
    AGE,
    Column("VolumeMode", text("spec", "volumeMode", missing="Filesystem"), wide=True),
)
VOLUME_CLAIM_COLUMNS: Final = (
    NAME,
    Column("Status", _claim_status),
    Column("Volume", text("spec", "volumeName")),
    Column("Capacity", text("status", "capacity", "storage")),
    Column("Access Modes", _modes("status", "accessModes")),
    Column("StorageClass", text("spec", "storageClassName")),
    Column("VolumeAttributesClass", text("spec", "volumeAttributesClassName", missing=_UNSET)),
    AGE,
    Column("VolumeMode", text("spec", "volumeMode", missing="Filesystem"), wide=True),
)
STORAGE_CLASS_COLUMNS: Final = (
    Column("Name", _class_name, format="name"),
    Column("Provisioner", text("provisioner")),
    Column("ReclaimPolicy", text("reclaimPolicy", missing="Delete")),
    Column("VolumeBindingMode", text("volumeBindingMode", missing="Immediate")),
    Column("AllowVolumeExpansion", yes_or_no("allowVolumeExpansion"), type="boolean"),
    AGE,
)
CSI_NODE_COLUMNS: Final = (NAME, Column("Drivers", size("spec", "drivers"), type="integer"), AGE)
ATTACHMENT_COLUMNS: Final = (
    NAME,
    Column("Attacher", text("spec", "attacher")),
    Column("PV", text("spec", "source", "persistentVolumeName")),
    Column("Node", text("spec", "nodeName")),
    Column("Attached", yes_or_no("status", "attached"), type="boolean"),
    AGE,
)
