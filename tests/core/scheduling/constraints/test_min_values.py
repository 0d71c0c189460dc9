"""minValues of a NodePool."""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.settings import MinValuesPolicy
from tests.support.scheduling.builders import Entry, a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import (
    INTEGER,
    ON_DEMAND,
    Z1,
    Z2,
    Z3,
    a_type,
    incremental,
    offerings,
)
from tests.support.scheduling.plans import new_node_of, pods_per_node, reasons, unplaced
from tests.support.scheduling.solver import packed, solved

TYPE, ZONE, ARCH = label_keys.INSTANCE_TYPE, label_keys.ZONE, label_keys.ARCH
PAIR = (
    a_type("one", cpu=1, memory="4Gi", pods=10, offered=offerings(0.5)),
    a_type("four", cpu=4, memory="16Gi", pods=10, offered=offerings(1.0)),
)


def test_pods_are_separated_when_together_they_would_break_min_values() -> None:
    # I5: two pods of 0.8 CPU would fit the large type only; alone, each has both types.
    pool = a_pool(requirements=[(TYPE, "In", ["one", "four"], 2)])
    snapshot = cluster(pods(2, cpu="800m"), [pool], types=PAIR)

    plan = packed(snapshot)

    assert pods_per_node(plan) == [1, 1]
    assert all(len(node.instance_types) >= 2 for node in plan.nodes)


@pytest.mark.parametrize(
    ("entry", "places"),
    [
        ((INTEGER, "Gt", ["2"], 2), True),
        ((INTEGER, "Gt", ["3"], 2), False),
        ((INTEGER, "Lt", ["3"], 2), True),
        ((INTEGER, "Lt", ["2"], 2), False),
        ((INTEGER, "Gte", ["3"], 2), True),
        ((INTEGER, "Lte", ["1"], 2), False),
    ],
    ids=str,
)
def test_min_values_count_numeric_values_as_well(entry: Entry, places: bool) -> None:
    # I6
    snapshot = cluster([a_pod("p")], [a_pool(requirements=[entry])], types=incremental(4))

    assert (unplaced(solved(snapshot)) == []) is places


@pytest.mark.parametrize(
    "entries",
    [
        [(TYPE, "In", ["fake-it-0", "fake-it-1", "fake-it-2"], 1), (TYPE, "NotIn", ["fake-it-9"], 3)],
        [(INTEGER, "Gt", ["0"], 3), (INTEGER, "Lt", ["4"], 1)],
        [(TYPE, "Exists", [], 3), (TYPE, "In", ["fake-it-0", "fake-it-1", "fake-it-2"], 2)],
    ],
    ids=["In and NotIn", "Gt and Lt", "Exists and In"],
)
def test_of_several_entries_on_one_key_the_largest_count_holds(entries: list[Entry]) -> None:
    # I7
    three = cluster([a_pod("p")], [a_pool(requirements=entries)], types=incremental(3))
    two = cluster([a_pod("p")], [a_pool(requirements=entries)], types=incremental(2))

    assert unplaced(solved(three)) == []
    assert unplaced(solved(two)) == ["p"]


def test_min_values_on_several_keys_must_all_hold() -> None:
    # I8
    entries: list[Entry] = [(TYPE, "Exists", [], 2), (ARCH, "Exists", [], 2)]
    one_arch = incremental(3)
    both = [*one_arch, a_type("arm", cpu=8, memory="16Gi", arch="arm64")]

    assert unplaced(solved(cluster([a_pod("p")], [a_pool(requirements=entries)], one_arch))) == ["p"]
    plan = solved(cluster([a_pod("p")], [a_pool(requirements=entries)], both))
    assert "arm" in [kind.name for kind in new_node_of(plan, "p").instance_types]


def test_more_min_values_than_the_catalog_has_leave_the_pod_pending() -> None:
    # I9
    pool = a_pool(requirements=[(TYPE, "Exists", [], 11)])
    plan = solved(cluster([a_pod("p")], [pool], types=incremental(10)))

    assert reasons(plan) == {"p": ["min-values"]}


