"""Choice of instance type and offering by price."""

from collections.abc import Mapping

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, Z2, a_type, offerings
from tests.support.scheduling.plans import new_node_of, unplaced
from tests.support.scheduling.solver import solved

ZONE, ARCH, OS = label_keys.ZONE, label_keys.ARCH, label_keys.OS
CAPACITY = label_keys.CAPACITY_TYPE

# Every combination of architecture, system, zone and capacity type, no two at one price.
ASSORTMENT = tuple(
    a_type(
        f"{arch}-{system}-{cpu}-{zone}-{kind}",
        cpu=cpu,
        memory=f"{2 * cpu}Gi",
        pods=10,
        arch=arch,
        systems=(system,),
        offered=offerings(cpu * (1 + 0.1 * a + 0.01 * s + 0.003 * z - 0.3 * k), [(kind, zone)]),
    )
    for cpu in (1, 2, 4)
    for a, arch in enumerate(("amd64", "arm64"))
    for s, system in enumerate(("linux", "windows"))
    for z, zone in enumerate((Z1, Z2))
    for k, kind in enumerate((ON_DEMAND, SPOT))
)

PREFERENCES: list[dict[str, str]] = [
    {},
    {ARCH: "amd64"},
    {ARCH: "arm64"},
    {OS: "linux"},
    {OS: "windows"},
    {ZONE: Z2},
    {CAPACITY: SPOT},
    {CAPACITY: ON_DEMAND},
    {CAPACITY: ON_DEMAND, ZONE: Z1},
    {CAPACITY: SPOT, ZONE: Z1},
    {CAPACITY: ON_DEMAND, ARCH: "amd64", OS: "windows"},
    {CAPACITY: SPOT, ZONE: Z2, ARCH: "arm64", OS: "linux"},
]


def cheapest(preference: Mapping[str, str]) -> float:
    """Return the lowest price among types with these labels; all hold a small pod."""
    return min(
        offering.price
        for kind in ASSORTMENT
        for offering in kind.offerings
        if all(kind.requirements[key].has(value) for key, value in preference.items())
    )


@pytest.mark.parametrize("preference", PREFERENCES, ids=str)
def test_a_pods_requirements_get_the_cheapest_type_that_meets_them(preference: dict[str, str]) -> None:
    # I1; the checker has seen that every listed type meets the demands.
    snapshot = cluster([a_pod("p", node_selector=preference)], types=ASSORTMENT)

    assert new_node_of(solved(snapshot), "p").price == pytest.approx(cheapest(preference))


@pytest.mark.parametrize("preference", PREFERENCES, ids=str)
def test_a_pools_requirements_get_the_cheapest_type_that_meets_them(preference: dict[str, str]) -> None:
    # I1
    pool = a_pool(requirements=[(key, "In", [value]) for key, value in preference.items()])
    snapshot = cluster([a_pod("p")], [pool], types=ASSORTMENT)

    node = new_node_of(solved(snapshot), "p")

    assert node.price == pytest.approx(cheapest(preference))
    for kind in node.instance_types:
        assert all(kind.requirements[key].has(value) for key, value in preference.items())


@pytest.mark.parametrize("preference", [{ARCH: "arm"}, {ARCH: "arm", ZONE: Z2}], ids=str)
def test_requirements_that_no_type_meets_launch_nothing(preference: dict[str, str]) -> None:
    # I2
    pool = a_pool(requirements=[(key, "In", [value]) for key, value in preference.items()])

    plan = solved(cluster([a_pod("p", node_selector=preference)], types=ASSORTMENT))
    offered = solved(cluster([a_pod("p")], [pool], types=ASSORTMENT))

    assert (unplaced(plan), unplaced(offered)) == (["p"], ["p"])
    assert plan.nodes == offered.nodes == ()


def test_an_on_demand_pool_looks_at_on_demand_prices_only() -> None:
    # I3
    tempting = a_type("tempting", offered=[*offerings(0.1, [(SPOT, Z1)]), *offerings(2.0, [(ON_DEMAND, Z1)])])
    honest = a_type("honest", offered=[*offerings(0.9, [(SPOT, Z1)]), *offerings(1.0, [(ON_DEMAND, Z1)])])
    pool = a_pool(requirements=[(CAPACITY, "In", [ON_DEMAND])])
    snapshot = cluster([a_pod("p")], [pool], types=[tempting, honest])

    node = new_node_of(solved(snapshot), "p")

    assert (node.instance_type.name, node.price) == ("honest", 1.0)


def test_the_order_of_the_catalog_does_not_matter() -> None:
    # I4
    snapshot = cluster(pods(3, cpu="700m"), types=ASSORTMENT)
    turned = msgspec.structs.replace(snapshot, instance_types=FrozenDict({"default": ASSORTMENT[::-1]}))

    def names(snapshot: ClusterSnapshot) -> list[list[str]]:
        plan = solved(snapshot)
        return [[kind.name for kind in node.instance_types] for node in plan.nodes]

    assert names(snapshot) == names(turned)


def test_types_at_one_price_are_listed_by_name() -> None:
    twins = [a_type(name, offered=offerings(1.0)) for name in ("b", "a", "c")]
    snapshot = cluster([a_pod("p")], types=twins)

    assert [kind.name for kind in new_node_of(solved(snapshot), "p").instance_types] == ["a", "b", "c"]


def test_an_unavailable_offering_is_not_used_however_cheap() -> None:
    shut = a_type("shut", offered=offerings(0.01, closed=True))
    snapshot = cluster([a_pod("p")], types=[shut, a_type("open", offered=offerings(1.0))])

    node = new_node_of(solved(snapshot), "p")

    assert [kind.name for kind in node.instance_types] == ["open"]


def test_the_list_of_types_stops_at_the_most_that_a_claim_may_name() -> None:
    snapshot = cluster([a_pod("p")], types=ASSORTMENT)

    node = new_node_of(solved(snapshot, max_instance_types=3), "p")

    assert len(node.instance_types) == 3
    assert node.price == pytest.approx(cheapest({}))
