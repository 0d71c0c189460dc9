"""Volumes, claims and storage classes on the wire."""

from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.kube.affinity import node_terms
from dovetail.codec.kube.metadata import metadata
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.storage import StorageClass, Volume, VolumeClaim

EBS_DRIVER = "ebs.csi.aws.com"
IN_TREE = {
    "kubernetes.io/aws-ebs": EBS_DRIVER,
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def decode_claim(root: Field) -> VolumeClaim:
    """Read a core/v1 PersistentVolumeClaim."""
    meta, spec = metadata(root), root["spec"]
    return VolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        storage_class=spec["storageClassName"].text() or meta.annotations.get(OLD_CLASS, ""),
        volume=spec["volumeName"].text(),
        annotations=meta.annotations,
        phase=root["status"]["phase"].text() or "Pending",
        deleting=meta.deleting,
    )


def asks_for_no_class(raw: dict[str, Any]) -> bool:
    """Tell whether a claim says ``storageClassName: ""``, not even the default one."""
    spec = raw.get("spec")
    return isinstance(spec, dict) and spec.get("storageClassName") == ""


def decode_volume(root: Field) -> Volume:
    """Read a core/v1 PersistentVolume."""
    meta, spec = metadata(root), root["spec"]
    driver = spec["csi"]["driver"].text()
    if spec["awsElasticBlockStore"]:
        driver = EBS_DRIVER
    terms = node_terms(spec.at("nodeAffinity", "required"))
    if not terms:
        terms = _zone_of_labels(dict(meta.labels))
    return Volume(
        name=meta.name,
        driver=driver,
        local=bool(spec["local"]) or bool(spec["hostPath"]),
        node_terms=terms,
        deleting=meta.deleting,
    )


def _zone_of_labels(labels: dict[str, str]) -> tuple[NodeTerm, ...]:
    """Old in-tree volumes say their zone in a label only."""
    for key, value in labels.items():
        if label_keys.stable_key(key) == label_keys.ZONE:
            zones = tuple(value.split("__"))  # Several zones are written a__b.
            return (NodeTerm((RequirementSpec(label_keys.ZONE, Operator.IN, zones),)),)
    return ()


def decode_storage_class(root: Field) -> StorageClass:
    """Read a storage/v1 StorageClass; in-tree provisioners become their successors."""
    meta = metadata(root)
    provisioner = root["provisioner"].text()
    mode = root["volumeBindingMode"].choice(
        ("Immediate", "WaitForFirstConsumer"), "Immediate", "binding mode"
    )
    return StorageClass(
        name=meta.name,
        provisioner=IN_TREE.get(provisioner, provisioner),
        immediate=mode == "Immediate",
        topologies=tuple(_topology(one) for one in root["allowedTopologies"].items()),
        default=any(meta.annotations.get(key) == "true" for key in _DEFAULT_CLASS),
        created=meta.created,
    )


def _topology(field: Field) -> NodeTerm:
    return NodeTerm(
        tuple(
            RequirementSpec(one["key"].text(), Operator.IN, one["values"].texts())
            for one in field["matchLabelExpressions"].items()
        )
    )
