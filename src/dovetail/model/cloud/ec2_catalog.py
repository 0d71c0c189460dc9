"""EC2 instance types as AWS describes them, and the zones that offer them.

These are raw facts. Labels, capacity and overhead depend on the node class, so
``core.instancetypes`` computes them and nothing stores them.
"""

from collections import Counter

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict


class Gpu(msgspec.Struct, frozen=True):
    """GPUs of one model in an instance."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int
    """Memory of one GPU."""


class NeuronDevice(msgspec.Struct, frozen=True):
    """Trainium or Inferentia chips of one model in an instance."""

    name: str
    count: int
    cores: int
    """Cores of one chip."""


class InferenceAccelerator(msgspec.Struct, frozen=True):
    """Inference chips of one model, in the EC2 field that preceded Neuron devices."""

    name: str
    manufacturer: str
    count: int


class Ec2InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one EC2 instance type, from DescribeInstanceTypes.

    Field names are column names of the catalogue file: a renamed field reads as
    its default from files that were recorded before.
    """

    name: str
    vcpus: int
    memory_mib: int
    architectures: tuple[str, ...] = ("x86_64",)
    """EC2's names (``x86_64``, ``arm64``), preferred architecture first."""
    hypervisor: str = ""
    """``nitro`` or ``xen``; empty for bare metal."""
    bare_metal: bool = False
    burstable: bool = False

    enis: int = 0
    """Maximum number of network interfaces of the default network card."""
    total_enis: int = 0
    """Maximum number of network interfaces of all network cards together."""
    network_cards: int = 1
    card_enis: tuple[int, ...] = ()
    """Maximum number of network interfaces of each network card, by its index.

    Empty in catalogue files that were recorded before this field.
    """
    ipv4_per_eni: int = 0
    efas: int = 0
    ena: bool = True
    network_baseline_mbps: int | None = None
    encryption_in_transit: bool = False

    gpus: tuple[Gpu, ...] = ()
    neuron: tuple[NeuronDevice, ...] = ()
    inference: tuple[InferenceAccelerator, ...] = ()

    local_storage_gb: int = 0
    """Total size of the local disks in decimal gigabytes."""
    nvme: bool = False
    ebs_optimized: str = "default"
    """``default``, ``supported`` or ``unsupported``."""
    ebs_baseline_mbps: int | None = None
    ebs_maximum_mbps: int | None = None
    ebs_attachments: int | None = None
    ebs_attachments_shared: bool = True
    """True if network interfaces and local disks count against ``ebs_attachments``."""

    clock_mhz: int | None = None
    cpu_manufacturer: str = ""
    cpu_features: tuple[str, ...] = ()
    nitro_enclaves: bool = False
    usage_classes: tuple[str, ...] = ("on-demand", "spot")
    placement_strategies: tuple[str, ...] = ()


_MIN_OFFERED_SHARE = 0.25
"""Share of the instance types of the region's best zone; zones with fewer are sparse."""


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Zones of a region, and the instance types that each zone offers."""

    name: str
    zones: FrozenDict[str, str] = EMPTY
    """Zone name → zone ID."""
    offered_zones: FrozenDict[str, frozenset[str]] = FrozenDict()
    """Instance type → zones that offer it."""

    @property
    def zone_names(self) -> FrozenDict[str, str]:
        """Zone ID → zone name."""
        return FrozenDict({zone_id: zone for zone, zone_id in self.zones.items() if zone_id})

    @property
    def sparse_zones(self) -> tuple[str, ...]:
        """Zones that offer few instance types, where real clusters rarely have a subnet."""
        offered = Counter(zone for zones in self.offered_zones.values() for zone in zones)
        minimum = _MIN_OFFERED_SHARE * max(offered.values(), default=0)
        return tuple(zone for zone in self.zones if offered[zone] < minimum)


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All instance types of the recorded regions."""

    recorded: str
    """Date of recording, YYYY-MM-DD."""
    source: str
    instance_types: tuple[Ec2InstanceType, ...]
    """Sorted by name."""
    regions: FrozenDict[str, Region]

    def instance_types_in(self, region: str) -> tuple[Ec2InstanceType, ...]:
        """Return the instance types that any zone of ``region`` offers; none if unknown."""
        offered = self.regions[region].offered_zones if region in self.regions else {}
        return tuple(facts for facts in self.instance_types if offered.get(facts.name))
