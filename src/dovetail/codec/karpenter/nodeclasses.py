"""Decoder and encoder of EC2NodeClasses."""

from typing import Any

from dovetail.codec.fields import MAX_INT64, Field, drop_empty
from dovetail.codec.karpenter.nodeclass_kubelet import decode_kubelet, encode_kubelet
from dovetail.codec.karpenter.nodeclass_launch import decode_launch_spec, decode_resolved_resources
from dovetail.codec.karpenter.nodeclass_launch_validation import check_launch_spec
from dovetail.codec.karpenter.nodeclass_validation import (
    check_ami_family,
    check_nodeclass_spec,
    check_reservation_terms,
    decode_alias_family,
)
from dovetail.codec.karpenter.nodepools import decode_ready
from dovetail.codec.kube.conditions import decode_conditions
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.quantities import decode_bytes
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.karpenter.ec2nodeclass import BlockDevice, CapacityReservation, EC2NodeClass
from dovetail.model.kube.conditions import FALSE, READY
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
INSTANCE_STORE_POLICIES = ("RAID0",)


def decode_nodeclass(root: Field) -> EC2NodeClass:
    """Decode a karpenter.k8s.aws/v1 EC2NodeClass, with the validation of its CRD."""
    meta, spec, status = decode_metadata(root), root["spec"], root["status"]
    spec.check_required()
    spec.check_known_keys(_SPEC)
    if spec and spec.context.strict:
        check_nodeclass_spec(spec)
        check_reservation_terms(spec["capacityReservationSelectorTerms"])
        check_launch_spec(spec)
    policy = spec["instanceStorePolicy"]
    raid0 = (
        bool(policy) and policy.choice(INSTANCE_STORE_POLICIES, "RAID0", "instance store policy") == "RAID0"
    )
    node_class = EC2NodeClass(
        name=meta.name,
        ami_family=_decode_ami_family(spec),
        kubelet=decode_kubelet(spec["kubelet"]),
        block_devices=tuple(_decode_block_device(item) for item in spec["blockDeviceMappings"].items()),
        raid0=raid0,
        zones=_decode_zones(status["subnets"]),
        capacity_reservations=tuple(
            _decode_capacity_reservation(item) for item in status["capacityReservations"].items()
        ),
        launch=decode_launch_spec(spec),
        resolved=decode_resolved_resources(status),
        ready=decode_ready(status),
        deleting=meta.deleting,
        uid=meta.uid,
        annotations=meta.annotations,
        generation=meta.generation,
        resource_version=meta.resource_version,
        finalizers=meta.finalizers,
        conditions=decode_conditions(status["conditions"]),
    )
    if spec.context.strict and not spec.context.api_rules_only:
        for name, why in node_class.unsupported_kubelet_fields.items():
            spec["kubelet"][name].add_error(why)
    return node_class


def _decode_ami_family(spec: Field) -> AmiFamily:
    """Return the AMI family: ``amiFamily``, or that of the alias."""
    written = spec["amiFamily"]
    aliases = (term["alias"] for term in spec["amiSelectorTerms"].items())
    alias = next((candidate for candidate in aliases if candidate), None)
    implied = decode_alias_family(alias) if alias is not None else None
    if written:
        if alias is not None and spec.context.strict:
            check_ami_family(written, alias)
        return AmiFamily(written.choice(AmiFamily, DEFAULT_AMI_FAMILY, "AMI family"))
    if implied is not None:
        return implied
    if spec.context.strict and spec["amiSelectorTerms"].value:
        written.add_error("is required unless an alias such as al2023@latest is used")
    return DEFAULT_AMI_FAMILY


def _decode_block_device(field: Field) -> BlockDevice:
    field.check_known_keys(("deviceName", "ebs", "rootVolume"))
    ebs = field["ebs"]
    return BlockDevice(
        device_name=field["deviceName"].text(),
        volume_bytes=decode_bytes(ebs["volumeSize"]),
        root=field["rootVolume"].boolean(),
        volume_type=ebs["volumeType"].text(),
        encrypted=ebs["encrypted"].boolean() if ebs["encrypted"] else None,
        iops=ebs["iops"].integer(low=0, high=MAX_INT64),
        throughput=ebs["throughput"].integer(low=0, high=MAX_INT64),
        kms_key=ebs["kmsKeyID"].text(),
        snapshot=ebs["snapshotID"].text(),
        initialization_rate=ebs["volumeInitializationRate"].integer(),
        delete_on_termination=(ebs["deleteOnTermination"].boolean() if ebs["deleteOnTermination"] else None),
    )


def _decode_zones(field: Field) -> FrozenDict[str, str] | None:
    if not field:
        return None
    zones = {subnet["zone"].text(): subnet["zoneID"].text() for subnet in field.items()}
    return FrozenDict(dict(sorted(zones.items())))


def _decode_capacity_reservation(field: Field) -> CapacityReservation:
    """Decode a capacity reservation; availableInstanceCount is Dovetail's own field."""
    return CapacityReservation(
        id=field["id"].text(),
        instance_type=field["instanceType"].text(),
        zone=field["availabilityZone"].text(),
        available_count=field["availableInstanceCount"].integer(low=0) or 0,
        reservation_type=field["reservationType"].text("default"),
        interruptible=field["interruptible"].boolean(),
        expiring=field["state"].value == "expiring",
    )


def encode_nodeclass(node_class: EC2NodeClass) -> dict[str, Any]:
    """Encode the fields that scheduling uses; others stay in the original document."""
    zones = node_class.zones
    spec = {
        "amiFamily": node_class.ami_family.value,
        "kubelet": encode_kubelet(node_class.kubelet),
        "blockDeviceMappings": [_encode_block_device(device) for device in node_class.block_devices],
        "instanceStorePolicy": "RAID0" if node_class.raid0 else "",
    }
    status = {
        "capacityReservations": [
            encode_capacity_reservation(reservation) for reservation in node_class.capacity_reservations
        ],
        "conditions": [] if node_class.ready else [{"type": READY, "status": FALSE}],
    }
    # No subnets and unknown subnets differ.
    subnets = [{"zone": zone, "zoneID": zone_id} for zone, zone_id in (zones or {}).items()]
    return drop_empty(
        {
            "apiVersion": API_VERSION,
            "kind": "EC2NodeClass",
            "metadata": {"name": node_class.name},
            "spec": drop_empty(spec),
            "status": drop_empty(status) | ({} if zones is None else {"subnets": subnets}),
        }
    )


def _encode_block_device(device: BlockDevice) -> dict[str, Any]:
    size = device.volume_bytes
    ebs = {
        "volumeSize": None if size is None else format_amount(MEMORY, size),
        "volumeType": device.volume_type,
        "encrypted": device.encrypted,
        "iops": device.iops,
        "throughput": device.throughput,
        "kmsKeyID": device.kms_key,
        "snapshotID": device.snapshot,
        "volumeInitializationRate": device.initialization_rate,
        "deleteOnTermination": device.delete_on_termination,
    }
    root = device.root or None
    return drop_empty({"deviceName": device.device_name, "ebs": drop_empty(ebs), "rootVolume": root})


def encode_capacity_reservation(reservation: CapacityReservation) -> dict[str, Any]:
    """Encode a capacity reservation as in the status of an EC2NodeClass."""
    return {
        "id": reservation.id,
        "instanceType": reservation.instance_type,
        "availabilityZone": reservation.zone,
        "availableInstanceCount": reservation.available_count,
        "reservationType": reservation.reservation_type,
        "interruptible": reservation.interruptible,
        "state": "expiring" if reservation.expiring else "active",
    }
