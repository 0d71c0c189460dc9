"""Cluster-wide settings of instance types."""

import msgspec


class InstanceTypeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all node classes; the defaults are Karpenter's."""

    reserved_enis: int = 0
    """Network interfaces unavailable to pods (1 with VPC CNI custom networking)."""
    vm_memory_overhead: float = 0.075
    """Share of memory that the hypervisor and the kernel keep."""
    reserved_capacity: bool = True
    """Use capacity reservations as offerings."""
    kubelet_expressions: bool = False
    """Evaluate expressions in kubelet settings (feature gate NodeClassCEL)."""


DEFAULT_SETTINGS = InstanceTypeSettings()
