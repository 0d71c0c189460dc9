"""Capacity reservations are used first, and only as far as their slots go."""

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.plan import Plan
from tests.support.scheduling.builders import a_pod, a_pool, affinity, cluster, pods
from tests.support.scheduling.instance_types import (
    GPU_A,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Z1,
    Z2,
    a_type,
    offerings,
    reserved,
)
from tests.support.scheduling.plans import new_node_of, reasons, settled, unplaced
from tests.support.scheduling.solver import packed, solved

APP = {"app": "web"}


def an_instance_type(
    name: str, cpu: int, *reservations: tuple[str, int], price: float | None = None
) -> InstanceType:
    """Return a type offered in all zones, with (reservation, slots) in the first one."""
    price = float(cpu) if price is None else price
    rest = offerings(price, [(ON_DEMAND, Z1), (ON_DEMAND, Z2), (SPOT, Z1)])
    return a_type(
        name,
        cpu=cpu,
        memory=f"{2 * cpu}Gi",
        pods=10,
        offered=[*rest, *(reserved(Z1, *h) for h in reservations)],
    )


def launched(plan: Plan) -> list[tuple[str, str]]:
    """Return (type, reservation or capacity type) of each new node, sorted."""
    return sorted(
        (node.instance_type.name, node.offering.reservation_id or node.offering.capacity_type)
        for node in plan.nodes
    )


def test_a_reservation_is_used_before_anything_is_paid_for() -> None:
    snapshot = cluster(
        [a_pod("p")], types=[an_instance_type("small", 2, ("cr-1", 1)), an_instance_type("tiny", 1)]
    )

    node = new_node_of(solved(snapshot), "p")

    assert node.offering.capacity_type == RESERVED
    assert node.reservation_ids == ("cr-1",)
    assert node.requirements[label_keys.CAPACITY_TYPE].values == {RESERVED}
    assert node.requirements[label_keys.CAPACITY_RESERVATION_ID].values == {"cr-1"}


def test_two_reservations_are_used_up_before_the_third_pod_is_paid_for() -> None:
    # S59: a claim is bound to one reservation when it is opened, so slots are counted
    # exactly and all three pods are placed in one pass; Karpenter needs three.
    types = [an_instance_type("small", 2, ("cr-small", 1)), an_instance_type("medium", 4, ("cr-medium", 1))]
    snapshot = cluster(pods(3, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]), types=types)

    reservations = launched(packed(snapshot))

    assert {what for _, what in reservations} >= {"cr-small", "cr-medium"}
    assert [name for name, what in reservations if what in (SPOT, ON_DEMAND)] == ["small"]


def test_a_reservation_that_two_pools_share_is_counted_once() -> None:
    # S60
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    snapshot = cluster(
        [a_pod(f"p-{pool}", cpu="1.8", node_selector={"of": pool}) for pool in "ab"],
        pools,
        types=[an_instance_type("small", 2, ("cr-1", 1))],
    )

    plan = solved(snapshot)

    assert sorted(node.reservation_ids for node in plan.nodes) == [(), ("cr-1",)]


def test_reservations_of_two_pools_are_both_used_in_one_pass() -> None:
    # S60
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    snapshot = cluster(
        [a_pod(f"p-{pool}", cpu="1.8", node_selector={"of": pool}) for pool in "ab"],
        pools,
        types={pool: [an_instance_type("small", 2, (f"cr-{pool}", 1))] for pool in "ab"},
    )

    assert launched(solved(snapshot)) == [("small", "cr-a"), ("small", "cr-b")]


def test_two_reservations_on_one_type_are_used_up_slot_by_slot() -> None:
    # S61: in one pass, see S59.
    types = [an_instance_type("small", 2, ("cr-1", 1), ("cr-2", 2))]
    snapshot = cluster(pods(4, labels=APP, anti_affinity=[affinity(APP)]), types=types)

    reservations = sorted(what for _, what in launched(solved(snapshot)))

    assert reservations[:3] == ["cr-1", "cr-2", "cr-2"]
    assert reservations[3] in (ON_DEMAND, SPOT)


def test_a_taken_reservation_does_not_drive_pods_to_a_lighter_pool() -> None:
    # S62: Karpenter leaves the second pod pending for a pass and then launches in the
    # heavier pool; here that happens at once.
    heavy, light = a_pool("heavy", weight=10), a_pool("light")
    snapshot = cluster(
        pods(2, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]),
        [heavy, light],
        types={"heavy": [an_instance_type("small", 2, ("cr-1", 1))], "light": [an_instance_type("small", 2)]},
    )

    plan = solved(snapshot)

    assert unplaced(plan) == []
    assert [node.nodepool for node in plan.nodes] == ["heavy", "heavy"]
    assert sorted(node.reservation_ids for node in plan.nodes) == [(), ("cr-1",)]


def test_a_reservation_used_up_in_one_pass_is_gone_in_the_next() -> None:
    types = [an_instance_type("small", 2, ("cr-1", 1))]
    snapshot = cluster([a_pod("first", cpu="1.8")], types=types)
    later = settled(snapshot, solved(snapshot), [a_pod("second", cpu="1.8")])

    assert launched(solved(later)) in ([("small", SPOT)], [("small", ON_DEMAND)])


def test_several_pods_share_one_reserved_node() -> None:
    # S63
    snapshot = cluster(pods(3, cpu="500m"), types=[an_instance_type("small", 2, ("cr-1", 1))])

    plan = packed(snapshot)

    assert launched(plan) == [("small", "cr-1")]


def test_a_reservation_listed_twice_holds_the_smaller_number() -> None:
    # S64
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    snapshot = cluster(
        [a_pod(f"p-{pool}", cpu="1.8", node_selector={"of": pool}) for pool in "ab"],
        pools,
        types={
            "a": [an_instance_type("small", 2, ("cr-1", 2))],
            "b": [an_instance_type("small", 2, ("cr-1", 1))],
        },
    )

    reservations = sorted(node.reservation_ids for node in solved(snapshot).nodes)

    assert reservations == [(), ("cr-1",)]


def test_switched_off_reservations_are_not_used() -> None:
    snapshot = cluster([a_pod("p")], types=[an_instance_type("small", 2, ("cr-1", 1))])

    plan = solved(snapshot, reserved_capacity=False)

    assert new_node_of(plan, "p").offering.capacity_type != RESERVED


def test_a_pod_that_requires_on_demand_does_not_take_a_reservation() -> None:
    on_demand_only = {label_keys.CAPACITY_TYPE: ON_DEMAND}
    snapshot = cluster(
        [a_pod("p", node_selector=on_demand_only)], types=[an_instance_type("small", 2, ("cr-1", 1))]
    )

    node = new_node_of(solved(snapshot), "p")

    assert (node.offering.capacity_type, node.reservation_ids) == (ON_DEMAND, ())


def test_a_reservation_too_small_for_a_pod_leaves_no_pod_pending() -> None:
    snapshot = cluster(
        [a_pod("p", cpu=3)], types=[an_instance_type("small", 2, ("cr-1", 1)), an_instance_type("large", 4)]
    )

    assert launched(solved(snapshot)) == [("large", SPOT)] or launched(solved(snapshot)) == [
        ("large", ON_DEMAND)
    ]


def test_a_pod_too_large_for_every_reservation_gets_a_reason() -> None:
    only = a_type("t", offered=[reserved(Z1, "cr-1", 2)])
    snapshot = cluster([a_pod("p", more={GPU_A: 1})], types=[only])

    assert reasons(solved(snapshot)) == {"p": ["resources"]}
