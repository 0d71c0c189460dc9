"""Prices of machine types that a price list leaves out."""

from dovetail.core.instancetypes.price_estimates import Relative, estimated_prices
from dovetail.model.cloud.ec2_catalog import Machine


def a_machine(name: str, vcpus: int, *, bare_metal: bool = False) -> Machine:
    return Machine(name=name, vcpus=vcpus, memory_mib=vcpus * 4096, bare_metal=bare_metal)


def test_listed_types_are_left_alone() -> None:
    assert estimated_prices({"m5.large": 0.1}, [a_machine("m5.large", 2)], {}) == {}


def test_a_missing_size_costs_what_its_family_costs_per_vcpu() -> None:
    machines = [a_machine("m5.large", 2), a_machine("m5.xlarge", 4), a_machine("m5.8xlarge", 32)]

    prices = estimated_prices({"m5.large": 0.1, "m5.8xlarge": 1.5}, machines, {})

    assert prices == {"m5.xlarge": 0.2}


def test_bare_metal_costs_what_the_virtual_machine_of_its_size_costs() -> None:
    machines = [
        a_machine("m5.large", 2),
        a_machine("m5.24xlarge", 96),
        a_machine("m5.metal", 96, bare_metal=True),
    ]

    prices = estimated_prices({"m5.large": 0.1, "m5.24xlarge": 4.608}, machines, {})

    assert prices == {"m5.metal": 4.608}


def test_a_family_without_any_price_follows_its_relative() -> None:
    machines = [a_machine("m8i.large", 2), a_machine("m8id.large", 2), a_machine("m8id.xlarge", 4)]

    prices = estimated_prices({"m8i.large": 0.1}, machines, {"m8id": Relative("m8i", 1.25)})

    assert prices == {"m8id.large": 0.125, "m8id.xlarge": 0.25}


def test_burstable_types_follow_the_size_of_the_same_name() -> None:
    machines = [
        a_machine(f"{family}.{size}", 2) for family in ("t3", "t8i") for size in ("nano", "micro")
    ]

    prices = estimated_prices(
        {"t3.nano": 0.0052, "t3.micro": 0.0104}, machines, {"t8i": Relative("t3", 1.0)}
    )

    assert prices == {"t8i.nano": 0.0052, "t8i.micro": 0.0104}


def test_a_type_without_relatives_gets_no_price() -> None:
    assert estimated_prices({"m5.large": 0.1}, [a_machine("zz9.large", 2)], {}) == {}
