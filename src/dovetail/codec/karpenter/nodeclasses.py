"""EC2NodeClasses on the wire, read and written."""

import re
from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.karpenter.nodeclass_launch import decode_found, decode_launch
from dovetail.codec.karpenter.nodeclass_launch_validation import check_launch_spec
from dovetail.codec.karpenter.nodeclass_validation import (
    FAMILIES,
    alias_family,
    check_class_spec,
    check_family,
    check_reservation_terms,
)
from dovetail.codec.karpenter.nodepools import is_ready
from dovetail.codec.kube.conditions import conditions
from dovetail.codec.kube.metadata import metadata
from dovetail.codec.quantities import is_quantity, quantity_bytes, resources
from dovetail.codec.text.suggestions import did_you_mean
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import (
    BlockDevice,
    CapacityReservation,
    Kubelet,
    NodeClass,
)
from dovetail.model.kube.quantity import format_amount
from dovetail.model.kube.resources import MEMORY

API_VERSION = "karpenter.k8s.aws/v1"
_SPEC = (
    "subnetSelectorTerms securityGroupSelectorTerms amiSelectorTerms amiFamily role "
    "instanceProfile userData tags kubelet blockDeviceMappings instanceStorePolicy "
    "networkInterfaces detailedMonitoring associatePublicIPAddress ipPrefixCount "
    "metadataOptions connectionTracking cpuOptions context capacityReservationSelectorTerms "
    "placementGroupSelector"
).split()
_KUBELET = (
    "clusterDNS maxPods podsPerCore systemReserved kubeReserved evictionHard evictionSoft "
    "evictionSoftGracePeriod evictionMaxPodGracePeriod imageGCHighThresholdPercent "
    "imageGCLowThresholdPercent cpuCFSQuota"
).split()
SHARE = re.compile(r"(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%")
GO_DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+|0")
"""As the kubelet reads them, unlike Karpenter's own: with fractions and small units."""
STORE_POLICIES = ("RAID0",)
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
SIGNALS = (
    "memory.available nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree "
    "pid.available"
).split()


def decode_node_class(root: Field) -> NodeClass:
    """Read a karpenter.k8s.aws/v1 EC2NodeClass by the rules of its CRD."""
    meta, spec, status = metadata(root), root["spec"], root["status"]
    spec.required()
    spec.known_keys(_SPEC)
    if spec and spec.findings.written_by_hand:
        check_class_spec(spec)
        check_reservation_terms(spec["capacityReservationSelectorTerms"])
        check_launch_spec(spec)
    policy = spec["instanceStorePolicy"]
    raid0 = (
        bool(policy) and policy.choice(STORE_POLICIES, "RAID0", "instance store policy") == "RAID0"
    )
    return NodeClass(
        name=meta.name,
        ami_family=_family(spec),
        kubelet=decode_kubelet(spec["kubelet"]),
        block_devices=tuple(_device(one) for one in spec["blockDeviceMappings"].items()),
        raid0=raid0,
        zones=_zones(status["subnets"]),
        reservations=tuple(_reservation(one) for one in status["capacityReservations"].items()),
        launch=decode_launch(spec),
        found=decode_found(status),
        ready=is_ready(status),
        deleting=meta.deleting,
        uid=meta.uid,
        annotations=meta.annotations,
        generation=meta.generation,
        resource_version=meta.resource_version,
        finalizers=meta.finalizers,
        conditions=conditions(status["conditions"]),
    )


def _family(spec: Field) -> str:
    """Return the image family: as written, or as the alias says."""
    written = spec["amiFamily"]
    aliases = (one["alias"] for one in spec["amiSelectorTerms"].items())
    alias = next((one for one in aliases if one), None)
    said = alias_family(alias) if alias is not None else None
    if written:
        if alias is not None and spec.findings.written_by_hand:
            check_family(written, alias)
        return written.choice(FAMILIES, "AL2023", "AMI family")
    if said is not None:
        return said
    if spec.findings.written_by_hand and spec["amiSelectorTerms"].value:
        written.mistake("is missing; it goes without only beside an alias such as al2023@latest")
    return "AL2023"


def decode_kubelet(field: Field) -> Kubelet:
    """Read kubelet settings."""
    if not field:
        return Kubelet()
    field.known_keys(_KUBELET)
    for name in ("kubeReserved", "systemReserved"):
        for entry in field[name].entries():
            if entry.key not in RESERVABLE:
                known = did_you_mean(str(entry.key), RESERVABLE)
                entry.mistake(f"nothing can be reserved of {entry.key!r}{known}")
    return Kubelet(
        max_pods=field["maxPods"].whole(low=0),
        pods_per_core=field["podsPerCore"].whole(low=0),
        kube_reserved=resources(field["kubeReserved"]),
        system_reserved=resources(field["systemReserved"]),
        eviction_hard=_eviction(field["evictionHard"]),
        eviction_soft=_eviction(field["evictionSoft"]),
        eviction_soft_grace=_patience(field["evictionSoftGracePeriod"]),
        eviction_max_pod_grace=field["evictionMaxPodGracePeriod"].whole(),
        cluster_dns=field["clusterDNS"].texts(),
        image_gc_high=field["imageGCHighThresholdPercent"].whole(low=0, high=100),
        image_gc_low=field["imageGCLowThresholdPercent"].whole(low=0, high=100),
        cpu_cfs_quota=field["cpuCFSQuota"].boolean() if field["cpuCFSQuota"] else None,
        others=FrozenDict(
            {name: one for name, one in field.mapping().items() if name not in _KUBELET}
        ),
    )


