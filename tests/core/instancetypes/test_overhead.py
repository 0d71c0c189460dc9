"""Overhead of nodes."""

import pytest

from dovetail.core.instancetypes.overhead import eviction_threshold, kube_reserved
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.errors import InvalidInputError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from tests.core.instancetypes.builders import (
    GIB,
    LINUX,
    MIB,
    WINDOWS,
    amounts,
    build_type,
    ec2_type,
    with_kubelet,
)

ROOM = Resources({MEMORY: 1000 * MIB, EPHEMERAL_STORAGE: 20 * GIB})


def reserved_mib(name: str, node_class: EC2NodeClass, reserved_enis: int = 0) -> int:
    settings = InstanceTypeSettings(reserved_enis=reserved_enis)
    pods = build_type(name, node_class, settings=settings).capacity[PODS]
    return kube_reserved(ec2_type(name), node_class, pods=pods)[MEMORY] // MIB


def threshold(**signals: str) -> Resources:
    written = FrozenDict({name.replace("_", "."): text for name, text in signals.items()})
    return eviction_threshold(with_kubelet(eviction_hard=written), ROOM)


def test_kube_reserved_follows_size_and_pods() -> None:
    reserved = kube_reserved(ec2_type("m5.xlarge"), EC2NodeClass(), pods=58)

    assert reserved == amounts(cpu="80m", memory="893Mi", ephemeral_storage="1Gi")


@pytest.mark.parametrize(
    ("name", "millicores"),
    [("a1.medium", 60), ("t3.large", 70), ("m5.xlarge", 80), ("m5.2xlarge", 90), ("m5.24xlarge", 310)],
)
def test_the_more_cpus_the_smaller_the_reserved_share(name: str, millicores: int) -> None:
    assert kube_reserved(ec2_type(name), EC2NodeClass(), pods=0)[CPU] == millicores


@pytest.mark.parametrize("family", LINUX)
def test_most_images_reserve_for_all_pods_the_network_allows_despite_max_pods(family: str) -> None:
    assert reserved_mib("t3.large", with_kubelet(family, max_pods=10)) == 640
    assert reserved_mib("t3.large", EC2NodeClass(ami_family=family), reserved_enis=1) == 640


@pytest.mark.parametrize("family", ["Bottlerocket", *WINDOWS])
def test_bottlerocket_and_windows_reserve_for_their_actual_pod_limit(family: str) -> None:
    assert reserved_mib("t3.large", with_kubelet(family, max_pods=10)) == 365


def test_reserved_interfaces_lower_what_bottlerocket_keeps_but_not_windows() -> None:
    assert reserved_mib("t3.large", EC2NodeClass(ami_family="Bottlerocket"), reserved_enis=1) == 519
    assert reserved_mib("t3.large", EC2NodeClass(ami_family="Windows2022"), reserved_enis=1) == 1465


def test_a_users_reservation_replaces_only_the_resource_it_names() -> None:
    node_class = with_kubelet(kube_reserved=amounts(cpu="2", pid="1000"))

    reserved = kube_reserved(ec2_type("m5.xlarge"), node_class, pods=58)

    assert reserved == amounts(cpu="2", memory="893Mi", ephemeral_storage="1Gi")


def test_system_reserved_is_zero_by_default_and_is_added_when_set() -> None:
    plain = build_type("m5.xlarge").overhead
    kept = build_type("m5.xlarge", with_kubelet(system_reserved=amounts(cpu="1", memory="1Gi"))).overhead

    assert plain == amounts(cpu="80m", memory="993Mi", ephemeral_storage="3Gi")
    assert kept == plain + amounts(cpu="1", memory="1Gi")


def test_by_default_100_mebibytes_and_a_tenth_of_the_disk_stay_free() -> None:
    assert threshold() == amounts(memory="100Mi", ephemeral_storage="2Gi")


def test_eviction_thresholds_may_be_amounts() -> None:
    given = threshold(memory_available="500Mi", nodefs_available="5Gi")

    assert given == amounts(memory="500Mi", ephemeral_storage="5Gi")


def test_eviction_thresholds_may_be_percentages_of_capacity_rounded_up() -> None:
    given = threshold(memory_available="10%", nodefs_available="0.1%")

    assert given == Resources({MEMORY: 100 * MIB, EPHEMERAL_STORAGE: 21474837})


def test_a_threshold_of_exactly_100_per_cent_switches_it_off() -> None:
    given = threshold(memory_available="100%", nodefs_available="100%")

    assert given == Resources({MEMORY: 0, EPHEMERAL_STORAGE: 0})


def test_signals_that_concern_neither_memory_nor_disk_change_nothing() -> None:
    assert threshold(imagefs_available="50%", pid_available="10%") == threshold()


def test_thresholds_that_make_no_sense_are_all_reported_with_their_class_and_field() -> None:
    with pytest.raises(InvalidInputError) as caught:
        threshold(memory_available="5 gigs", nodefs_available="120%")

    assert [(error.file, error.field) for error in caught.value.errors] == [
        ("EC2NodeClass default", "spec.kubelet.evictionHard[memory.available]"),
        ("EC2NodeClass default", "spec.kubelet.evictionHard[nodefs.available]"),
    ]


MEASURED = {
    "t4g.small": ("1408312Ki", "1930m"),
    "t4g.medium": ("3377496Ki", None),
    "t4g.xlarge": ("15136012Ki", "3920m"),
    "m5.large": ("7220184Ki", None),
}
"""Allocatable memory and CPU that kubelets of real nodes reported."""


@pytest.mark.parametrize("name", MEASURED)
def test_the_estimate_never_exceeds_what_real_nodes_have(name: str) -> None:
    memory, cpu = MEASURED[name]

    estimated = build_type(name).allocatable

    assert estimated[MEMORY] <= amounts(memory=memory)[MEMORY]
    assert cpu is None or estimated[CPU] <= amounts(cpu=cpu)[CPU]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m5.xlarge", amounts(cpu="3920m", memory="14162Mi", pods="58", ephemeral_storage="17Gi")),
        ("a1.medium", amounts(cpu="940m", memory="1392Mi", pods="8", ephemeral_storage="17Gi")),
    ],
)
def test_allocatable_is_right_to_the_byte(name: str, expected: Resources) -> None:
    allocatable = build_type(name).allocatable

    assert {key: allocatable[key] for key in expected} == expected