def test_a_type_list_cut_below_min_values_gives_no_claim() -> None:
    # I10
    pool = a_pool(requirements=[(TYPE, "Exists", [], 2)])
    snapshot = cluster(pods(2), [pool], types=incremental(4))

    plan = solved(snapshot, max_instance_types=1)

    assert plan.nodes == ()
    assert len(unplaced(plan)) == 2


def test_a_type_list_cut_short_keeps_min_values_where_possible() -> None:
    pool = a_pool(requirements=[(TYPE, "Exists", [], 2)])

    plan = solved(cluster([a_pod("p")], [pool], types=incremental(4)), max_instance_types=2)

    assert len(new_node_of(plan, "p").instance_types) == 2


TWO_TYPES: list[Entry] = [(TYPE, "In", ["fake-it-0", "fake-it-1"], 3)]
TWO_ZONES: list[Entry] = [(ZONE, "In", [Z1, Z2, Z3], 3)]
IN_TWO_ZONES = [
    a_type(f"t{i}", cpu=i + 1, offered=offerings(1.0 + i, [(ON_DEMAND, Z1), (ON_DEMAND, Z2)]))
    for i in range(2)
]


def test_strictly_too_few_types_or_zones_leave_the_pod_pending() -> None:
    # P48
    types = cluster([a_pod("p")], [a_pool(requirements=TWO_TYPES)], types=incremental(4))
    zones = cluster([a_pod("p")], [a_pool(requirements=TWO_ZONES)], types=IN_TWO_ZONES)

    assert unplaced(solved(types)) == ["p"]
    assert unplaced(solved(zones)) == ["p"]


def test_best_effort_launches_with_fewer_values_and_records_it() -> None:
    # P49
    types = cluster([a_pod("p")], [a_pool(requirements=TWO_TYPES)], types=incremental(4))
    zones = cluster([a_pod("p")], [a_pool(requirements=TWO_ZONES)], types=IN_TWO_ZONES)

    by_type = new_node_of(solved(types, min_values_policy=MinValuesPolicy.BEST_EFFORT), "p")
    by_zone = new_node_of(solved(zones, min_values_policy=MinValuesPolicy.BEST_EFFORT), "p")

    assert by_type.min_values_relaxed
    assert by_type.requirements[TYPE].min_values == 2
    assert by_zone.min_values_relaxed
    assert by_zone.requirements[ZONE].min_values == 2
    assert by_zone.requirements[ZONE].values == {Z1, Z2, Z3}


def test_best_effort_that_can_be_met_relaxes_nothing() -> None:
    pool = a_pool(requirements=[(TYPE, "Exists", [], 2)])
    snapshot = cluster([a_pod("p")], [pool], types=incremental(4))

    node = new_node_of(solved(snapshot, min_values_policy=MinValuesPolicy.BEST_EFFORT), "p")

    assert not node.min_values_relaxed
    assert node.requirements[TYPE].min_values == 2


def test_best_effort_relaxes_the_heavier_pool_before_it_looks_at_a_lighter_one() -> None:
    # P50
    heavy = a_pool("heavy", TWO_TYPES, weight=10)
    snapshot = cluster([a_pod("p")], [heavy, a_pool("light")], types=incremental(4))

    node = new_node_of(solved(snapshot, min_values_policy=MinValuesPolicy.BEST_EFFORT), "p")

    assert (node.nodepool, node.min_values_relaxed) == ("heavy", True)


def test_strictly_the_lighter_pool_is_used_when_the_heavier_breaks_min_values() -> None:
    heavy = a_pool("heavy", TWO_TYPES, weight=10)
    snapshot = cluster([a_pod("p")], [heavy, a_pool("light")], types=incremental(4))

    assert new_node_of(solved(snapshot), "p").nodepool == "light"


def test_best_effort_relaxes_several_keys_at_once() -> None:
    # P51
    entries: list[Entry] = [(TYPE, "In", ["t0"], 2), (ZONE, "In", [Z1, Z2, Z3], 3)]
    snapshot = cluster([a_pod("p")], [a_pool(requirements=entries)], types=IN_TWO_ZONES)

    node = new_node_of(solved(snapshot, min_values_policy=MinValuesPolicy.BEST_EFFORT), "p")

    assert node.min_values_relaxed
    assert node.requirements[TYPE].min_values == 1
    assert node.requirements[ZONE].min_values == 2
