"""EC2 machine types as AWS describes them, and where they are sold.

These are raw facts. Labels, capacity and overhead depend on how a node is
set up, so they are worked out in ``core.instancetypes`` and stored nowhere.
"""

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict


class Gpu(msgspec.Struct, frozen=True):
    """GPUs of one kind in a machine."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int
    """Of each one."""


class NeuronDevice(msgspec.Struct, frozen=True):
    """Trainium or Inferentia chips of one kind in a machine."""

    name: str
    count: int
    cores: int
    """On each one."""


class InferenceAccelerator(msgspec.Struct, frozen=True):
    """Inference chips of one kind, as EC2 listed them before Neuron."""

    name: str
    manufacturer: str
    count: int


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One EC2 instance type."""

    name: str
    vcpus: int
    memory_mib: int
    architectures: tuple[str, ...] = ("x86_64",)
    """EC2's names, most preferred first."""
    hypervisor: str = ""
    """``nitro``, ``xen``, or nothing on bare metal."""
    bare_metal: bool = False
    burstable: bool = False

    enis: int = 0
    """Network interfaces that the default network card takes."""
    total_enis: int = 0
    """Network interfaces that all cards take together."""
    network_cards: int = 1
    ipv4_per_eni: int = 0
    efas: int = 0
    ena: bool = True
    network_baseline_mbps: int | None = None
    encryption_in_transit: bool = False

    gpus: tuple[Gpu, ...] = ()
    neuron: tuple[NeuronDevice, ...] = ()
    inference: tuple[InferenceAccelerator, ...] = ()

    local_storage_gb: int = 0
    """Decimal gigabytes of all local disks together."""
    nvme: bool = False
    ebs_optimized: str = "default"
    """``default``, ``supported`` or ``unsupported``."""
    ebs_baseline_mbps: int | None = None
    ebs_maximum_mbps: int | None = None
    ebs_attachments: int | None = None
    ebs_attachments_shared: bool = True
    """Network interfaces and local disks count against ``ebs_attachments``."""

    clock_mhz: int | None = None
    cpu_manufacturer: str = ""
    cpu_features: tuple[str, ...] = ()
    nitro_enclaves: bool = False
    usage_classes: tuple[str, ...] = ("on-demand", "spot")
    placement_strategies: tuple[str, ...] = ()


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A region's zones and which machine types each sells."""

    name: str
    zones: FrozenDict[str, str] = EMPTY
    """Zone name → zone id."""
    offered: FrozenDict[str, frozenset[str]] = FrozenDict()
    """Machine type → the zones that sell it."""

    @property
    def zone_names(self) -> FrozenDict[str, str]:
        """Zone id → zone name."""
        return FrozenDict({zone_id: zone for zone, zone_id in self.zones.items() if zone_id})


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Every machine type known, and the regions it was recorded for."""

    recorded: str
    """The day, as YYYY-MM-DD."""
    source: str
    machines: tuple[Machine, ...]
    """Sorted by name."""
    regions: FrozenDict[str, Region]

    def machines_in(self, region: str) -> tuple[Machine, ...]:
        """Return the types that at least one zone of ``region`` sells; none if unknown."""
        known = self.regions.get(region)
        return tuple(one for one in self.machines if known and known.offered.get(one.name))
