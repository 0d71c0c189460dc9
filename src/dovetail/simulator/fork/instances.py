"""Instances behind nodes and NodeClaims: type, zone, capacity type, age and price."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.discounts import Discounts
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.core.instancetypes.offerings import NO_PRICE
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import CPU, MEMORY, Resources
from dovetail.model.node import NodeObject
from dovetail.simulator.ec2.account import instance_tags
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.ec2.instances import Ec2Instance, InstanceState
from dovetail.simulator.ec2.nodeclass_resolver import RecordedNodeClass
from dovetail.simulator.fork.report import ReportBuilder
from dovetail.simulator.instance import BootedInstance

FARGATE: Final = "eks.amazonaws.com/compute-type"
_FARGATE_CPU: Final = 0.04048
_FARGATE_GIB: Final = 0.004445
"""USD per hour of a vCPU and of a GiB on Fargate, Linux on x86, in us-east-1."""
_CAPACITY_TYPE_LABELS: Final = (label_keys.CAPACITY_TYPE, "eks.amazonaws.com/capacityType")
_CLAIM_DRIFT: Final = "Drifted"
_PROVIDER_ID: Final = re.compile(r"^aws:///(?P<zone>[^/]+)/(?P<id>.+)$")


class InstancePrices:
    """Types and prices of instances by labels; of the node's own region."""

    def __init__(
        self,
        catalog: Catalog,
        prices: PriceBook,
        discounts: DiscountBook,
        *,
        names: Iterable[str],
        report: ReportBuilder,
    ) -> None:
        self._catalog = catalog
        self._prices = prices
        self._discounts = discounts
        self._names = frozenset(names)
        self._report = report
        self._types: dict[str, dict[str, InstanceType]] = {}

    def find(self, node: str, labels: Mapping[str, str], region: str, capacity: Resources) -> LaunchChoice:
        """Return type and offering of a node; one without a price if the catalogue lacks it."""
        name = labels.get(label_keys.INSTANCE_TYPE, "")
        zone = labels.get(label_keys.ZONE, "")
        capacity_type = get_capacity_type(labels)
        instance_type = self._types_in(labels.get(label_keys.REGION) or region).get(name)
        if instance_type is None:
            reason = f"of type {name or 'unknown'} priced at $0: the catalogue does not have it"
            self._report.note_of("node", node, reason)
            return self._unknown(name, zone, capacity_type, capacity)
        reservation = labels.get(label_keys.CAPACITY_RESERVATION_ID, "")
        offering = next(
            (
                offering
                for offering in instance_type.offerings
                if offering.zone == zone and offering.capacity_type == capacity_type
            ),
            None,
        )
        if offering is None:
            price = 0.0
            if capacity_type != label_keys.RESERVED:
                same_type = [o.price for o in instance_type.offerings if o.capacity_type == capacity_type]
                price = min((p for p in same_type if p != NO_PRICE), default=0.0)
            if not price and capacity_type != label_keys.RESERVED:
                reason = f"priced at $0: no price of {name} in {zone or 'an unknown zone'} as {capacity_type}"
                self._report.note_of("node", node, reason)
            offering = Offering(zone=zone, capacity_type=capacity_type, price=price)
        elif offering.price == NO_PRICE:
            reason = f"priced at $0: no price of {name} in {zone} as {capacity_type}"
            self._report.note_of("node", node, reason)
            offering = msgspec.structs.replace(offering, price=0.0)
        if reservation and offering.reservation_id != reservation:
            offering = msgspec.structs.replace(offering, reservation_id=reservation)
        return LaunchChoice(instance_type=instance_type, offering=offering)

    def _types_in(self, region: str) -> Mapping[str, InstanceType]:
        if region not in self._types:
            self._types[region] = {}
            if region in self._catalog.regions:
                facts = self._catalog.instance_types_in(region)
                types = build_instance_types(
                    tuple(fact for fact in facts if fact.name in self._names),
                    region=self._catalog.regions[region],
                    node_class=EC2NodeClass(),
                    prices=self._prices,
                )
                discounted = Discounts(self._discounts, region=region).apply(types)
                self._types[region] = {instance_type.name: instance_type for instance_type in discounted}
        return self._types[region]

    def _unknown(self, name: str, zone: str, capacity_type: str, capacity: Resources) -> LaunchChoice:
        return LaunchChoice(
            instance_type=InstanceType(
                name=name,
                requirements=Requirements.from_requirements(
                    [Requirement.one_of(label_keys.INSTANCE_TYPE, name)] if name else []
                ),
                capacity=capacity,
            ),
            offering=Offering(zone=zone, capacity_type=capacity_type, price=0.0),
        )


