"""CPU credits of burstable types: AWS's table, prices and steps."""

from itertools import pairwise

import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.cpu_credits import BurstablePolicy, CpuCredits, find_cpu_credits
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType

PUBLISHED = {
    "t2": (3, 6, 12, 24, 36, 54, 81.6),
    "t3": (6, 12, 24, 24, 36, 96, 192),
    "t3a": (6, 12, 24, 24, 36, 96, 192),
    "t4g": (6, 12, 24, 24, 36, 96, 192),
}
"""CPU credits earned per hour, in the order of SIZES: the other column of AWS's table."""
SIZES = ("nano", "micro", "small", "medium", "large", "xlarge", "2xlarge")
EC2_TYPES = {ec2_type.name: ec2_type for ec2_type in bundled_catalog().instance_types}


def credits_of(
    ec2_type: Ec2InstanceType, policy: BurstablePolicy = BurstablePolicy.BASELINE, *, is_windows: bool = False
) -> CpuCredits:
    cpu_credits = find_cpu_credits(ec2_type, is_windows=is_windows, policy=policy)
    assert cpu_credits is not None
    return cpu_credits


@pytest.mark.parametrize("family", PUBLISHED)
def test_baseline_agrees_with_the_credits_that_aws_publishes(family: str) -> None:
    for size, per_hour in zip(SIZES, PUBLISHED[family], strict=True):
        cpu_credits = credits_of(EC2_TYPES[f"{family}.{size}"])

        assert cpu_credits.baseline == pytest.approx(per_hour / 60 * 1000)
        assert not cpu_credits.is_assumed


def test_only_types_of_category_t_are_burstable() -> None:
    burstable = {
        name.partition(".")[0]
        for name, ec2_type in EC2_TYPES.items()
        if find_cpu_credits(ec2_type, is_windows=False, policy=BurstablePolicy.BASELINE) is not None
    }

    assert burstable == {"t1", "t2", "t3", "t3a", "t4g", "t8i"}


@pytest.mark.parametrize(
    ("name", "is_windows", "price"),
    [("t3.large", False, 0.05), ("t4g.large", False, 0.04), ("t3a.large", True, 0.096)],
)
def test_surplus_price_depends_on_processor_and_system(name: str, is_windows: bool, price: float) -> None:
    cpu_credits = credits_of(EC2_TYPES[name], is_windows=is_windows)

    assert cpu_credits.is_unlimited
    assert cpu_credits.price_surplus(cpu_credits.baseline + 500) == pytest.approx(price / 2)
    assert cpu_credits.price_surplus(cpu_credits.baseline) == 0.0


def test_t2_is_in_standard_mode_and_never_charged_for_surplus() -> None:
    cpu_credits = credits_of(EC2_TYPES["t2.large"])

    assert not cpu_credits.is_unlimited
    assert cpu_credits.price_surplus(2000) == 0.0


def test_family_that_aws_has_not_published_is_taken_as_t3() -> None:
    unknown = Ec2InstanceType(name="t9g.4xlarge", vcpus=16, memory_mib=65536, burstable=True)

    cpu_credits = credits_of(unknown)

    assert cpu_credits.is_assumed
    assert cpu_credits.baseline == 6400
    assert credits_of(EC2_TYPES["t8i.micro"]).baseline == 200


@pytest.mark.parametrize("name", sorted(name for name in EC2_TYPES if name[:3] in ("t3.", "t3a", "t4g")))
def test_a_step_costs_at_least_what_any_use_up_to_it_costs(name: str) -> None:
    cpu_credits = credits_of(EC2_TYPES[name])

    steps = cpu_credits.steps()

    assert steps[0] == (cpu_credits.baseline, 0.0, 0.0)
    assert steps[-1].cpu == cpu_credits.vcpus * 1000
    for lower, higher in pairwise(steps):
        assert lower.cpu < higher.cpu
        assert cpu_credits.price_surplus(lower.cpu + 1) <= higher.surplus
        assert cpu_credits.price_surplus(higher.cpu) == higher.surplus


def test_allowed_type_has_one_step_at_list_price() -> None:
    cpu_credits = credits_of(EC2_TYPES["t3.large"], BurstablePolicy.ALLOW)

    assert cpu_credits.steps() == ((2000, 0.0, 0.0),)
    assert cpu_credits.price_surplus(2000) == 0.0


def test_description_names_expected_and_included_cpu() -> None:
    t4g, t2 = EC2_TYPES["t4g.micro"], EC2_TYPES["t2.small"]

    assert credits_of(t4g).describe([1200, 100]) == (
        "burstable: 1.30 vCPU expected, 0.40 included, surplus credits add 0.0400 USD per hour"
    )
    assert credits_of(t4g).describe_choice([200]) == (
        "burstable: 0.20 vCPU expected, 0.20 included; still the cheapest"
    )
    assert credits_of(t4g, BurstablePolicy.ALLOW).describe([1200]) == (
        "burstable: 1.20 vCPU expected, 0.20 included; surplus credits of 0.0400 USD per hour are not counted"
    )
    assert credits_of(t2).describe_choice([900]) == (
        "burstable in standard mode: 0.90 vCPU expected, 0.20 included; without credits it is throttled; "
        "no other type fits"
    )
    assert "AWS has published no baseline" in credits_of(EC2_TYPES["t8i.small"]).describe([100])
