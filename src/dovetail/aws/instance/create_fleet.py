"""CreateFleet: encoding of the request, decoding of the response.

A fleet of type ``instant`` launches synchronously: the response lists the
instances that were launched, and an error for every override that was not.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.aws.errors import ErrorKind, error_kind
from dovetail.aws.launchtemplate.template_data import encode_tags
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.nodeclaim import NodeClaim

_PRICE_OVERLAY: Final = "karpenter.sh/price-overlay-applied"
_CAPACITY_BLOCK: Final = "capacity-block"
_INTERRUPTIBLE: Final = "reserved-capacity"


class FleetTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template and the offerings that it can be launched as."""

    name: str
    ami_id: str
    choices: tuple[LaunchChoice, ...]


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A number of instances, each of any of several offerings."""

    count: int
    templates: tuple[FleetTemplate, ...]
    subnets: Mapping[str, str]
    """Zone → subnet id."""
    capacity_type: str
    tags: Mapping[str, str]
    """Tags of the instances, their volumes and the fleet."""
    claim_tags: Mapping[str, str]
    """Tags of the instances only: the claims that they are launched for."""
    reservation: CapacityReservation | None = None
    """Any of the reservations; all in one request are of one type."""
    prioritized: bool = False
    """Our prices decide which offering EC2 takes, instead of its own."""
    context: str = ""


class LaunchedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of the response."""

    id: str
    instance_type: str
    zone: str
    subnet_id: str
    ami_id: str


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one override."""

    code: str
    message: str
    instance_type: str
    zone: str
    subnet_id: str

    @property
    def is_unavailable_offering(self) -> bool:
        """Return True if another offering may succeed."""
        kind = error_kind(self.code)
        # Without type and zone the error would mark every offering unavailable.
        has_offering = bool(self.instance_type and self.zone)
        return kind is ErrorKind.SPOT_ROLE_MISSING or (
            kind is ErrorKind.INSUFFICIENT_CAPACITY and has_offering
        )


class FleetResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Launched instances, sorted by id, and the errors."""

    instances: tuple[LaunchedInstance, ...] = ()
    errors: tuple[FleetError, ...] = ()


def has_price_overlay(claim: NodeClaim) -> bool:
    """Return True if NodeOverlays set the prices that the claim was planned with."""
    return _PRICE_OVERLAY in claim.annotations


def encode_fleet_request(request: FleetRequest) -> dict[str, Any]:
    """Return the parameters of CreateFleet without the client token.

    Equal requests have equal parameters, whichever process makes them.
    """
    tags = encode_tags(request.tags)
    parameters: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template.name, "Version": "$Latest"},
                "Overrides": _encode_overrides(template, request.subnets),
            }
            for template in request.templates
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": _target_capacity_type(request),
        },
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": encode_tags({**request.tags, **request.claim_tags})},
            {"ResourceType": "volume", "Tags": tags},
            {"ResourceType": "fleet", "Tags": tags},
        ],
        **_allocation_options(request),
    }
    if request.context:
        parameters["Context"] = request.context
    return parameters


def client_token(parameters: Mapping[str, Any], attempt: int) -> str:
    """Return the client token, which makes CreateFleet idempotent.

    It is a hash of the parameters and the attempt. EC2 answers a repeated token
    with the first response and launches nothing. The parameters contain the
    claims, so two launches never share a token.
    """
    text = json.dumps([parameters, attempt], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def decode_fleet_response(response: Mapping[str, Any], subnet_zones: Mapping[str, str]) -> FleetResponse:
    """Decode the response of CreateFleet; ``subnet_zones`` is subnet id → zone."""
    instances = [
        LaunchedInstance(
            id=instance_id,
            instance_type=group.get("InstanceType", ""),
            zone=_zone(overrides, subnet_zones),
            subnet_id=overrides.get("SubnetId", ""),
            ami_id=overrides.get("ImageId", ""),
        )
        for group in response.get("Instances", ())
        for overrides in (_overrides(group),)
        for instance_id in group.get("InstanceIds", ())
    ]
    errors = [
        FleetError(
            code=error.get("ErrorCode", ""),
            message=error.get("ErrorMessage", ""),
            instance_type=overrides.get("InstanceType", ""),
            zone=_zone(overrides, subnet_zones),
            subnet_id=overrides.get("SubnetId", ""),
        )
        for error in response.get("Errors", ())
        for overrides in (_overrides(error),)
    ]
    return FleetResponse(
        instances=tuple(sorted(instances, key=lambda instance: instance.id)), errors=tuple(errors)
    )


def format_errors(errors: Iterable[FleetError]) -> str:
    """Return code and message of all errors, without duplicates."""
    return "; ".join(dict.fromkeys(f"{error.code}: {error.message}" for error in errors))


def _overrides(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    overrides: Mapping[str, Any] = entry.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return overrides


def _zone(overrides: Mapping[str, Any], subnet_zones: Mapping[str, str]) -> str:
    zone: str = overrides.get("AvailabilityZone", "")
    return zone or subnet_zones.get(overrides.get("SubnetId", ""), "")


def _encode_overrides(template: FleetTemplate, subnets: Mapping[str, str]) -> list[dict[str, Any]]:
    # Choices are sorted by price: the first of a type and zone is its cheapest.
    choices: dict[tuple[str, str], LaunchChoice] = {}
    for choice in template.choices:
        choices.setdefault((choice.instance_type.name, choice.offering.zone), choice)
    return [
        {
            "InstanceType": name,
            "SubnetId": subnets[zone],
            "AvailabilityZone": zone,
            "ImageId": template.ami_id,
            "Priority": choice.offering.price,
        }
        for (name, zone), choice in choices.items()
    ]


def _target_capacity_type(request: FleetRequest) -> str:
    if request.capacity_type == label_keys.SPOT:
        return "spot"
    reservation = request.reservation
    if reservation is not None and reservation.reservation_type == _CAPACITY_BLOCK:
        return _CAPACITY_BLOCK
    if reservation is not None and reservation.interruptible:
        return _INTERRUPTIBLE
    return "on-demand"


def _allocation_options(request: FleetRequest) -> dict[str, Any]:
    target = _target_capacity_type(request)
    if target == "spot":
        strategy = "capacity-optimized-prioritized" if request.prioritized else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": strategy}}
    if target == "on-demand":
        strategy = "prioritized" if request.prioritized else "lowest-price"
        return {"OnDemandOptions": {"AllocationStrategy": strategy}}
    if target == _INTERRUPTIBLE:
        types: Sequence[str] = ["interruptible-capacity-reservation"]
        return {"ReservedCapacityOptions": {"ReservationTypes": types}}
    return {}
