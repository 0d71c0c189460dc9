"""Capacity of nodes."""

import pytest

from dovetail.core.instancetypes.capacity import eni_limited_pods
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.model.karpenter.ec2nodeclass import BlockDevice, EC2NodeClass
from dovetail.model.kube.resources import EPHEMERAL_STORAGE, MEMORY, PODS
from tests.core.instancetypes.builders import GIB, LINUX, MIB, WINDOWS, build_type, ec2_type, with_kubelet


def pods(name: str, node_class: EC2NodeClass, reserved_enis: int = 0) -> int:
    return build_type(name, node_class, settings=InstanceTypeSettings(reserved_enis=reserved_enis)).capacity[
        PODS
    ]


def scratch(name: str, family: str, *devices: BlockDevice, raid0: bool = False) -> int:
    node_class = EC2NodeClass(ami_family=family, block_devices=devices, raid0=raid0)
    return build_type(name, node_class).capacity[EPHEMERAL_STORAGE]


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("m5.xlarge", 16384 - 1229),  # 7.5 % of 16,384 is 1,228.8
        ("t4g.small", 1984 - 149),  # arm64 keeps 64 MiB first
        ("m5.metal", 393216 - 29492),
    ],
)
def test_the_hypervisor_keeps_seven_and_a_half_per_cent_rounded_up(name: str, mib: int) -> None:
    assert build_type(name).capacity[MEMORY] == mib * MIB


def test_the_memory_overhead_can_be_set() -> None:
    settings = InstanceTypeSettings(vm_memory_overhead=0)

    assert build_type("m5.xlarge", settings=settings).capacity[MEMORY] == 16384 * MIB


@pytest.mark.parametrize(
    ("name", "expected"), [("t3.large", 35), ("m5.xlarge", 58), ("m6idn.32xlarge", 394), ("p5.48xlarge", 100)]
)
def test_addresses_of_the_default_network_card_bound_the_pods(name: str, expected: int) -> None:
    assert eni_limited_pods(ec2_type(name)) == expected
    assert pods(name, EC2NodeClass()) == expected


def test_reserved_interfaces_take_their_addresses_from_pods() -> None:
    assert pods("t3.large", EC2NodeClass(), reserved_enis=1) == 24
    assert pods("t3.large", EC2NodeClass(), reserved_enis=1_000_000) == 0


@pytest.mark.parametrize("family", [*LINUX, *WINDOWS, "Bottlerocket"])
def test_max_pods_overrides_what_the_network_allows(family: str) -> None:
    assert pods("t3.large", with_kubelet(family, max_pods=10)) == 10


@pytest.mark.parametrize("family", WINDOWS)
def test_windows_takes_110_pods_whatever_the_interfaces(family: str) -> None:
    assert pods("t3.large", EC2NodeClass(ami_family=family)) == 110
    assert pods("t3.large", EC2NodeClass(ami_family=family), reserved_enis=1) == 110


def test_pods_per_core_lowers_the_limit_and_never_raises_it() -> None:
    assert pods("t3.large", with_kubelet(pods_per_core=4)) == 8
    assert pods("t3.large", with_kubelet(pods_per_core=100)) == 35
    assert pods("t3.large", with_kubelet(pods_per_core=4, max_pods=5)) == 5


def test_zero_pods_per_core_means_unset() -> None:
    assert pods("t3.large", with_kubelet(pods_per_core=0)) == 35


def test_bottlerocket_ignores_pods_per_core() -> None:
    assert pods("t3.large", with_kubelet("Bottlerocket", pods_per_core=4)) == 35


@pytest.mark.parametrize(
    ("family", "size"),
    [
        *((family, 20 * GIB) for family in (*LINUX, "Bottlerocket")),
        *((family, 50 * GIB) for family in WINDOWS),
    ],
)
def test_without_block_devices_scratch_space_is_the_familys_default(family: str, size: int) -> None:
    assert scratch("m5.xlarge", family) == size


def test_a_device_given_by_snapshot_alone_counts_with_the_default_size() -> None:
    assert scratch("m5.xlarge", "AL2023", BlockDevice(device_name="/dev/xvda")) == 20 * GIB


def test_the_device_that_holds_pods_data_gives_the_size_and_others_do_not() -> None:
    root = BlockDevice(device_name="/dev/xvda", volume_bytes=30 * GIB)
    data = BlockDevice(device_name="/dev/xvdb", volume_bytes=90 * GIB)

    assert scratch("m5.xlarge", "AL2023", root, data) == 30 * GIB
    assert scratch("m5.xlarge", "Bottlerocket", root, data) == 90 * GIB


def test_a_mapping_marked_as_root_volume_wins() -> None:
    data_device = BlockDevice(device_name="/dev/xvda", volume_bytes=30 * GIB)
    root = BlockDevice(device_name="/dev/sdb", volume_bytes=70 * GIB, root=True)

    assert scratch("m5.xlarge", "AL2023", data_device, root) == 70 * GIB
    assert scratch("m5.xlarge", "Custom", root, data_device) == 70 * GIB


def test_custom_images_take_the_size_of_the_last_mapping() -> None:
    first = BlockDevice(device_name="/dev/xvda", volume_bytes=30 * GIB)
    last = BlockDevice(device_name="/dev/xvdz", volume_bytes=40 * GIB)

    assert scratch("m5.xlarge", "Custom", first, last) == 40 * GIB


def test_raid0_makes_the_local_disks_scratch_space_where_there_are_any() -> None:
    device = BlockDevice(device_name="/dev/xvda", volume_bytes=30 * GIB)

    assert scratch("g4dn.8xlarge", "AL2023", device, raid0=True) == 900 * 10**9
    assert scratch("m5.xlarge", "AL2023", device, raid0=True) == 30 * GIB


@pytest.mark.parametrize(
    ("name", "resource", "count"),
    [
        ("p4d.24xlarge", "nvidia.com/gpu", 8),
        ("p4d.24xlarge", "vpc.amazonaws.com/efa", 4),
        ("inf2.48xlarge", "aws.amazon.com/neuron", 12),
        ("inf2.48xlarge", "aws.amazon.com/neuroncore", 24),
        ("m5.large", "vpc.amazonaws.com/pod-eni", 9),
        ("m5.xlarge", "vpc.amazonaws.com/pod-eni", 18),
        ("m5.24xlarge", "vpc.amazonaws.com/pod-eni", 107),
        ("c6a.8xlarge", "vpc.amazonaws.com/pod-eni", 84),
        ("c7g.8xlarge", "vpc.amazonaws.com/pod-eni", 54),
        ("m7i-flex.large", "vpc.amazonaws.com/pod-eni", 3),
    ],
)
def test_devices_count_as_resources(name: str, resource: str, count: int) -> None:
    assert build_type(name).capacity[resource] == count


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"])
def test_types_without_devices_have_no_such_resource(resource: str) -> None:
    assert resource not in build_type("m5.large").capacity


@pytest.mark.parametrize("name", ["t3.large", "t4g.large", "m4.large"])
def test_types_without_trunking_have_no_pod_enis(name: str) -> None:
    assert "vpc.amazonaws.com/pod-eni" not in build_type(name).capacity


def test_only_windows_has_private_ipv4_addresses_as_a_resource() -> None:
    windows = build_type("m5.large", EC2NodeClass(ami_family="Windows2022")).capacity

    assert windows["vpc.amazonaws.com/PrivateIPv4Address"] == 9
    assert "vpc.amazonaws.com/PrivateIPv4Address" not in build_type("m5.large").capacity
