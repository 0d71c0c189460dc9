"""Price estimates for types that a price list lacks."""

from dovetail.core.instancetypes.price_estimates import PriceReference, estimate_prices
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType


def an_ec2_type(name: str, vcpus: int, *, bare_metal: bool = False) -> Ec2InstanceType:
    return Ec2InstanceType(name=name, vcpus=vcpus, memory_mib=vcpus * 4096, bare_metal=bare_metal)


def test_listed_types_are_left_alone() -> None:
    assert estimate_prices({"m5.large": 0.1}, [an_ec2_type("m5.large", 2)], {}) == {}


def test_a_missing_size_costs_what_its_family_costs_per_vcpu() -> None:
    ec2_types = [an_ec2_type("m5.large", 2), an_ec2_type("m5.xlarge", 4), an_ec2_type("m5.8xlarge", 32)]

    prices = estimate_prices({"m5.large": 0.1, "m5.8xlarge": 1.5}, ec2_types, {})

    assert prices == {"m5.xlarge": 0.2}


def test_bare_metal_costs_what_the_largest_virtual_size_costs() -> None:
    ec2_types = [
        an_ec2_type("m5.large", 2),
        an_ec2_type("m5.24xlarge", 96),
        an_ec2_type("m5.metal", 96, bare_metal=True),
    ]

    prices = estimate_prices({"m5.large": 0.1, "m5.24xlarge": 4.608}, ec2_types, {})

    assert prices == {"m5.metal": 4.608}


def test_a_family_without_any_price_uses_its_reference() -> None:
    ec2_types = [an_ec2_type("m8i.large", 2), an_ec2_type("m8id.large", 2), an_ec2_type("m8id.xlarge", 4)]

    prices = estimate_prices({"m8i.large": 0.1}, ec2_types, {"m8id": PriceReference("m8i", 1.25)})

    assert prices == {"m8id.large": 0.125, "m8id.xlarge": 0.25}


def test_burstable_types_follow_the_size_of_the_same_name() -> None:
    ec2_types = [an_ec2_type(f"{family}.{size}", 2) for family in ("t3", "t8i") for size in ("nano", "micro")]

    prices = estimate_prices(
        {"t3.nano": 0.0052, "t3.micro": 0.0104}, ec2_types, {"t8i": PriceReference("t3", 1.0)}
    )

    assert prices == {"t8i.nano": 0.0052, "t8i.micro": 0.0104}


def test_a_type_without_a_reference_gets_no_price() -> None:
    assert estimate_prices({"m5.large": 0.1}, [an_ec2_type("zz9.large", 2)], {}) == {}
