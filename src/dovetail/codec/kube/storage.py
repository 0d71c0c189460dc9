"""Decoders of PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.kube.affinity import decode_node_selector
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeSelectorTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

EBS_DRIVER = "ebs.csi.aws.com"
IN_TREE_DRIVERS = {
    "kubernetes.io/aws-ebs": EBS_DRIVER,
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def decode_persistent_volume_claim(root: Field) -> PersistentVolumeClaim:
    """Decode a core/v1 PersistentVolumeClaim."""
    meta, spec = decode_metadata(root), root["spec"]
    return PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        storage_class=spec["storageClassName"].text() or meta.annotations.get(BETA_CLASS_ANNOTATION, ""),
        volume=spec["volumeName"].text(),
        annotations=meta.annotations,
        phase=root["status"]["phase"].text() or "Pending",
        deleting=meta.deleting,
    )


def disables_storage_class(raw: dict[str, Any]) -> bool:
    """Return True if a claim (wire format) has ``storageClassName: ""``.

    An empty name disables dynamic provisioning, the default class included.
    """
    spec = raw.get("spec")
    return isinstance(spec, dict) and spec.get("storageClassName") == ""


def decode_persistent_volume(root: Field) -> PersistentVolume:
    """Decode a core/v1 PersistentVolume."""
    meta, spec = decode_metadata(root), root["spec"]
    driver = spec["csi"]["driver"].text()
    if spec["awsElasticBlockStore"]:
        driver = EBS_DRIVER
    terms = decode_node_selector(spec.at("nodeAffinity", "required"))
    if not terms:
        terms = _zone_term(dict(meta.labels))
    return PersistentVolume(
        name=meta.name,
        driver=driver,
        is_local=bool(spec["local"]) or bool(spec["hostPath"]),
        node_terms=terms,
        deleting=meta.deleting,
    )


def _zone_term(labels: dict[str, str]) -> tuple[NodeSelectorTerm, ...]:
    """Return the zone label as a term: old in-tree volumes have no node affinity."""
    for key, value in labels.items():
        if label_keys.normalize_key(key) == label_keys.ZONE:
            zones = tuple(value.split("__"))  # Several zones are joined as a__b.
            return (NodeSelectorTerm((RequirementSpec(label_keys.ZONE, Operator.IN, zones),)),)
    return ()


def decode_storage_class(root: Field) -> StorageClass:
    """Decode a storage.k8s.io/v1 StorageClass; in-tree names become CSI drivers."""
    meta = decode_metadata(root)
    provisioner = root["provisioner"].text()
    mode = root["volumeBindingMode"].choice(
        ("Immediate", "WaitForFirstConsumer"), "Immediate", "binding mode"
    )
    return StorageClass(
        name=meta.name,
        provisioner=IN_TREE_DRIVERS.get(provisioner, provisioner),
        binds_immediately=mode == "Immediate",
        allowed_topologies=tuple(_decode_topology(item) for item in root["allowedTopologies"].items()),
        is_default=any(meta.annotations.get(key) == "true" for key in _DEFAULT_CLASS_ANNOTATIONS),
        created=meta.created,
    )


def _decode_topology(field: Field) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            RequirementSpec(item["key"].text(), Operator.IN, item["values"].texts())
            for item in field["matchLabelExpressions"].items()
        )
    )
