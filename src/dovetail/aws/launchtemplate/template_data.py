"""Contents of launch templates: RequestLaunchTemplateData."""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig, UserDataContext
from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import ConnectionTracking, NetworkInterface
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import PODS, Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT

NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"
_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"
_EFA_ONLY: Final = "efa-only"
_PREFIX: Final = f"{label_keys.AWS_DOMAIN}/"


class TemplateVariant(msgspec.Struct, frozen=True, kw_only=True):
    """Properties in which the templates of one launch differ."""

    ami: LaunchAmi
    max_pods: int
    kube_reserved: Resources | None = None
    system_reserved: Resources | None = None
    """None: those of the node class."""
    efas: int = 0
    reservation: str = ""


def select_variant(
    choice: LaunchChoice, claim: NodeClaim, launch_config: LaunchConfig
) -> TemplateVariant | None:
    """Return the variant that a launch choice needs; None if no AMI supports it."""
    instance_type = choice.instance_type
    ami = next((ami for ami in launch_config.amis if ami.supports(instance_type)), None)
    if ami is None:
        return None
    capacity = instance_type.capacity
    return TemplateVariant(
        ami=ami,
        max_pods=capacity.get(PODS, 0),
        kube_reserved=instance_type.kube_reserved,
        system_reserved=instance_type.system_reserved,
        efas=capacity.get(EFA, 0) if claim.requests.get(EFA) else 0,
        reservation=choice.offering.reservation_id,
    )


def encode_template_data(
    variant: TemplateVariant,
    *,
    claim: NodeClaim,
    capacity_type: str,
    launch_config: LaunchConfig,
    tags: Mapping[str, str],
) -> dict[str, Any]:
    """Return RequestLaunchTemplateData.

    Equal inputs give equal data: the template's name is a hash of it.
    """
    launch = launch_config.node_class.launch
    user_data = launch_config.user_data(user_data_context(variant, claim, capacity_type))
    tagged_types = ["network-interface"]
    if capacity_type == label_keys.SPOT:
        tagged_types.append("spot-instances-request")
    data: dict[str, Any] = {
        **launch_config.template,
        "ImageId": variant.ami.id,
        "UserData": b64encode(user_data).decode(),
        "IamInstanceProfile": {"Name": launch_config.instance_profile},
        "NetworkInterfaces": [
            _encode_interface(interface, launch_config)
            for interface in _interfaces(launch.network_interfaces, variant.efas)
        ],
        "Placement": {
            **launch_config.template.get("Placement", {}),
            **_partition(claim, launch_config.node_class),
            "Tenancy": _tenancy(claim),
        },
        "TagSpecifications": [
            {"ResourceType": resource_type, "Tags": encode_tags(tags)} for resource_type in tagged_types
        ],
    }
    if launch_config.manages_reservations:
        data |= _reservation_target(_find_reservation(variant.reservation, launch_config))
    if claim.requests.get(NITRO_SANDBOX):
        data["EnclaveOptions"] = {"Enabled": True}
    return data


