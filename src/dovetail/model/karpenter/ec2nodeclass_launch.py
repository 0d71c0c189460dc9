"""EC2NodeClass: launch settings of its instances, and the resources it selects.

``core.nodeclass.hash`` hashes SelectorTerm, MetadataOptions, NetworkInterface and
ConnectionTracking with their field names. Renaming a field changes the hash and
needs a new hash version.
"""

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import RequirementSpec


class SelectorTerm(msgspec.Struct, frozen=True, kw_only=True):
    """Selector of AWS resources; a resource must match all fields that are set."""

    id: str = ""
    name: str = ""
    tags: FrozenDict[str, str] = EMPTY
    """Tag → value; ``*`` matches any value."""
    owner: str = ""
    alias: str = ""
    """AMIs only: ``al2023@latest``."""
    ssm_parameter: str = ""
    match_criteria: str = ""
    """Capacity reservations only: ``open`` or ``targeted``."""


class MetadataOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the instance metadata service; defaults are those of the CRD."""

    endpoint: str = "enabled"
    ipv6: str = "disabled"
    hop_limit: int = 1
    tokens: str = "required"


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface by network card index and device index."""

    card: int = 0
    device: int = 0
    kind: str = "interface"
    """``interface`` or ``efa-only``."""


class ConnectionTracking(msgspec.Struct, frozen=True, kw_only=True):
    """Idle timeouts of tracked connections in seconds; None: EC2's default."""

    tcp_established: int | None = None
    udp_stream: int | None = None
    udp: int | None = None


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an EC2NodeClass spec that only launching uses."""

    subnets: tuple[SelectorTerm, ...] = ()
    security_groups: tuple[SelectorTerm, ...] = ()
    amis: tuple[SelectorTerm, ...] = ()
    capacity_reservations: tuple[SelectorTerm, ...] = ()
    placement_group: SelectorTerm | None = None
    role: str = ""
    instance_profile: str = ""
    user_data: str | None = None
    tags: FrozenDict[str, str] = EMPTY
    metadata_options: MetadataOptions = MetadataOptions()
    network_interfaces: tuple[NetworkInterface, ...] = ()
    connection_tracking: ConnectionTracking | None = None
    detailed_monitoring: bool | None = None
    associate_public_ip_address: bool | None = None
    """None: the setting of the subnet applies."""
    ip_prefix_count: int | None = None
    nested_virtualization: str = ""
    context: str = ""


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet that the node class selects."""

    id: str
    zone: str = ""
    zone_id: str = ""


class Ami(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI that the node class selects, and requirements of its instance types."""

    id: str
    name: str = ""
    deprecated: bool = False
    requirements: tuple[RequirementSpec, ...] = ()


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A placement group, as EC2 describes it."""

    id: str = ""
    strategy: str = ""
    """``cluster``, ``spread`` or ``partition``."""
    partition_count: int = 0
    """Number of partitions of a partition placement group; 0 for other strategies."""


NO_PLACEMENT_GROUP = PlacementGroup()


class ResolvedResources(msgspec.Struct, frozen=True, kw_only=True):
    """AWS resources that the node class selects, from its status."""

    subnets: tuple[Subnet, ...] = ()
    """Sorted by free addresses, descending."""
    security_group_ids: tuple[str, ...] = ()
    amis: tuple[Ami, ...] = ()
    """Sorted by creation date, newest first."""
    instance_profile: str = ""
    placement_group: PlacementGroup = NO_PLACEMENT_GROUP
    """Set by the resolver only: the status has no field for it."""
