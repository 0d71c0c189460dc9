"""EC2 types of the bundled catalog, and a small region that offers them."""

from collections.abc import Iterable

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.offerings import CapacityPool
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Region
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from dovetail.model.kube.resources import Resources

MIB = 1 << 20
GIB = 1 << 30
ZONES = FrozenDict({"eu-west-1a": "euw1-az3", "eu-west-1b": "euw1-az1"})
BOOK = PriceBook(
    source="test",
    list_prices=FrozenDict({"m5.large": 0.096, "m5.xlarge": 0.192, "a1.large": 0.051, "t3.large": 0.0832}),
    region_factors=FrozenDict({"eu-west-1": 1.0}),
    spot_ratio=0.5,
)
LINUX = ("AL2", "AL2023", "Custom")
WINDOWS = ("Windows2019", "Windows2022", "Windows2025")


def ec2_type(name: str) -> Ec2InstanceType:
    return next(
        instance_type for instance_type in bundled_catalog().instance_types if instance_type.name == name
    )


def region_offering(names: Iterable[str], zones: Iterable[str] = ZONES) -> Region:
    zone_names = frozenset(zones)
    return Region(name="eu-west-1", zones=ZONES, offered_zones=FrozenDict(dict.fromkeys(names, zone_names)))


def build_type(
    name: str,
    node_class: EC2NodeClass | None = None,
    *,
    settings: InstanceTypeSettings | None = None,
    zones: Iterable[str] = ZONES,
    prices: PriceBook = BOOK,
    unavailable: frozenset[CapacityPool] = frozenset(),
    region: Region | None = None,
) -> InstanceType:
    """Return an EC2 type as instance type of a node class."""
    (only,) = build_instance_types(
        [ec2_type(name)],
        region=region or region_offering([name], zones),
        node_class=node_class or EC2NodeClass(),
        prices=prices,
        unavailable=unavailable,
        settings=settings or InstanceTypeSettings(),
    )
    return only


def with_kubelet(family: str = "AL2023", **kubelet: object) -> EC2NodeClass:
    return EC2NodeClass(ami_family=AmiFamily(family), kubelet=KubeletConfiguration(**kubelet))  # type: ignore[arg-type]


def amounts(**quantities: str) -> Resources:
    return Resources.parse({name.replace("_", "-"): text for name, text in quantities.items()})


def label(instance_type: InstanceType, key: str) -> str | None:
    """Return the only value that a label has; None where it does not exist."""
    values = instance_type.requirements[key].values
    assert not instance_type.requirements[key].complement
    return next(iter(values)) if len(values) == 1 else None


def available(instance_type: InstanceType) -> set[tuple[str, str]]:
    """Return the (zone, capacity type) pairs of available offerings."""
    return {(offer.zone, offer.capacity_type) for offer in instance_type.offerings if offer.available}


def offering(instance_type: InstanceType, zone: str, capacity_type: str) -> Offering:
    (only,) = (
        offer
        for offer in instance_type.offerings
        if (offer.zone, offer.capacity_type) == (zone, capacity_type)
    )
    return only