def template_name(data: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Return the name of a template: a hash of its contents."""
    text = json.dumps([data, tags], sort_keys=True, separators=(",", ":"))
    return _PREFIX + str(int.from_bytes(sha256(text.encode()).digest()[:8]))


def encode_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in the format of EC2, sorted by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def user_data_context(variant: TemplateVariant, claim: NodeClaim, capacity_type: str) -> UserDataContext:
    """Return the inputs of user data that depend on the claim and the variant."""
    taints = (*claim.taints, *claim.startup_taints)
    if UNREGISTERED_TAINT not in taints:
        taints = (*taints, UNREGISTERED_TAINT)
    return UserDataContext(
        ami=variant.ami,
        max_pods=variant.max_pods,
        kube_reserved=variant.kube_reserved,
        system_reserved=variant.system_reserved,
        labels=FrozenDict({**claim.labels, label_keys.CAPACITY_TYPE: capacity_type}),
        taints=taints,
    )


def placement_labels(claim: NodeClaim, node_class: EC2NodeClass) -> dict[str, str]:
    """Return the placement group labels of a claim.

    An empty partition is chosen by EC2 and becomes known after the launch.
    """
    group = node_class.resolved.placement_group
    if not group.id:
        return {}
    labels = {label_keys.PLACEMENT_GROUP_ID: group.id}
    if group.partition_count:
        labels[label_keys.PLACEMENT_GROUP_PARTITION] = _required_partition(claim, node_class)
    return labels


def _partition(claim: NodeClaim, node_class: EC2NodeClass) -> dict[str, int]:
    partition = _required_partition(claim, node_class)
    return {"PartitionNumber": int(partition)} if partition else {}


def _required_partition(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """Return the first partition that a claim allows; empty if it allows all."""
    requirement = Requirements.from_specs(claim.requirements).get_or_exists(
        label_keys.PLACEMENT_GROUP_PARTITION
    )
    count = node_class.resolved.placement_group.partition_count
    partitions = [str(number) for number in range(1, count + 1)]
    allowed = [partition for partition in partitions if requirement.has(partition)]
    return "" if allowed == partitions else next(iter(allowed), "")


def _tenancy(claim: NodeClaim) -> str:
    allowed = Requirements.from_specs(claim.requirements).get_or_exists(_TENANCY)
    return "default" if allowed.has("default") else "dedicated"


def _interfaces(specified: tuple[NetworkInterface, ...], efas: int) -> tuple[NetworkInterface, ...]:
    """Return the interfaces to attach: as specified, or one per EFA, or one."""
    if specified:
        return specified
    if efas:
        return tuple(NetworkInterface(card=card, device=1 if card else 0, kind="efa") for card in range(efas))
    return (NetworkInterface(kind=""),)


def _encode_interface(interface: NetworkInterface, launch_config: LaunchConfig) -> dict[str, Any]:
    launch = launch_config.node_class.launch
    encoded: dict[str, Any] = {"DeviceIndex": interface.device, "Groups": list(launch_config.security_groups)}
    if interface.kind:
        encoded |= {"NetworkCardIndex": interface.card, "InterfaceType": interface.kind}
    if interface.kind == _EFA_ONLY:
        return encoded  # It has no IP address.
    if launch.associate_public_ip_address is not None:
        encoded["AssociatePublicIpAddress"] = launch.associate_public_ip_address
    if launch_config.ipv6:
        encoded |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    if launch.ip_prefix_count is not None:
        field = "Ipv6PrefixCount" if launch_config.ipv6 else "Ipv4PrefixCount"
        encoded[field] = launch.ip_prefix_count
    if launch.connection_tracking is not None:
        encoded["ConnectionTrackingSpecification"] = _encode_tracking(launch.connection_tracking)
    return encoded


def _encode_tracking(tracking: ConnectionTracking) -> dict[str, int]:
    timeouts = {
        "TcpEstablishedTimeout": tracking.tcp_established,
        "UdpStreamTimeout": tracking.udp_stream,
        "UdpTimeout": tracking.udp,
    }
    return {name: seconds for name, seconds in timeouts.items() if seconds is not None}


def _find_reservation(reservation_id: str, launch_config: LaunchConfig) -> CapacityReservation | None:
    if not reservation_id:
        return None
    reservations = launch_config.node_class.capacity_reservations
    return next((reservation for reservation in reservations if reservation.id == reservation_id), None)


def _reservation_target(reservation: CapacityReservation | None) -> dict[str, Any]:
    if reservation is None:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    target: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation.id},
        }
    }
    if reservation.reservation_type == "capacity-block":
        target["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    elif reservation.interruptible:
        target["InstanceMarketOptions"] = {"MarketType": "interruptible-capacity-reservation"}
    return target
