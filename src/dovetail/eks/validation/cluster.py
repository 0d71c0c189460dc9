"""Validation of the region, the Kubernetes version, tags and node groups."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import suggest
from dovetail.core.instancetypes.labels import architecture_of
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError
from dovetail.eks.config.node_groups import WINDOWS_DISK_GIB, ControllerNodeGroup, NodeGroup
from dovetail.eks.desired.names import DISCOVERY, uses_existing_cluster
from dovetail.eks.desired.node_groups import accelerator_of
from dovetail.eks.desired.security_groups import creates_node_security_group
from dovetail.eks.plan.resource import FILE_TAGS_TAG, NAME_TAG, OWNERSHIP_TAG, REGION_TAG
from dovetail.eks.versions import VERSIONS
from dovetail.model.cloud.ec2_catalog import Catalog

UNRECORDED_REGIONS: Final = frozenset(
    "ap-east-2 ap-southeast-6 ap-southeast-7 cn-north-1 cn-northwest-1 mx-central-1 us-gov-east-1"
    " us-gov-west-1".split()
)
"""Regions that the bundled catalogue lacks; files must name their zones."""
_UNSUPPORTED_PARTITIONS: Final = ("us-iso", "eu-iso", "eusc-")
"""Prefixes of regions in partitions whose service principals are not known here."""
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Domains of Kubernetes whose labels a kubelet may set on its node."""
_TAG: Final = re.compile(r"[\w\s.:/=+@-]*")
_RESERVED_TAGS: Final = (OWNERSHIP_TAG, REGION_TAG, NAME_TAG, FILE_TAGS_TAG)
MAX_TAGS: Final = 40
"""AWS allows 50 per resource; we add up to ten."""


