"""How the instances of an EC2NodeClass are started, and what it selects."""

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import RequirementSpec


class SelectorTerm(msgspec.Struct, frozen=True, kw_only=True):
    """One way to find things in the account; all that it says must hold."""

    id: str = ""
    name: str = ""
    tags: FrozenDict[str, str] = EMPTY
    """The value ``*`` means any."""
    owner: str = ""
    alias: str = ""
    """Images only: ``al2023@latest``."""
    ssm_parameter: str = ""
    match_criteria: str = ""
    """Capacity reservations only: ``open`` or ``targeted``."""


class MetadataOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How instances reach the instance metadata service; the CRD's defaults."""

    endpoint: str = "enabled"
    ipv6: str = "disabled"
    hop_limit: int = 1
    tokens: str = "required"


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface that is asked for by its place."""

    card: int = 0
    device: int = 0
    kind: str = "interface"
    """``interface`` or ``efa-only``."""


class ConnectionTracking(msgspec.Struct, frozen=True, kw_only=True):
    """After how many seconds idle connections are forgotten; None as EC2 likes."""

    tcp_established: int | None = None
    udp_stream: int | None = None
    udp: int | None = None


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a class says that only launching looks at."""

    subnets: tuple[SelectorTerm, ...] = ()
    security_groups: tuple[SelectorTerm, ...] = ()
    images: tuple[SelectorTerm, ...] = ()
    reservations: tuple[SelectorTerm, ...] = ()
    placement_group: SelectorTerm | None = None
    role: str = ""
    instance_profile: str = ""
    user_data: str | None = None
    tags: FrozenDict[str, str] = EMPTY
    metadata: MetadataOptions = MetadataOptions()
    interfaces: tuple[Interface, ...] = ()
    connection_tracking: ConnectionTracking | None = None
    detailed_monitoring: bool | None = None
    public_address: bool | None = None
    """None: as the subnet says."""
    ip_prefixes: int | None = None
    nested_virtualization: str = ""
    context: str = ""


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet that a class selects."""

    id: str
    zone: str = ""
    zone_id: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that a class selects, and the instance types that it is for."""

    id: str
    name: str = ""
    deprecated: bool = False
    requirements: tuple[RequirementSpec, ...] = ()


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A placement group, as EC2 describes it."""

    id: str = ""
    strategy: str = ""
    """``cluster``, ``spread`` or ``partition``."""
    partitions: int = 0
    """Of a partition placement group."""


NO_GROUP = PlacementGroup()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a class selects in the account, from its status."""

    subnets: tuple[Subnet, ...] = ()
    """Most free addresses first."""
    security_groups: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    """Newest first."""
    instance_profile: str = ""
    placement_group: PlacementGroup = NO_GROUP
    """The status has no place for it, so that only who looked it up knows it."""
