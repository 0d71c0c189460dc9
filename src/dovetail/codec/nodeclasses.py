"""EC2NodeClasses on the wire, read and written."""

from typing import Any

from dovetail.codec.amounts import is_quantity, quantity_bytes, resources
from dovetail.codec.classrules import (
    FAMILIES,
    alias_family,
    check_class_spec,
    check_family,
    check_reservation_terms,
)
from dovetail.codec.conditions import conditions
from dovetail.codec.fields import Field
from dovetail.codec.launchrules import check_launch_spec
from dovetail.codec.metadata import metadata
from dovetail.codec.nearest import did_you_mean
from dovetail.codec.nodepools import is_ready
from dovetail.model.frozen import FrozenDict
from dovetail.model.nodeclass import BlockDevice, CapacityReservation, Kubelet, NodeClass
from dovetail.model.quantity import format_amount
from dovetail.model.resources import MEMORY

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
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = (
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
    raid0 = bool(policy) and policy.choice(("RAID0",), "RAID0", "instance store policy") == "RAID0"
    return NodeClass(
        name=meta.name,
        ami_family=_family(spec),
        kubelet=decode_kubelet(spec["kubelet"]),
        block_devices=tuple(_device(one) for one in spec["blockDeviceMappings"].items()),
        raid0=raid0,
        zones=_zones(status["subnets"]),
        reservations=tuple(_reservation(one) for one in status["capacityReservations"].items()),
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
            if entry.key not in _RESERVABLE:
                known = did_you_mean(str(entry.key), _RESERVABLE)
                entry.mistake(f"nothing can be reserved of {entry.key!r}{known}")
    return Kubelet(
        max_pods=field["maxPods"].whole(low=0),
        pods_per_core=field["podsPerCore"].whole(low=0),
        kube_reserved=resources(field["kubeReserved"]),
        system_reserved=resources(field["systemReserved"]),
        eviction_hard=_eviction(field["evictionHard"]),
    )


def _eviction(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    for entry in field.entries():
        value = read.get(str(entry.key), "")
        if entry.key not in _SIGNALS:
            known = did_you_mean(str(entry.key), _SIGNALS)
            entry.mistake(f"{entry.key!r} is no eviction signal{known}")
        elif not is_quantity(value.removesuffix("%")):
            entry.mistake(f"{value!r} is neither an amount nor a share such as '5%'")
    return read


def _device(field: Field) -> BlockDevice:
    field.known_keys(("deviceName", "ebs", "rootVolume"))
    return BlockDevice(
        device_name=field["deviceName"].text(),
        volume_bytes=quantity_bytes(field["ebs"]["volumeSize"]),
        root=field["rootVolume"].boolean(),
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
    kubelet = _encode_kubelet(chosen.kubelet)
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


def _encode_kubelet(kubelet: Kubelet) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if kubelet.max_pods is not None:
        shown["maxPods"] = kubelet.max_pods
    if kubelet.pods_per_core is not None:
        shown["podsPerCore"] = kubelet.pods_per_core
    if kubelet.kube_reserved:
        shown["kubeReserved"] = kubelet.kube_reserved.spelled()
    if kubelet.system_reserved:
        shown["systemReserved"] = kubelet.system_reserved.spelled()
    if kubelet.eviction_hard:
        shown["evictionHard"] = dict(kubelet.eviction_hard)
    return shown


def _encode_device(device: BlockDevice) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if device.device_name:
        shown["deviceName"] = device.device_name
    if device.volume_bytes is not None:
        shown["ebs"] = {"volumeSize": format_amount(MEMORY, device.volume_bytes)}
    if device.root:
        shown["rootVolume"] = True
    return shown


def _encode_status(chosen: NodeClass) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if chosen.zones is not None:
        shown["subnets"] = [
            {"zone": zone, "zoneID": zone_id} for zone, zone_id in chosen.zones.items()
        ]
    if chosen.reservations:
        shown["capacityReservations"] = [_encode_reservation(one) for one in chosen.reservations]
    if not chosen.ready:
        shown["conditions"] = [{"type": "Ready", "status": "False"}]
    return shown


def _encode_reservation(one: CapacityReservation) -> dict[str, Any]:
    return {
        "id": one.id,
        "instanceType": one.instance_type,
        "availabilityZone": one.zone,
        "availableInstanceCount": one.available,
        "reservationType": one.kind,
        "interruptible": one.interruptible,
        "state": "expiring" if one.expiring else "active",
    }
