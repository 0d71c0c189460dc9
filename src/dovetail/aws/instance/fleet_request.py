"""Plan of a CreateFleet request: claims, launch templates, subnets, reservations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import claim_list_tags, cluster_tags, count_fitting_claims
from dovetail.aws.errors import RESERVATION_EXHAUSTED
from dovetail.aws.instance.create_fleet import (
    FleetRequest,
    FleetResponse,
    FleetTemplate,
    LaunchedInstance,
    has_price_overlay,
)
from dovetail.aws.launchtemplate.launch_config import LaunchConfig
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplate
from dovetail.aws.launchtemplate.template_data import TemplateVariant, encode_template_data, select_variant
from dovetail.aws.nodeclass.network import FreeAddresses
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import PODS
from dovetail.ports.cloudprovider import NodeClassNotReadyError

_MAX_LISTED_TYPES: Final = 3
_MAX_TEMPLATES: Final = 50
"""Limit of CreateFleet."""
_DEFAULT, _CAPACITY_BLOCK, _INTERRUPTIBLE = range(3)
"""Types of reservations, in order of preference."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A launched instance and the choice that it was launched as."""

    instance: LaunchedInstance
    choice: LaunchChoice


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for its launch templates."""

    claims: Sequence[NodeClaim]
    launch_config: LaunchConfig
    capacity_type: str
    tags: Mapping[str, str]
    subnets: Mapping[str, str]
    """Zone → subnet id."""
    variants: Mapping[TemplateVariant, Sequence[LaunchChoice]]

    def templates(self) -> list[LaunchTemplate]:
        """Return the launch templates of the request, one per variant."""
        return [
            LaunchTemplate(
                data=encode_template_data(
                    variant,
                    claim=self.claims[0],
                    capacity_type=self.capacity_type,
                    launch_config=self.launch_config,
                    tags=self.tags,
                ),
                tags=dict(self.tags),
            )
            for variant in self.variants
        ]

    def request(self, templates: Sequence[str]) -> FleetRequest:
        """Return the request; ``templates`` are the names of its launch templates."""
        claim = self.claims[0]
        relaxed = claim.annotations.get(label_keys.MIN_VALUES_RELAXED) == "true"
        return FleetRequest(
            count=len(self.claims),
            templates=tuple(
                FleetTemplate(name=name, ami_id=variant.ami.id, choices=tuple(choices))
                for name, (variant, choices) in zip(templates, self.variants.items(), strict=True)
            ),
            subnets=self.subnets,
            capacity_type=self.capacity_type,
            tags=self.tags,
            claim_tags=claim_list_tags(self.claims),
            reservation=self._any_reservation(),
            prioritized=has_price_overlay(claim),
            context="" if relaxed else self.launch_config.node_class.launch.context,
        )

    def assign(self, response: FleetResponse) -> list[Launch]:
        """Assign launched instances to claims, in the order of the claims.

        Instances are sorted by id. ``claim_tags.assign_instances`` uses the same
        order, so a process without the response assigns them in the same way.
        """
        choices = self._choices_by_offering()
        return [
            Launch(instance=instance, choice=choices[instance.instance_type, instance.zone])
            for instance in response.instances[: len(self.claims)]
        ]

    def exhausted_reservations(self, response: FleetResponse) -> set[str]:
        """Return the ids of reservations that EC2 reports as exhausted."""
        choices = self._choices_by_offering()
        offerings = [
            (error.instance_type, error.zone)
            for error in response.errors
            if error.code == RESERVATION_EXHAUSTED
        ]
        return {
            choices[offering].offering.reservation_id for offering in offerings if offering in choices
        } - {""}

    def _choices_by_offering(self) -> dict[tuple[str, str], LaunchChoice]:
        """Return (instance type, zone) → choice; zone "" if EC2 does not name it."""
        by_offering: dict[tuple[str, str], LaunchChoice] = {}
        for choices in self.variants.values():
            for choice in choices:
                name = choice.instance_type.name
                by_offering.setdefault((name, choice.offering.zone), choice)
                by_offering.setdefault((name, ""), choice)
        return by_offering

    def _any_reservation(self) -> CapacityReservation | None:
        ids = {variant.reservation for variant in self.variants}
        reservations = self.launch_config.node_class.capacity_reservations
        return next((reservation for reservation in reservations if reservation.id in ids), None)


def plan_fleet(
    claims: Sequence[NodeClaim],
    *,
    launch_config: LaunchConfig,
    choices: Sequence[LaunchChoice],
    addresses: FreeAddresses,
    cluster: str,
) -> FleetPlan:
    """Plan a request for as many of the claims as its tags can name."""
    claim, name = claims[0], launch_config.node_class.name
    tags = {**launch_config.node_class.launch.tags, **cluster_tags(cluster, pool=claim.pool, node_class=name)}
    subnets = _select_subnets(launch_config, addresses)
    variants: dict[TemplateVariant, list[LaunchChoice]] = {}
    for choice in choices:
        variant = select_variant(choice, claim, launch_config)
        if variant is None or choice.offering.zone not in subnets:
            continue
        # Choices are sorted by price: those beyond the limit are the most expensive.
        if variant in variants or len(variants) < _MAX_TEMPLATES:
            variants.setdefault(variant, []).append(choice)
    if not variants:
        names = sorted({choice.instance_type.name for choice in choices})
        raise NodeClassNotReadyError(
            f"EC2NodeClass {name} has no AMI or no subnet for the instance types of the claim"
            f" ({', '.join(names[:_MAX_LISTED_TYPES])} …)"
        )
    return FleetPlan(
        claims=claims[: count_fitting_claims(claims, tags)],
        launch_config=launch_config,
        capacity_type=choices[0].offering.capacity_type,
        tags=tags,
        subnets=subnets,
        variants=variants,
    )


def needed_addresses(request: FleetRequest) -> dict[str, int]:
    """Return subnet id → the least number of addresses that one instance needs there."""
    needed: dict[str, int] = {}
    for template in request.templates:
        for choice in template.choices:
            subnet_id = request.subnets[choice.offering.zone]
            pods = choice.instance_type.capacity.get(PODS, 0)
            needed[subnet_id] = min(pods, needed.get(subnet_id, pods))
    return needed


def launch_batch_key(claim: NodeClaim) -> tuple[Any, ...]:
    """Return what claims must have in common to share one request."""
    return (
        claim.node_class,
        claim.labels,
        claim.requirements,
        claim.requests,
        claim.taints,
        claim.startup_taints,
        claim.annotations.get(label_keys.MIN_VALUES_RELAXED),
        has_price_overlay(claim),
    )


def select_reservations(
    choices: Sequence[LaunchChoice], reservations: Iterable[CapacityReservation]
) -> tuple[LaunchChoice, ...]:
    """Return the reserved choices that one request can contain, cheapest first.

    EC2 needs different requests for default reservations, capacity blocks and
    interruptible reservations. The type with the cheapest choice is kept; of
    equal ones the default type, then blocks. A block is one instance type in one
    zone. Of several reservations of an offering the largest is kept.
    """
    types = {reservation.id: _reservation_type(reservation) for reservation in reservations}
    reserved = [choice for choice in choices if choice.offering.reservation_id in types]
    if not reserved:
        return tuple(choices)
    cheapest = min(
        reserved, key=lambda choice: (choice.offering.price, types[choice.offering.reservation_id])
    )
    kept_type = types[cheapest.offering.reservation_id]
    if kept_type == _CAPACITY_BLOCK:
        return (cheapest,)
    largest: dict[tuple[str, str], LaunchChoice] = {}
    for choice in reserved:
        if types[choice.offering.reservation_id] == kept_type:
            key = (choice.instance_type.name, choice.offering.zone)
            best = largest.setdefault(key, choice)
            if choice.offering.reservation_capacity > best.offering.reservation_capacity:
                largest[key] = choice
    return tuple(largest.values())


def _reservation_type(reservation: CapacityReservation) -> int:
    if reservation.reservation_type == "capacity-block":
        return _CAPACITY_BLOCK
    return _INTERRUPTIBLE if reservation.interruptible else _DEFAULT


def _select_subnets(launch_config: LaunchConfig, addresses: FreeAddresses) -> dict[str, str]:
    """Return zone → the subnet with most free addresses, the first of equals."""
    best: dict[str, tuple[int, str]] = {}
    for subnet in launch_config.subnets:
        free = addresses.free(subnet.id)
        if subnet.zone not in best or free > best[subnet.zone][0]:
            best[subnet.zone] = (free, subnet.id)
    return {zone: subnet_id for zone, (_, subnet_id) in best.items()}
