"""A catalogue of three regions with one instance type, and its prices."""

from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict


def a_region(name: str, prefix: str) -> Region:
    zones = {f"{name}{letter}": f"{prefix}-az{i}" for i, letter in enumerate("abc", start=1)}
    return Region(
        name=name, zones=FrozenDict(zones), offered_zones=FrozenDict({"m5.large": frozenset(zones)})
    )


CATALOG = Catalog(
    recorded="2026-01-31",
    source="by hand",
    instance_types=(Ec2InstanceType(name="m5.large", vcpus=2, memory_mib=8192, enis=3, ipv4_per_eni=10),),
    regions=FrozenDict(
        {
            "us-east-1": a_region("us-east-1", "use1"),
            "us-west-1": a_region("us-west-1", "usw1"),
            "eu-west-1": a_region("eu-west-1", "euw1"),
        }
    ),
)
PRICES = PriceBook(
    source="by hand",
    list_prices=FrozenDict({"m5.large": 0.1}),
    region_factors=FrozenDict({"us-east-1": 1.0, "eu-west-1": 1.1}),
)
