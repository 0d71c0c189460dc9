"""Machines of the bundled catalogue, and a small region that sells them."""

from collections.abc import Iterable

from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.offerings import Pool
from dovetail.core.instancetypes.settings import MachineSettings
from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.ec2_catalog import Machine, Region
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import Kubelet, NodeClass
from dovetail.model.kube.resources import Resources

MIB = 1 << 20
GIB = 1 << 30
ZONES = FrozenDict({"eu-west-1a": "euw1-az3", "eu-west-1b": "euw1-az1"})
BOOK = PriceBook(
    source="test",
    list_prices=FrozenDict(
        {"m5.large": 0.096, "m5.xlarge": 0.192, "a1.large": 0.051, "t3.large": 0.0832}
    ),
    region_factors=FrozenDict({"eu-west-1": 1.0}),
    spot_share=0.5,
)
LINUX = ("AL2", "AL2023", "Custom")
WINDOWS = ("Windows2019", "Windows2022", "Windows2025")


def machine(name: str) -> Machine:
    return next(one for one in bundled_catalog().machines if one.name == name)


def region_selling(names: Iterable[str], zones: Iterable[str] = ZONES) -> Region:
    sold = frozenset(zones)
    return Region(name="eu-west-1", zones=ZONES, offered=FrozenDict(dict.fromkeys(names, sold)))


def bought(
    name: str,
    node_class: NodeClass | None = None,
    *,
    settings: MachineSettings | None = None,
    zones: Iterable[str] = ZONES,
    prices: PriceBook = BOOK,
    unavailable: frozenset[Pool] = frozenset(),
    region: Region | None = None,
) -> InstanceType:
    """Return one machine type as a node class would get it."""
    (only,) = instance_types(
        [machine(name)],
        region=region or region_selling([name], zones),
        node_class=node_class or NodeClass(),
        prices=prices,
        unavailable=unavailable,
        settings=settings or MachineSettings(),
    )
    return only


def with_kubelet(family: str = "AL2023", **kubelet: object) -> NodeClass:
    return NodeClass(ami_family=family, kubelet=Kubelet(**kubelet))  # type: ignore[arg-type]


def amounts(**spelled: str) -> Resources:
    return Resources.parse({name.replace("_", "-"): text for name, text in spelled.items()})


def label(one: InstanceType, key: str) -> str | None:
    """Return the only value that a label has; None where it does not exist."""
    values = one.requirements[key].values
    assert not one.requirements[key].complement
    return next(iter(values)) if len(values) == 1 else None


def available(one: InstanceType) -> set[tuple[str, str]]:
    """Return the (zone, capacity type) pairs that can be bought."""
    return {(offer.zone, offer.capacity_type) for offer in one.offerings if offer.available}


def offering(one: InstanceType, zone: str, capacity_type: str) -> Offering:
    (only,) = (
        offer
        for offer in one.offerings
        if (offer.zone, offer.capacity_type) == (zone, capacity_type)
    )
    return only