def validate_region(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate the region and the Kubernetes version."""
    if config.region not in catalog.regions and config.region not in UNRECORDED_REGIONS:
        hint = _region_hint(config.region, catalog)
        yield ("region",), f"{config.region!r} is not a region{hint}"
    if config.version not in VERSIONS:
        message = f"EKS does not support {config.version}; it supports {VERSIONS[0]} to {VERSIONS[-1]}"
        yield ("version",), message


def _region_hint(name: str, catalog: Catalog) -> str:
    if name.startswith(_UNSUPPORTED_PARTITIONS):
        return " that is supported: isolated partitions and the European Sovereign Cloud are not"
    # Transposed letters first: by edit distance us-esat-1 is closer to us-west-1.
    known = sorted({*catalog.regions, *UNRECORDED_REGIONS})
    transposed = [region for region in known if sorted(region) == sorted(name)]
    if transposed:
        return f"; did you mean {transposed[0]!r}?"
    return suggest(name, known)


def validate_tags(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate tags by AWS's rules, and that none is reserved for our use."""
    yield from _validate_tags(("tags",), config.tags)
    path, additional = ("nodeSecurityGroup", "tags"), config.node_security_group.tags
    yield from _validate_tags(path, additional)
    if not additional:
        return
    if not creates_node_security_group(config):
        yield path, "has no effect: the security groups of nodes exist already; remove it, or tag them"
    if DISCOVERY in additional:
        yield (*path, DISCOVERY), "is reserved: node classes select the security group by this tag; remove it"
    together = {**config.tags, **additional}
    if len(config.tags) <= MAX_TAGS and len(additional) <= MAX_TAGS < len(together):
        yield path, f"has {len(together)} tags, with those of tags; at most {MAX_TAGS} are allowed"


def _validate_tags(path: FieldPath, tags: Mapping[str, str]) -> Iterator[FieldError]:
    if len(tags) > MAX_TAGS:
        yield path, f"has {len(tags)} tags; at most {MAX_TAGS} are allowed"
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            yield (*path, key), "begins with 'aws:', which is reserved for AWS"
        elif key in _RESERVED_TAGS or key.startswith("kubernetes.io/cluster"):
            yield (*path, key), "is reserved: dovetail finds resources by this tag; remove it"
        if len(key) > 128 or len(value) > 256:
            yield (*path, key), "is too long: 128 characters for a key, 256 for a value"
        if _TAG.fullmatch(key) is None or _TAG.fullmatch(value) is None:
            yield (*path, key), "is not a valid IAM tag: letters, digits, spaces and _.:/=+-@"


def validate_node_groups(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate sizes, instance types and names of node groups."""
    if config.node_groups and config.vpc is None and uses_existing_cluster(config):
        yield ("nodeGroups",), "need the subnets of the existing cluster: set vpc.existing.subnets"
    groups: list[tuple[FieldPath, NodeGroup]] = []
    if isinstance(config.home, ControllerNodeGroup):
        groups.append((("home",), config.home))
    groups.extend((("nodeGroups", number), group) for number, group in enumerate(config.node_groups))
    names: set[str] = set()
    for path, group in groups:
        if group.name in names:
            yield (*path, "name"), f"there are two node groups named {group.name}"
        names.add(group.name)
        if not group.min <= group.desired <= group.max:
            message = f"min {group.min}, desired {group.desired}, max {group.max} are not ascending"
            yield (*path, "desired"), message
        for key in group.labels:
            if _is_restricted_label(key):
                message = "EKS does not allow labels of kubernetes.io and k8s.io on node groups"
                yield (*path, "labels", key), message
        yield from _validate_instance_types(path, group, config.region, catalog)
        yield from _validate_windows(path, group, config)
        yield from _validate_hardware(path, group, config, catalog)


def _validate_windows(path: FieldPath, group: NodeGroup, config: ClusterConfig) -> Iterator[FieldError]:
    """Validate what Windows requires."""
    if not group.is_windows:
        return
    if isinstance(group, ControllerNodeGroup):
        yield (*path, "image"), "must be Linux: CoreDNS and the controller run on these nodes"
    if group.architecture != "amd64":
        yield (*path, "architecture"), f"{group.architecture} is not possible: Windows runs on amd64 only"
    if config.ip_family == "ipv6":
        yield (*path, "image"), "Windows is not possible with ipFamily: ipv6"
    if group.volume_gib < WINDOWS_DISK_GIB:
        message = f"{group.disk_gib} is too small for Windows: at least {WINDOWS_DISK_GIB}"
        yield (*path, "diskGib"), message
    if not config.addons.vpc_cni.enabled:
        yield ("addons", "vpc-cni"), "must be enabled: Windows nodes get addresses for pods from it"


def _validate_hardware(
    path: FieldPath, group: NodeGroup, config: ClusterConfig, catalog: Catalog
) -> Iterator[FieldError]:
    """Validate that one AMI, and the network, work on all instance types of a group."""
    types = {instance_type.name: instance_type for instance_type in catalog.instance_types}
    requirement = "Windows" if group.is_windows else "ipFamily: ipv6" if config.ip_family == "ipv6" else ""
    kinds: set[str | None] = set()
    for number, name in enumerate(group.instance_types):
        if name not in types:
            continue
        kinds.add(accelerator_of([name], catalog))
        if requirement and types[name].hypervisor == "xen":
            message = f"{name} is not possible with {requirement}, which requires the Nitro system"
            yield (*path, "instanceTypes", number), message
    if len(kinds) > 1:
        message = "mixes types with and without GPUs or Neuron, which need different AMIs: make two groups"
        yield (*path, "instanceTypes"), message


def _is_restricted_label(key: str) -> bool:
    """Return True if a kubelet may not set the label on its node."""
    domain = key.rpartition("/")[0]
    is_kubernetes = any(domain == end or domain.endswith(f".{end}") for end in ("kubernetes.io", "k8s.io"))
    allowed = any(domain == end or domain.endswith(f".{end}") for end in _KUBELET_DOMAINS)
    return is_kubernetes and not allowed


def _validate_instance_types(
    path: FieldPath, group: NodeGroup, region_name: str, catalog: Catalog
) -> Iterator[FieldError]:
    region = catalog.regions.get(region_name)
    if region is None:
        return
    by_name = {instance_type.name: instance_type for instance_type in catalog.instance_types}
    for number, name in enumerate(group.instance_types):
        type_path = (*path, "instanceTypes", number)
        if name not in by_name:
            yield type_path, f"{name!r} is not an instance type{suggest(name, by_name)}"
        elif not region.offered_zones.get(name):
            yield type_path, f"{name} is not offered in {region_name}"
        elif architecture_of(by_name[name]) != group.architecture:
            architecture = architecture_of(by_name[name])
            message = f"{name} is {architecture}, the group is {group.architecture}; set architecture"
            yield type_path, message
