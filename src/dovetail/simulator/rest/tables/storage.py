"""Printer columns of volumes, claims, storage classes and attachments."""

from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    Cell,
    CellPrinter,
    Column,
    print_bool,
    print_length,
    print_text,
)

_DEFAULT_CLASS_ANNOTATION: Final = "storageclass.kubernetes.io/is-default-class"
_ACCESS_MODE_ABBREVIATIONS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET: Final = "<unset>"


def _print_access_modes(*path: str) -> CellPrinter:
    def print_cell(obj: Object, _: datetime) -> Cell:
        modes = get_field(obj, *path) or ()
        return ",".join(_ACCESS_MODE_ABBREVIATIONS.get(mode, str(mode)) for mode in modes)

    return print_cell


def _print_claim(obj: Object, _: datetime) -> Cell:
    claim = get_field(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _print_status(obj: Object, _: datetime) -> Cell:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(get_field(obj, "status", "phase") or "")


def _print_class_name(obj: Object, _: datetime) -> Cell:
    name = str(obj["metadata"]["name"])
    annotations = obj["metadata"].get("annotations") or {}
    return f"{name} (default)" if annotations.get(_DEFAULT_CLASS_ANNOTATION) == "true" else name


def _print_audiences(obj: Object, _: datetime) -> Cell:
    requests = get_field(obj, "spec", "tokenRequests") or ()
    return ",".join(str(request.get("audience", "")) for request in requests) or _UNSET


def _print_modes(obj: Object, _: datetime) -> Cell:
    return ",".join(get_field(obj, "spec", "volumeLifecycleModes") or ()) or _UNSET


VOLUME_COLUMNS: Final = (
    NAME,
    Column("Capacity", print_text("spec", "capacity", "storage")),
    Column("Access Modes", _print_access_modes("spec", "accessModes")),
    Column("Reclaim Policy", print_text("spec", "persistentVolumeReclaimPolicy", missing="Retain")),
    Column("Status", _print_status),
    Column("Claim", _print_claim),
    Column("StorageClass", print_text("spec", "storageClassName")),
    Column("VolumeAttributesClass", print_text("spec", "volumeAttributesClassName", missing=_UNSET)),
    Column("Reason", print_text("status", "reason")),
    AGE,
    Column("VolumeMode", print_text("spec", "volumeMode", missing="Filesystem"), wide=True),
)
VOLUME_CLAIM_COLUMNS: Final = (
    NAME,
    Column("Status", _print_status),
    Column("Volume", print_text("spec", "volumeName")),
    Column("Capacity", print_text("status", "capacity", "storage")),
    Column("Access Modes", _print_access_modes("status", "accessModes")),
    Column("StorageClass", print_text("spec", "storageClassName")),
    Column("VolumeAttributesClass", print_text("spec", "volumeAttributesClassName", missing=_UNSET)),
    AGE,
    Column("VolumeMode", print_text("spec", "volumeMode", missing="Filesystem"), wide=True),
)
STORAGE_CLASS_COLUMNS: Final = (
    Column("Name", _print_class_name, format="name"),
    Column("Provisioner", print_text("provisioner")),
    Column("ReclaimPolicy", print_text("reclaimPolicy", missing="Delete")),
    Column("VolumeBindingMode", print_text("volumeBindingMode", missing="Immediate")),
    Column("AllowVolumeExpansion", print_bool("allowVolumeExpansion"), type="boolean"),
    AGE,
)
CSI_DRIVER_COLUMNS: Final = (
    NAME,
    Column("AttachRequired", print_bool("spec", "attachRequired"), type="boolean"),
    Column("PodInfoOnMount", print_bool("spec", "podInfoOnMount"), type="boolean"),
    Column("StorageCapacity", print_bool("spec", "storageCapacity"), type="boolean"),
    Column("TokenRequests", _print_audiences),
    Column("RequiresRepublish", print_bool("spec", "requiresRepublish"), type="boolean"),
    Column("Modes", _print_modes),
    AGE,
)
CSI_NODE_COLUMNS: Final = (NAME, Column("Drivers", print_length("spec", "drivers"), type="integer"), AGE)
ATTACHMENT_COLUMNS: Final = (
    NAME,
    Column("Attacher", print_text("spec", "attacher")),
    Column("PV", print_text("spec", "source", "persistentVolumeName")),
    Column("Node", print_text("spec", "nodeName")),
    Column("Attached", print_bool("status", "attached"), type="boolean"),
    AGE,
)