def _eviction(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    for entry in field.entries():
        value = read.get(str(entry.key), "")
        if entry.key not in SIGNALS:
            known = did_you_mean(str(entry.key), SIGNALS)
            entry.mistake(f"{entry.key!r} is no eviction signal{known}")
        elif not (SHARE.fullmatch(value) or is_quantity(value)):
            entry.mistake(f"{value!r} is neither an amount nor a share such as '5%'")
    return read


def _patience(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    for entry in field.entries():
        if not GO_DURATION.fullmatch(read.get(str(entry.key), "")):
            entry.mistake(f"{entry.value!r} is no duration; write it as in 30s or 1m30s")
    return read


def _device(field: Field) -> BlockDevice:
    field.known_keys(("deviceName", "ebs", "rootVolume"))
    ebs = field["ebs"]
    return BlockDevice(
        device_name=field["deviceName"].text(),
        volume_bytes=quantity_bytes(ebs["volumeSize"]),
        root=field["rootVolume"].boolean(),
        volume_type=ebs["volumeType"].text(),
        encrypted=ebs["encrypted"].boolean() if ebs["encrypted"] else None,
        iops=ebs["iops"].whole(low=0),
        throughput=ebs["throughput"].whole(low=0),
        kms_key=ebs["kmsKeyID"].text(),
        snapshot=ebs["snapshotID"].text(),
        initialization_rate=ebs["volumeInitializationRate"].whole(),
        delete_on_termination=(
            ebs["deleteOnTermination"].boolean() if ebs["deleteOnTermination"] else None
        ),
    )


def _zones(field: Field) -> FrozenDict[str, str] | None:
    if not field:
        return None
    found = {one["zone"].text(): one["zoneID"].text() for one in field.items()}
    return FrozenDict(dict(sorted(found.items())))


def _reservation(field: Field) -> CapacityReservation:
    """Read a reservation; how much of it is free stands there only in our own files."""
    return CapacityReservation(
        id=field["id"].text(),
        instance_type=field["instanceType"].text(),
        zone=field["availabilityZone"].text(),
        available=field["availableInstanceCount"].whole(low=0) or 0,
        kind=field["reservationType"].text("default"),
        interruptible=field["interruptible"].boolean(),
        expiring=field["state"].value == "expiring",
    )


def encode_node_class(chosen: NodeClass) -> dict[str, Any]:
    """Write what deciding knows of a class; the rest must come from its document."""
    spec: dict[str, Any] = {"amiFamily": chosen.ami_family}
    kubelet = encode_kubelet(chosen.kubelet)
    if kubelet:
        spec["kubelet"] = kubelet
    if chosen.block_devices:
        spec["blockDeviceMappings"] = [_encode_device(one) for one in chosen.block_devices]
    if chosen.raid0:
        spec["instanceStorePolicy"] = "RAID0"
    shown: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "EC2NodeClass",
        "metadata": {"name": chosen.name},
        "spec": spec,
    }
    status = _encode_status(chosen)
    return {**shown, "status": status} if status else shown


def encode_kubelet(kubelet: Kubelet) -> dict[str, Any]:
    """Write kubelet settings by the kubelet's own names for them."""
    shown: dict[str, Any] = {
        "maxPods": kubelet.max_pods,
        "podsPerCore": kubelet.pods_per_core,
        "kubeReserved": kubelet.kube_reserved.spelled() or None,
        "systemReserved": kubelet.system_reserved.spelled() or None,
        "evictionHard": dict(kubelet.eviction_hard) or None,
        "evictionSoft": dict(kubelet.eviction_soft) or None,
        "evictionSoftGracePeriod": dict(kubelet.eviction_soft_grace) or None,
        "evictionMaxPodGracePeriod": kubelet.eviction_max_pod_grace,
        "clusterDNS": list(kubelet.cluster_dns) or None,
        "imageGCHighThresholdPercent": kubelet.image_gc_high,
        "imageGCLowThresholdPercent": kubelet.image_gc_low,
        "cpuCFSQuota": kubelet.cpu_cfs_quota,
        **kubelet.others,
    }
    return {name: one for name, one in shown.items() if one is not None}


def _encode_device(device: BlockDevice) -> dict[str, Any]:
    size = device.volume_bytes
    ebs: dict[str, Any] = {
        "volumeSize": None if size is None else format_amount(MEMORY, size),
        "volumeType": device.volume_type or None,
        "encrypted": device.encrypted,
        "iops": device.iops,
        "throughput": device.throughput,
        "kmsKeyID": device.kms_key or None,
        "snapshotID": device.snapshot or None,
        "volumeInitializationRate": device.initialization_rate,
        "deleteOnTermination": device.delete_on_termination,
    }
    shown: dict[str, Any] = {
        "deviceName": device.device_name or None,
        "ebs": {name: one for name, one in ebs.items() if one is not None} or None,
        "rootVolume": device.root or None,
    }
    return {name: one for name, one in shown.items() if one is not None}


def _encode_status(chosen: NodeClass) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if chosen.zones is not None:
        shown["subnets"] = [
            {"zone": zone, "zoneID": zone_id} for zone, zone_id in chosen.zones.items()
        ]
    if chosen.reservations:
        shown["capacityReservations"] = [encode_reservation(one) for one in chosen.reservations]
    if not chosen.ready:
        shown["conditions"] = [{"type": "Ready", "status": "False"}]
    return shown


def encode_reservation(one: CapacityReservation) -> dict[str, Any]:
    """Return a reservation as a class's status has it."""
    return {
        "id": one.id,
        "instanceType": one.instance_type,
        "availabilityZone": one.zone,
        "availableInstanceCount": one.available,
        "reservationType": one.kind,
        "interruptible": one.interruptible,
        "state": "expiring" if one.expiring else "active",
    }
