"""Cost of a node beyond its instance, from its node class."""

import pytest

from dovetail.core.nodeclass.node_cost import IMAGE_PULL_PER_HOUR
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import BlockDevice, EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec
from tests.core.instancetypes.builders import GIB, build_type

MONTH = 730


def node_cost(node_class: EC2NodeClass) -> float:
    return build_type("m5.large", node_class).node_cost


def volumes_per_month(*devices: BlockDevice, family: AmiFamily = AmiFamily.AL2023) -> float:
    return (node_cost(EC2NodeClass(ami_family=family, block_devices=devices)) - IMAGE_PULL_PER_HOUR) * MONTH


def gp3(gib: float, **more: int) -> BlockDevice:
    return BlockDevice(volume_bytes=int(gib * GIB), volume_type="gp3", **more)


def test_default_volume_is_20_gib_of_gp3() -> None:
    assert volumes_per_month() == pytest.approx(20 * 0.08)


def test_default_volumes_are_those_that_the_ami_family_launches() -> None:
    assert volumes_per_month(family=AmiFamily.BOTTLEROCKET) == pytest.approx(24 * 0.08)
    assert volumes_per_month(family=AmiFamily.WINDOWS2022) == pytest.approx(50 * 0.08)


def test_size_is_rounded_up_to_whole_gib_as_in_the_launch_template() -> None:
    assert volumes_per_month(gp3(99.5)) == pytest.approx(100 * 0.08)


def test_gp3_pays_for_performance_beyond_what_is_included() -> None:
    assert volumes_per_month(gp3(10, iops=3000, throughput=125)) == pytest.approx(0.8)
    assert volumes_per_month(gp3(10, iops=4000, throughput=250)) == pytest.approx(0.8 + 5 + 5)


@pytest.mark.parametrize(
    ("volume_type", "per_month"), [("gp2", 10.0), ("io1", 12.5 + 65), ("st1", 4.5), ("sc1", 1.5), ("", 10.0)]
)
def test_other_volume_types_have_their_own_price(volume_type: str, per_month: float) -> None:
    device = BlockDevice(volume_bytes=100 * GIB, volume_type=volume_type, iops=1000)

    assert volumes_per_month(device) == pytest.approx(per_month)


def test_all_volumes_of_a_node_count() -> None:
    assert volumes_per_month(gp3(20), gp3(200)) == pytest.approx(220 * 0.08)


def test_volume_of_a_snapshot_has_the_default_size() -> None:
    assert volumes_per_month(BlockDevice(snapshot="snap-1", volume_type="gp3")) == pytest.approx(20 * 0.08)


def test_public_ipv4_address_costs_half_a_cent_per_hour() -> None:
    public = EC2NodeClass(launch=LaunchSpec(associate_public_ip_address=True))

    assert node_cost(public) - node_cost(EC2NodeClass()) == pytest.approx(0.005)
