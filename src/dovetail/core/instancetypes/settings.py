"""What the operator of a cluster may say about its machines."""

import msgspec


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Choices that apply to all node classes; the defaults are the reference's."""

    reserved_enis: int = 0
    """Network interfaces that pods cannot have (VPC CNI custom networking takes one)."""
    vm_memory_overhead: float = 0.075
    """Share of memory that hypervisor and kernel keep from the node."""
    reserved_capacity: bool = True
    """Whether capacity reservations become offerings."""


DEFAULT_SETTINGS = MachineSettings()
