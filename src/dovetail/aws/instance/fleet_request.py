"""From claims that are alike to an order: who fits in, which templates, which subnets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import cluster_tags, fitting, listed
from dovetail.aws.errors import RESERVATION_FULL
from dovetail.aws.instance.create_fleet import Answer, Bought, Config, Order, is_priced_by_overlay
from dovetail.aws.launchtemplate.launch_config import Addresses, Launchable
from dovetail.aws.launchtemplate.launch_templates import Template
from dovetail.aws.launchtemplate.template_data import Variant, template_data, variant_of
from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import PODS
from dovetail.ports.cloudprovider import NodeClassNotReady

_SHOWN: Final = 3


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and the choice that it was bought as."""

    bought: Bought
    choice: Choice


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to order, once its templates are there."""

    claims: Sequence[NodeClaim]
    launchable: Launchable
    capacity_type: str
    tags: Mapping[str, str]
    subnets: Mapping[str, str]
    """Zone → subnet."""
    variants: Mapping[Variant, Sequence[Choice]]

    def templates(self) -> list[Template]:
        """Return the templates that the order needs, one for each variant."""
        return [
            Template(
                data=template_data(
                    variant,
                    claim=self.claims[0],
                    capacity_type=self.capacity_type,
                    launchable=self.launchable,
                    tags=self.tags,
                ),
                tags=dict(self.tags),
            )
            for variant in self.variants
        ]

    def order(self, templates: Sequence[str]) -> Order:
        """Return the order, with the names of its templates."""
        claim = self.claims[0]
        relaxed = claim.annotations.get(label_keys.MIN_VALUES_RELAXED) == "true"
        return Order(
            count=len(self.claims),
            configs=tuple(
                Config(template=name, image=variant.image.id, choices=tuple(choices))
                for name, (variant, choices) in zip(templates, self.variants.items(), strict=True)
            ),
            subnets=self.subnets,
            capacity_type=self.capacity_type,
            tags=self.tags,
            lists=listed(self.claims),
            reservation=self._reservation(),
            priced_by_overlay=is_priced_by_overlay(claim),
            context="" if relaxed else self.launchable.node_class.launch.context,
        )

    def purchases(self, answer: Answer) -> list[Purchase]:
        """Deal what was bought: one for each claim, in the order of the claims."""
        known = self._places()
        return [
            Purchase(bought=one, choice=known[one.instance_type, one.zone])
            for one in answer.bought[: len(self.claims)]
        ]

    def filled_up(self, answer: Answer) -> set[str]:
        """Return the reservations that turn out to have no room."""
        known = self._places()
        places = [
            (one.instance_type, one.zone) for one in answer.failures if one.code == RESERVATION_FULL
        ]
        return {known[one].offering.reservation_id for one in places if one in known} - {""}

    def _places(self) -> dict[tuple[str, str], Choice]:
        """Return what was ordered, by type and zone; by type alone where a zone is not told."""
        known: dict[tuple[str, str], Choice] = {}
        for choices in self.variants.values():
            for choice in choices:
                name = choice.instance_type.name
                known.setdefault((name, choice.offering.zone), choice)
                known.setdefault((name, ""), choice)
        return known

    def _reservation(self) -> CapacityReservation | None:
        wanted = {variant.reservation for variant in self.variants}
        held = self.launchable.node_class.reservations
        return next((one for one in held if one.id in wanted), None)


def plan_of(
    claims: Sequence[NodeClaim],
    *,
    launchable: Launchable,
    choices: Sequence[Choice],
    addresses: Addresses,
    cluster: str,
) -> Plan:
    """Plan an order for as many of the claims as one order can name."""
    claim, name = claims[0], launchable.node_class.name
    tags = {
        **launchable.node_class.launch.tags,
        **cluster_tags(cluster, pool=claim.pool, node_class=name),
    }
    subnets = _roomiest(launchable, addresses)
    variants: dict[Variant, list[Choice]] = {}
    for choice in choices:
        variant = variant_of(choice, claim, launchable)
        if variant is not None and choice.offering.zone in subnets:
            variants.setdefault(variant, []).append(choice)
    if not variants:
        wanted = ", ".join(sorted({one.instance_type.name for one in choices})[:_SHOWN])
        raise NodeClassNotReady(
            f"EC2NodeClass {name} has no image or no subnet for what would do ({wanted} …)"
        )
    return Plan(
        claims=claims[: fitting(claims, tags)],
        launchable=launchable,
        capacity_type=choices[0].offering.capacity_type,
        tags=tags,
        subnets=subnets,
        variants=variants,
    )


def addresses_of(order: Order) -> dict[str, int]:
    """Return how many addresses one machine needs at least in each subnet, if it goes there."""
    least: dict[str, int] = {}
    for config in order.configs:
        for choice in config.choices:
            subnet = order.subnets[choice.offering.zone]
            pods = choice.instance_type.capacity.get(PODS, 0)
            least[subnet] = min(pods, least.get(subnet, pods))
    return least


def _roomiest(launchable: Launchable, addresses: Addresses) -> dict[str, str]:
    """Return for each zone the subnet with most free addresses, the first of equals."""
    best: dict[str, tuple[int, str]] = {}
    for subnet in launchable.subnets:
        free = addresses.free(subnet.id)
        if subnet.zone not in best or free > best[subnet.zone][0]:
            best[subnet.zone] = (free, subnet.id)
    return {zone: subnet_id for zone, (_, subnet_id) in best.items()}


def alike(claim: NodeClaim) -> tuple[Any, ...]:
    """Return what claims must have in common to be served by one order."""
    return (
        claim.node_class,
        claim.labels,
        claim.requirements,
        claim.requests,
        claim.taints,
        claim.startup_taints,
        claim.annotations.get(label_keys.MIN_VALUES_RELAXED),
        is_priced_by_overlay(claim),
    )
