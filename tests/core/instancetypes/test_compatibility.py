"""Types that are incompatible with a node class are listed as unavailable."""

import msgspec
import pytest

from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.compatibility import can_launch
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    LaunchSpec,
    NetworkInterface,
    PlacementGroup,
    ResolvedResources,
)
from dovetail.model.kube.resources import PODS
from tests.core.instancetypes.builders import ZONES, available, build_type, ec2_type

PRIMARY = NetworkInterface()
EFA_HERE = NetworkInterface(card=0, device=1, kind="efa-only")


def a_class(**launch: object) -> EC2NodeClass:
    return EC2NodeClass(launch=LaunchSpec(**launch))  # type: ignore[arg-type]


def test_connection_tracking_needs_nitro() -> None:
    tracked = a_class(connection_tracking=ConnectionTracking(udp=30))

    assert can_launch(ec2_type("m5.large"), tracked)
    assert not can_launch(ec2_type("m4.large"), tracked)
    assert can_launch(ec2_type("m4.large"), EC2NodeClass())


def test_nested_virtualization_needs_a_processor_that_has_it() -> None:
    plain = msgspec.structs.replace(ec2_type("m5.large"), cpu_features=())
    able = msgspec.structs.replace(plain, cpu_features=("nested-virtualization",))

    assert not can_launch(plain, a_class(nested_virtualization="enabled"))
    assert can_launch(able, a_class(nested_virtualization="enabled"))
    assert can_launch(plain, a_class(nested_virtualization="disabled"))


def in_a_group(strategy: str, partitions: int = 0) -> EC2NodeClass:
    group = PlacementGroup(id="pg-1", strategy=strategy, partition_count=partitions)
    return EC2NodeClass(resolved=ResolvedResources(placement_group=group))


def test_a_placement_group_takes_the_types_that_support_its_strategy() -> None:
    strategy_types = msgspec.structs.replace(ec2_type("m5.large"), placement_strategies=("spread",))
    untold = msgspec.structs.replace(strategy_types, placement_strategies=())

    assert can_launch(strategy_types, in_a_group("spread"))
    assert not can_launch(strategy_types, in_a_group("cluster"))
    assert can_launch(untold, in_a_group("cluster"))


def test_pods_can_select_a_placement_group_and_its_partitions() -> None:
    requirements = build_type("m5.large", in_a_group("partition", 3)).requirements
    without = build_type("m5.large").requirements

    assert requirements[label_keys.PLACEMENT_GROUP_ID].values == {"pg-1"}
    assert requirements[label_keys.PLACEMENT_GROUP_PARTITION].values == {"1", "2", "3"}
    assert without[label_keys.PLACEMENT_GROUP_ID].operator == "DoesNotExist"
    assert without[label_keys.PLACEMENT_GROUP_PARTITION].operator == "DoesNotExist"


@pytest.mark.parametrize(
    ("name", "interfaces", "fits"),
    [
        ("m5.large", (PRIMARY,), True),
        ("m5.large", (PRIMARY, NetworkInterface(card=1, device=0)), False),
        ("m5.large", (PRIMARY, EFA_HERE), False),
        ("m5.large", tuple(NetworkInterface(device=number) for number in range(4)), False),
        ("c5n.18xlarge", (PRIMARY, EFA_HERE), True),
        ("p4d.24xlarge", (PRIMARY, NetworkInterface(card=3, device=1, kind="efa-only")), True),
        ("p4d.24xlarge", (PRIMARY, NetworkInterface(card=4, device=1, kind="efa-only")), False),
        ("hpc6id.32xlarge", (PRIMARY, NetworkInterface(card=1, device=1, kind="efa-only")), False),
        ("hpc6id.32xlarge", (PRIMARY, NetworkInterface(card=1, device=0, kind="efa-only")), True),
        ("hpc7a.96xlarge", (PRIMARY, NetworkInterface(card=1, device=1, kind="efa-only")), True),
        ("m5.large", (PRIMARY, NetworkInterface(device=3)), False),
    ],
)
def test_interfaces_must_fit_on_the_network_cards(
    name: str, interfaces: tuple[NetworkInterface, ...], fits: bool
) -> None:
    assert can_launch(ec2_type(name), a_class(network_interfaces=interfaces)) is fits


def test_each_network_card_has_its_own_limit() -> None:
    uneven = msgspec.structs.replace(
        ec2_type("p4d.24xlarge"), network_cards=3, card_enis=(4, 2, 1), enis=4, total_enis=7
    )

    def fits(card: int, device: int) -> bool:
        interface = NetworkInterface(card=card, device=device)
        return can_launch(uneven, a_class(network_interfaces=(PRIMARY, interface)))

    assert fits(card=0, device=3)
    assert not fits(card=0, device=4)
    assert fits(card=1, device=1)
    assert not fits(card=2, device=1)
    assert not fits(card=3, device=0)


def test_an_incompatible_type_is_listed_without_available_offerings() -> None:
    m5 = build_type("m5.large", a_class(network_interfaces=(PRIMARY, EFA_HERE)))

    assert available(m5) == set()
    assert len(m5.offerings) == 4


def test_an_interface_for_efa_alone_on_the_first_card_takes_its_addresses_from_pods() -> None:
    usual = build_type("c5n.18xlarge").capacity
    fewer = build_type("c5n.18xlarge", a_class(network_interfaces=(PRIMARY, EFA_HERE))).capacity
    elsewhere = NetworkInterface(card=1, device=1, kind="efa-only")
    p4d = build_type("p4d.24xlarge", a_class(network_interfaces=(PRIMARY, elsewhere))).capacity

    assert usual[PODS] - fewer[PODS] == ec2_type("c5n.18xlarge").ipv4_per_eni - 1
    assert fewer[EFA] == 1
    assert p4d[PODS] == build_type("p4d.24xlarge").capacity[PODS]


def test_interfaces_that_are_listed_without_efa_mean_no_efa() -> None:
    listed = build_type("c5n.18xlarge", a_class(network_interfaces=(PRIMARY,))).capacity

    assert EFA not in listed
    assert build_type("c5n.18xlarge").capacity[EFA] == 1


def test_soft_eviction_thresholds_reserve_nothing() -> None:
    soft = KubeletConfiguration(
        eviction_soft=FrozenDict({"memory.available": "4Gi"}),
        eviction_soft_grace=FrozenDict({"memory.available": "1m"}),
    )

    assert build_type("m5.large", EC2NodeClass(kubelet=soft)).overhead == build_type("m5.large").overhead


def test_a_local_zone_is_a_zone_like_others() -> None:
    local = "us-west-2-lax-1a"
    region = Region(
        name="eu-west-1",
        zones=FrozenDict({**ZONES, local: "usw2-lax1-az1"}),
        offered_zones=FrozenDict({"m5.large": frozenset({local})}),
    )

    m5 = build_type("m5.large", region=region)

    assert available(m5) == {(local, "on-demand"), (local, "spot")}


def test_a_network_card_without_a_known_limit_takes_no_interface() -> None:
    # EC2 described two cards, and the limit of one.
    two_cards = msgspec.structs.replace(ec2_type("m5.large"), network_cards=2, card_enis=(3,))

    assert can_launch(two_cards, a_class(network_interfaces=(PRIMARY,)))
    assert not can_launch(
        two_cards, a_class(network_interfaces=(PRIMARY, NetworkInterface(card=1, device=0)))
    )
