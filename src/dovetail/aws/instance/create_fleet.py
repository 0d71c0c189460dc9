"""CreateFleet: what is asked, and what is answered."""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.aws.errors import Kind, kind_of
from dovetail.aws.launchtemplate.template_data import as_list
from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.nodeclaim import NodeClaim

_PRICE_OVERLAY: Final = "karpenter.sh/price-overlay-applied"
_CAPACITY_BLOCK: Final = "capacity-block"
_INTERRUPTIBLE: Final = "reserved-capacity"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template and what it may be launched as."""

    template: str
    image: str
    choices: tuple[Choice, ...]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """So many machines, any of several."""

    count: int
    configs: tuple[Config, ...]
    subnets: Mapping[str, str]
    """Zone → the subnet to use there."""
    capacity_type: str
    tags: Mapping[str, str]
    """Of the instances, their volumes and the fleet."""
    lists: Mapping[str, str]
    """Of the instances only: for whom they are."""
    reservation: CapacityReservation | None = None
    """What is reserved is of one kind in one order; this is one of them."""
    priced_by_overlay: bool = False
    context: str = ""


class Bought(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of the answer."""

    id: str
    instance_type: str
    zone: str
    subnet: str
    image: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why one of the overrides was not taken."""

    code: str
    message: str
    instance_type: str
    zone: str
    subnet: str

    @property
    def is_scarcity(self) -> bool:
        kind = kind_of(self.code)
        # Without its place a shortage would be taken for one of everything.
        is_placed = bool(self.instance_type and self.zone)
        return kind is Kind.NO_SPOT_ROLE or (kind is Kind.SCARCE and is_placed)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was bought, by instance id, and what could not be."""

    bought: tuple[Bought, ...] = ()
    failures: tuple[Failure, ...] = ()


def is_priced_by_overlay(claim: NodeClaim) -> bool:
    """Tell whether the prices behind the claim are the user's own: then they decide alone."""
    return _PRICE_OVERLAY in claim.annotations


def request_of(order: Order) -> dict[str, Any]:
    """Return the parameters of CreateFleet, but for the client token."""
    tags = as_list(order.tags)
    request: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": config.template,
                    "Version": "$Latest",
                },
                "Overrides": _overrides(config, order.subnets),
            }
            for config in order.configs
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": order.count,
            "DefaultTargetCapacityType": _target(order),
        },
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": as_list({**order.tags, **order.lists})},
            {"ResourceType": "volume", "Tags": tags},
            {"ResourceType": "fleet", "Tags": tags},
        ],
        **_options(order),
    }
    if order.context:
        request["Context"] = order.context
    return request


def token_of(request: Mapping[str, Any], attempt: int) -> str:
    """Return a client token: the same request of the same attempt never buys twice.

    The request lists its claims, so that two launches never share a token.
    """
    text = json.dumps([request, attempt], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def answer_of(response: Mapping[str, Any], subnets: Mapping[str, str]) -> Answer:
    """Read what CreateFleet returned; ``subnets`` is subnet → zone."""
    bought = [
        Bought(
            id=instance_id,
            instance_type=one.get("InstanceType", ""),
            zone=_zone(overrides, subnets),
            subnet=overrides.get("SubnetId", ""),
            image=overrides.get("ImageId", ""),
        )
        for one in response.get("Instances", ())
        for overrides in (_overrides_of(one),)
        for instance_id in one.get("InstanceIds", ())
    ]
    failures = [
        Failure(
            code=one.get("ErrorCode", ""),
            message=one.get("ErrorMessage", ""),
            instance_type=overrides.get("InstanceType", ""),
            zone=_zone(overrides, subnets),
            subnet=overrides.get("SubnetId", ""),
        )
        for one in response.get("Errors", ())
        for overrides in (_overrides_of(one),)
    ]
    return Answer(bought=tuple(sorted(bought, key=lambda one: one.id)), failures=tuple(failures))


def told_of(failures: Iterable[Failure]) -> str:
    """Return all that went wrong, each thing once."""
    return "; ".join(dict.fromkeys(f"{one.code}: {one.message}" for one in failures))


def _overrides_of(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = one.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return found


def _zone(overrides: Mapping[str, Any], subnets: Mapping[str, str]) -> str:
    zone: str = overrides.get("AvailabilityZone", "")
    return zone or subnets.get(overrides.get("SubnetId", ""), "")


def _overrides(config: Config, subnets: Mapping[str, str]) -> list[dict[str, Any]]:
    places: dict[tuple[str, str], Choice] = {}
    for choice in config.choices:
        places.setdefault((choice.instance_type.name, choice.offering.zone), choice)
    return [
        {
            "InstanceType": name,
            "SubnetId": subnets[zone],
            "AvailabilityZone": zone,
            "ImageId": config.image,
            "Priority": choice.offering.price,
        }
        for (name, zone), choice in places.items()
    ]


def _target(order: Order) -> str:
    if order.capacity_type == label_keys.SPOT:
        return "spot"
    held = order.reservation
    if held is not None and held.kind == _CAPACITY_BLOCK:
        return _CAPACITY_BLOCK
    if held is not None and held.interruptible:
        return _INTERRUPTIBLE
    return "on-demand"


def _options(order: Order) -> dict[str, Any]:
    target = _target(order)
    if target == "spot":
        prioritized, usual = "capacity-optimized-prioritized", "price-capacity-optimized"
        strategy = prioritized if order.priced_by_overlay else usual
        return {"SpotOptions": {"AllocationStrategy": strategy}}
    if target == "on-demand":
        strategy = "prioritized" if order.priced_by_overlay else "lowest-price"
        return {"OnDemandOptions": {"AllocationStrategy": strategy}}
    if target == _INTERRUPTIBLE:
        kinds: Sequence[str] = ["interruptible-capacity-reservation"]
        return {"ReservedCapacityOptions": {"ReservationTypes": kinds}}
    return {}
