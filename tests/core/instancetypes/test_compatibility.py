"""Machines that cannot be started as a class says are listed, but cannot be bought."""

import msgspec
import pytest

from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.compatibility import can_start
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import Kubelet, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    Found,
    Interface,
    LaunchSpec,
    PlacementGroup,
)
from dovetail.model.kube.resources import PODS
from tests.core.instancetypes.shop import ZONES, available, bought, machine

PRIMARY = Interface()
EFA_HERE = Interface(card=0, device=1, kind="efa-only")


def a_class(**launch: object) -> NodeClass:
    return NodeClass(launch=LaunchSpec(**launch))  # type: ignore[arg-type]


def test_connection_tracking_needs_nitro() -> None:
    tracked = a_class(connection_tracking=ConnectionTracking(udp=30))

    assert can_start(machine("m5.large"), tracked)
    assert not can_start(machine("m4.large"), tracked)
    assert can_start(machine("m4.large"), NodeClass())


def test_nested_virtualization_needs_a_processor_that_has_it() -> None:
    plain = msgspec.structs.replace(machine("m5.large"), cpu_features=())
    able = msgspec.structs.replace(plain, cpu_features=("nested-virtualization",))

    assert not can_start(plain, a_class(nested_virtualization="enabled"))
    assert can_start(able, a_class(nested_virtualization="enabled"))
    assert can_start(plain, a_class(nested_virtualization="disabled"))


def in_a_group(strategy: str, partitions: int = 0) -> NodeClass:
    group = PlacementGroup(id="pg-1", strategy=strategy, partitions=partitions)
    return NodeClass(found=Found(placement_group=group))


def test_a_placement_group_takes_the_machines_that_its_strategy_is_for() -> None:
    picky = msgspec.structs.replace(machine("m5.large"), placement_strategies=("spread",))
    untold = msgspec.structs.replace(picky, placement_strategies=())

    assert can_start(picky, in_a_group("spread"))
    assert not can_start(picky, in_a_group("cluster"))
    assert can_start(untold, in_a_group("cluster"))


def test_pods_can_ask_for_a_placement_group_and_for_its_partitions() -> None:
    known = bought("m5.large", in_a_group("partition", 3)).requirements
    without = bought("m5.large").requirements

    assert known[label_keys.PLACEMENT_GROUP_ID].values == {"pg-1"}
    assert known[label_keys.PLACEMENT_GROUP_PARTITION].values == {"1", "2", "3"}
    assert without[label_keys.PLACEMENT_GROUP_ID].operator == "DoesNotExist"
    assert without[label_keys.PLACEMENT_GROUP_PARTITION].operator == "DoesNotExist"


@pytest.mark.parametrize(
    ("name", "interfaces", "fits"),
    [
        ("m5.large", (PRIMARY,), True),
        ("m5.large", (PRIMARY, Interface(card=1, device=1)), False),
        ("m5.large", (PRIMARY, EFA_HERE), False),
        ("m5.large", tuple(Interface(device=number) for number in range(4)), False),
        ("c5n.18xlarge", (PRIMARY, EFA_HERE), True),
        ("p4d.24xlarge", (PRIMARY, Interface(card=3, device=1, kind="efa-only")), True),
    ],
)
def test_interfaces_must_have_a_place_on_the_machine(
    name: str, interfaces: tuple[Interface, ...], fits: bool
) -> None:
    assert can_start(machine(name), a_class(interfaces=interfaces)) is fits


def test_what_cannot_be_started_is_listed_without_an_offering_that_can_be_bought() -> None:
    m5 = bought("m5.large", a_class(interfaces=(PRIMARY, EFA_HERE)))

    assert available(m5) == set()
    assert len(m5.offerings) == 4


def test_an_interface_for_efa_alone_on_the_first_card_takes_its_addresses_from_pods() -> None:
    usual = bought("c5n.18xlarge").capacity
    fewer = bought("c5n.18xlarge", a_class(interfaces=(PRIMARY, EFA_HERE))).capacity
    elsewhere = Interface(card=1, device=1, kind="efa-only")
    p4d = bought("p4d.24xlarge", a_class(interfaces=(PRIMARY, elsewhere))).capacity

    assert usual[PODS] - fewer[PODS] == machine("c5n.18xlarge").ipv4_per_eni - 1
    assert fewer[EFA] == 1
    assert p4d[PODS] == bought("p4d.24xlarge").capacity[PODS]


def test_interfaces_that_are_listed_without_efa_mean_no_efa() -> None:
    listed = bought("c5n.18xlarge", a_class(interfaces=(PRIMARY,))).capacity

    assert EFA not in listed
    assert bought("c5n.18xlarge").capacity[EFA] == 1


def test_soft_eviction_thresholds_set_nothing_aside() -> None:
    soft = Kubelet(
        eviction_soft=FrozenDict({"memory.available": "4Gi"}),
        eviction_soft_grace=FrozenDict({"memory.available": "1m"}),
    )

    assert bought("m5.large", NodeClass(kubelet=soft)).overhead == bought("m5.large").overhead


def test_a_local_zone_is_a_zone_like_others() -> None:
    local = "us-west-2-lax-1a"
    region = Region(
        name="eu-west-1",
        zones=FrozenDict({**ZONES, local: "usw2-lax1-az1"}),
        offered=FrozenDict({"m5.large": frozenset({local})}),
    )

    m5 = bought("m5.large", region=region)

    assert available(m5) == {(local, "on-demand"), (local, "spot")}
