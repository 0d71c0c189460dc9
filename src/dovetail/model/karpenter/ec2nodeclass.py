"""EC2NodeClass: the cloud's side of a NodePool."""

from typing import Any

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import Found, LaunchSpec
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.resources import NOTHING, Resources


class Kubelet(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet settings of a class; the first few change how much pods can have."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Resources = NOTHING
    system_reserved: Resources = NOTHING
    eviction_hard: FrozenDict[str, str] = EMPTY
    """Signal → quantity or percentage, as written."""
    eviction_soft: FrozenDict[str, str] = EMPTY
    eviction_soft_grace: FrozenDict[str, str] = EMPTY
    """Signal → duration, as written."""
    eviction_max_pod_grace: int | None = None
    cluster_dns: tuple[str, ...] = ()
    image_gc_high: int | None = None
    image_gc_low: int | None = None
    cpu_cfs_quota: bool | None = None
    others: FrozenDict[str, Any] = FrozenDict()
    """Further fields of a kubelet's configuration, by their own names; AL2023 has them."""


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that every node of the class gets."""

    device_name: str = ""
    volume_bytes: int | None = None
    root: bool = False
    volume_type: str = ""
    encrypted: bool | None = None
    iops: int | None = None
    throughput: int | None = None
    kms_key: str = ""
    snapshot: str = ""
    initialization_rate: int | None = None
    delete_on_termination: bool | None = None


class CapacityReservation(msgspec.Struct, frozen=True, kw_only=True):
    """Capacity that is paid for already."""

    id: str
    instance_type: str
    zone: str
    available: int
    kind: str = "default"
    """``default`` or ``capacity-block``."""
    interruptible: bool = False
    expiring: bool = False


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """What deciding and launching need to know of an EC2NodeClass."""

    name: str = "default"
    ami_family: str = "AL2023"
    kubelet: Kubelet = Kubelet()
    block_devices: tuple[BlockDevice, ...] = ()
    raid0: bool = False
    """``instanceStorePolicy: RAID0``: pods' scratch space is the instance store."""
    zones: FrozenDict[str, str] | None = None
    """Zone → zone id of the subnets in the status; None where there is no status."""
    reservations: tuple[CapacityReservation, ...] = ()
    launch: LaunchSpec = LaunchSpec()
    found: Found = Found()
    ready: bool = True
    deleting: bool = False
    uid: str = ""
    annotations: FrozenDict[str, str] = EMPTY
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    conditions: Conditions = NO_CONDITIONS
