"""Cluster-wide settings of instance types."""

import msgspec

from dovetail.model.cloud.cpu_credits import BurstablePolicy


class InstanceTypeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all node classes; the defaults but ``burstable`` are Karpenter's."""

    reserved_enis: int = 0
    """Network interfaces unavailable to pods (1 with VPC CNI custom networking)."""
    vm_memory_overhead: float = 0.075
    """Share of memory that the hypervisor and the kernel keep."""
    reserved_capacity: bool = True
    """Use capacity reservations as offerings."""
    kubelet_expressions: bool = False
    """Evaluate expressions in kubelet settings (feature gate NodeClassCEL)."""
    burstable: BurstablePolicy = BurstablePolicy.BASELINE
    """Treatment of burstable types in plans."""


DEFAULT_SETTINGS = InstanceTypeSettings()
