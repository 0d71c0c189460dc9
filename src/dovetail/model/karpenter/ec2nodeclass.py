"""EC2NodeClass: AWS settings of the nodes of a NodePool.

``core.nodeclass.hash`` hashes KubeletConfiguration and BlockDevice with their
field names. Renaming a field changes the hash and needs a new hash version.
"""

from typing import Any

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec, ResolvedResources
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.resources import NO_RESOURCES, Resources


class KubeletConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Kubelet settings; reservations, eviction and pod limits change allocatable."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Resources = NO_RESOURCES
    system_reserved: Resources = NO_RESOURCES
    eviction_hard: FrozenDict[str, str] = EMPTY
    """Eviction signal → quantity or percentage, as written."""
    eviction_soft: FrozenDict[str, str] = EMPTY
    eviction_soft_grace: FrozenDict[str, str] = EMPTY
    """Eviction signal → duration, as written."""
    eviction_max_pod_grace: int | None = None
    cluster_dns: tuple[str, ...] = ()
    image_gc_high: int | None = None
    image_gc_low: int | None = None
    cpu_cfs_quota: bool | None = None
    others: FrozenDict[str, Any] = FrozenDict()
    """Other fields of the kubelet configuration file by wire name; AL2023 only."""
    expressions: FrozenDict[str, str] = EMPTY
    """``maxPods`` or ``kubeReserved.cpu`` … → CEL expression, instead of a value above."""


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of ``spec.blockDeviceMappings``."""

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
    """An EC2 capacity reservation that the node class selects."""

    id: str
    instance_type: str
    zone: str
    available_count: int
    reservation_type: str = "default"
    """``default`` or ``capacity-block``."""
    interruptible: bool = False
    expiring: bool = False


class EC2NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """A karpenter.k8s.aws/v1 EC2NodeClass, as scheduling and launching use it."""

    name: str = "default"
    ami_family: AmiFamily = DEFAULT_AMI_FAMILY
    kubelet: KubeletConfiguration = KubeletConfiguration()
    block_devices: tuple[BlockDevice, ...] = ()
    raid0: bool = False
    """``instanceStorePolicy: RAID0``: ephemeral storage is on the instance store."""
    zones: FrozenDict[str, str] | None = None
    """Zone → zone ID of the subnets in the status; None without a status."""
    capacity_reservations: tuple[CapacityReservation, ...] = ()
    launch: LaunchSpec = LaunchSpec()
    resolved: ResolvedResources = ResolvedResources()
    ready: bool = True
    deleting: bool = False
    uid: str = ""
    annotations: FrozenDict[str, str] = EMPTY
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    conditions: Conditions = NO_CONDITIONS

    @property
    def unsupported_kubelet_fields(self) -> dict[str, str]:
        """Return the kubelet settings that nodes of the AMI family would not get, and why."""
        family, kubelet = self.ami_family, self.kubelet
        if family.applies_all_kubelet_fields:
            return {}
        unsupported = {name: f"only AL2023 supports it, not {family}" for name in sorted(kubelet.others)}
        if kubelet.pods_per_core is not None and not family.supports_pods_per_core:
            unsupported["podsPerCore"] = f"{family} has no such setting"
        if len(kubelet.cluster_dns) > 1:
            unsupported["clusterDNS"] = f"{family} supports only one address"
        return unsupported
