"""What goes into a launch template, in EC2's words."""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.aws.launchtemplate.launch_config import Boot, Image, Launchable
from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import ConnectionTracking, Interface
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import PODS
from dovetail.model.kube.taints import UNREGISTERED

NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"
_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"
_EFA_ONLY: Final = "efa-only"
_PREFIX: Final = f"{label_keys.AWS_DOMAIN}/"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """What makes machines of one launch need different templates."""

    image: Image
    max_pods: int
    efas: int = 0
    reservation: str = ""


def variant_of(choice: Choice, claim: NodeClaim, launchable: Launchable) -> Variant | None:
    """Return the template that a choice needs; None when no image boots it."""
    one = choice.instance_type
    image = next((image for image in launchable.images if image.boots(one)), None)
    if image is None:
        return None
    return Variant(
        image=image,
        max_pods=one.capacity.get(PODS, 0),
        efas=one.capacity.get(EFA, 0) if claim.requests.get(EFA) else 0,
        reservation=choice.offering.reservation_id,
    )


def template_data(
    variant: Variant,
    *,
    claim: NodeClaim,
    capacity_type: str,
    launchable: Launchable,
    tags: Mapping[str, str],
) -> dict[str, Any]:
    """Return RequestLaunchTemplateData."""
    launch = launchable.node_class.launch
    user_data = launchable.user_data(boot_of(variant, claim, capacity_type))
    tagged = ["network-interface"]
    if capacity_type == label_keys.SPOT:
        tagged.append("spot-instances-request")
    data: dict[str, Any] = {
        **launchable.template,
        "ImageId": variant.image.id,
        "UserData": b64encode(user_data).decode(),
        "IamInstanceProfile": {"Name": launchable.instance_profile},
        "NetworkInterfaces": [
            _interface(one, launchable) for one in _places(launch.interfaces, variant.efas)
        ],
        "Placement": {
            **launchable.template.get("Placement", {}),
            **_partition(claim, launchable.node_class),
            "Tenancy": _tenancy(claim),
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": as_list(tags)} for kind in tagged],
    }
    if launchable.reserved_capacity:
        data |= _reserving(_reservation(variant.reservation, launchable))
    if claim.requests.get(NITRO_SANDBOX):
        data["EnclaveOptions"] = {"Enabled": True}
    return data


def name_of(data: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Return a template's name: the same for the same contents, whoever makes it."""
    text = json.dumps([data, tags], sort_keys=True, separators=(",", ":"))
    return _PREFIX + str(int.from_bytes(sha256(text.encode()).digest()[:8]))


def as_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags the way EC2 writes them, in the order of their keys."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def boot_of(variant: Variant, claim: NodeClaim, capacity_type: str) -> Boot:
    """Return what the user data of a machine is made of."""
    taints = (*claim.taints, *claim.startup_taints)
    if UNREGISTERED not in taints:
        taints = (*taints, UNREGISTERED)
    return Boot(
        image=variant.image,
        max_pods=variant.max_pods,
        labels=FrozenDict({**claim.labels, label_keys.CAPACITY_TYPE: capacity_type}),
        taints=taints,
    )


def placement_labels(claim: NodeClaim, node_class: NodeClass) -> dict[str, str]:
    """Return what a claim is to say of its placement group.

    An empty partition is one that EC2 chooses, and tells later.
    """
    group = node_class.found.placement_group
    if not group.id:
        return {}
    labels = {label_keys.PLACEMENT_GROUP_ID: group.id}
    if group.partitions:
        labels[label_keys.PLACEMENT_GROUP_PARTITION] = _wanted_partition(claim, node_class)
    return labels


def _partition(claim: NodeClaim, node_class: NodeClass) -> dict[str, int]:
    wanted = _wanted_partition(claim, node_class)
    return {"PartitionNumber": int(wanted)} if wanted else {}


def _wanted_partition(claim: NodeClaim, node_class: NodeClass) -> str:
    """Return the first partition that a claim allows; nothing where it allows all."""
    known = Requirements.of_specs(claim.requirements).allowed(label_keys.PLACEMENT_GROUP_PARTITION)
    every = [str(one + 1) for one in range(node_class.found.placement_group.partitions)]
    allowed = [one for one in every if known.has(one)]
    return "" if allowed == every else next(iter(allowed), "")


def _tenancy(claim: NodeClaim) -> str:
    allowed = Requirements.of_specs(claim.requirements).allowed(_TENANCY)
    return "default" if allowed.has("default") else "dedicated"


def _places(explicit: tuple[Interface, ...], efas: int) -> tuple[Interface, ...]:
    """Return the interfaces to attach: as listed, or one for each adapter, or just one."""
    if explicit:
        return explicit
    if efas:
        return tuple(
            Interface(card=card, device=1 if card else 0, kind="efa") for card in range(efas)
        )
    return (Interface(kind=""),)


def _interface(place: Interface, launchable: Launchable) -> dict[str, Any]:
    launch = launchable.node_class.launch
    shown: dict[str, Any] = {
        "DeviceIndex": place.device,
        "Groups": list(launchable.security_groups),
    }
    if place.kind:
        shown |= {"NetworkCardIndex": place.card, "InterfaceType": place.kind}
    if place.kind == _EFA_ONLY:
        return shown  # Has no address of its own.
    if launch.public_address is not None:
        shown["AssociatePublicIpAddress"] = launch.public_address
    if launchable.ipv6:
        shown |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    if launch.ip_prefixes is not None:
        shown["Ipv6PrefixCount" if launchable.ipv6 else "Ipv4PrefixCount"] = launch.ip_prefixes
    if launch.connection_tracking is not None:
        shown["ConnectionTrackingSpecification"] = _tracking(launch.connection_tracking)
    return shown


def _tracking(asked: ConnectionTracking) -> dict[str, int]:
    known = {
        "TcpEstablishedTimeout": asked.tcp_established,
        "UdpStreamTimeout": asked.udp_stream,
        "UdpTimeout": asked.udp,
    }
    return {name: seconds for name, seconds in known.items() if seconds is not None}


def _reservation(wanted: str, launchable: Launchable) -> CapacityReservation | None:
    held = launchable.node_class.reservations
    return next((one for one in held if one.id == wanted), None) if wanted else None


def _reserving(held: CapacityReservation | None) -> dict[str, Any]:
    if held is None:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    shown: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": held.id},
        }
    }
    if held.kind == "capacity-block":
        shown["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    elif held.interruptible:
        shown["InstanceMarketOptions"] = {"MarketType": "interruptible-capacity-reservation"}
    return shown