def complete_catalog(
    catalog: Catalog, region: str, instances: Iterable[tuple[Mapping[str, str], Resources]]
) -> Catalog:
    """Return the catalogue with the types and zones of running instances.

    A running instance exists, whatever the catalogue says: its type is offered in its zone. New
    types have no price, so that none is launched.
    """
    place = catalog.regions[region]
    known = {facts.name for facts in catalog.instance_types}
    zones, offered = dict(place.zones), dict(place.offered_zones)
    added: dict[str, Ec2InstanceType] = {}
    for labels, capacity in instances:
        name, zone = labels.get(label_keys.INSTANCE_TYPE, ""), labels.get(label_keys.ZONE, "")
        if not name or not zone or labels.get(label_keys.REGION, region) != region:
            continue
        zones.setdefault(zone, labels.get(label_keys.ZONE_ID, ""))
        offered[name] = offered.get(name, frozenset()) | {zone}
        if name not in known and name not in added:
            added[name] = Ec2InstanceType(
                name=name,
                vcpus=max(1, capacity.get(CPU, 0) // 1000),
                memory_mib=capacity.get(MEMORY, 0) >> 20,
                architectures=("arm64",) if labels.get(label_keys.ARCH) == "arm64" else ("x86_64",),
            )
    if not added and offered == place.offered_zones and zones == place.zones:
        return catalog
    completed = msgspec.structs.replace(place, zones=FrozenDict(zones), offered_zones=FrozenDict(offered))
    types = sorted((*catalog.instance_types, *added.values()), key=lambda facts: facts.name)
    return msgspec.structs.replace(
        catalog, instance_types=tuple(types), regions=FrozenDict({**catalog.regions, region: completed})
    )


def get_capacity_type(labels: Mapping[str, str]) -> str:
    """Return the capacity type in Karpenter's or EKS's label; on-demand without them."""
    for label in _CAPACITY_TYPE_LABELS:
        value = labels.get(label, "").lower().replace("_", "-")
        if value in label_keys.CAPACITY_TYPES:
            return value
        if value == "capacity-block":
            return label_keys.RESERVED
    return label_keys.ON_DEMAND


def is_fargate(labels: Mapping[str, str]) -> bool:
    """Return True for a node of Fargate, which runs one pod."""
    return labels.get(FARGATE) == "fargate"


def price_fargate(node: NodeObject) -> float:
    """Return USD per hour of a Fargate node, by its capacity, at the prices of us-east-1."""
    cpu, memory = node.capacity.get(CPU, 0) / 1000, node.capacity.get(MEMORY, 0) / 2**30
    return round(cpu * _FARGATE_CPU + memory * _FARGATE_GIB, 6)


def booted_from(node: NodeObject) -> BootedInstance:
    """Return the instance of a registered node, as its kubelet knows it."""
    return BootedInstance(
        name=node.name,
        provider_id=node.provider_id,
        labels=node.labels,
        taints=node.taints,
        capacity=node.capacity,
        allocatable=node.allocatable,
    )


def managed_instance(
    claim: NodeClaim,
    node: NodeObject | None,
    choice: LaunchChoice,
    *,
    recorded: RecordedNodeClass | None,
    ami_family: AmiFamily,
    cluster: str,
    now: datetime,
) -> Ec2Instance:
    """Return the running instance of a NodeClaim.

    Its subnet and security groups are those of the node class, unless the claim has drifted from
    them.
    """
    match = _PROVIDER_ID.match(claim.provider_id)
    zone = match["zone"] if match else choice.offering.zone
    if choice.offering.zone != zone:
        choice = msgspec.structs.replace(choice, offering=msgspec.structs.replace(choice.offering, zone=zone))
    launched = claim.created or now
    drift = claim.conditions.get(_CLAIM_DRIFT)
    reason = drift.reason if drift is not None and is_true(claim.conditions, _CLAIM_DRIFT) else ""
    subnets = recorded.subnets if recorded is not None else FrozenDict()
    groups = recorded.security_groups if recorded is not None else ()
    return Ec2Instance(
        id=match["id"] if match else claim.provider_id.rpartition("/")[2],
        private_dns_name=node.name if node is not None else claim.node_name,
        choice=choice,
        claim=msgspec.structs.replace(claim, requirements=()),
        ami_family=ami_family,
        image_id=claim.image_id,
        labels=FrozenDict(claim.labels),
        capacity=(node.capacity if node is not None else claim.capacity).without_zeros(),
        allocatable=(node.allocatable if node is not None else claim.allocatable).without_zeros(),
        tags=instance_tags(claim, cluster),
        launched=launched,
        launch=launch_record(claim.provider_id, choice, launched, claim=claim.name, uid=claim.uid),
        subnet="" if reason == "SubnetDrift" else subnets.get(zone, ""),
        security_groups=() if reason == "SecurityGroupDrift" else groups,
        state=InstanceState.RUNNING,
    )


def launch_record(
    provider_id: str, choice: LaunchChoice, launched: datetime, *, claim: str = "", uid: str = ""
) -> LaunchRecord:
    """Return the bill of an instance that was launched before the fork."""
    return LaunchRecord(
        claim=claim,
        claim_uid=uid or provider_id,
        provider_id=provider_id,
        instance_type=choice.instance_type.name,
        zone=choice.offering.zone,
        capacity_type=choice.offering.capacity_type,
        price=choice.offering.price,
        launched=launched,
    )
