"""Capacity that is paid for already goes first, and no further than it reaches."""

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.plan import Plan
from tests.support.build import a_pod, a_pool, affinity, cluster, pods
from tests.support.catalog import (
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
from tests.support.outcome import new_node_of, reasons, settled, unplaced
from tests.support.solving import packed, solved

APP = {"app": "web"}


def kind(name: str, cpu: int, *held: tuple[str, int], price: float | None = None) -> InstanceType:
    """A type for sale everywhere, with (reservation, slots) in the first zone."""
    price = float(cpu) if price is None else price
    rest = offerings(price, [(ON_DEMAND, Z1), (ON_DEMAND, Z2), (SPOT, Z1)])
    return a_type(
        name,
        cpu=cpu,
        memory=f"{2 * cpu}Gi",
        pods=10,
        offered=[*rest, *(reserved(Z1, *h) for h in held)],
    )


def bought(plan: Plan) -> list[tuple[str, str]]:
    """(type, reservation or capacity type) of each new node, sorted."""
    return sorted(
        (node.instance_type.name, node.offering.reservation_id or node.offering.capacity_type)
        for node in plan.nodes
    )


def test_a_reservation_is_used_before_anything_is_paid_for() -> None:
    world = cluster([a_pod("p")], types=[kind("small", 2, ("cr-1", 1)), kind("tiny", 1)])

    node = new_node_of(solved(world), "p")

    assert node.offering.capacity_type == RESERVED
    assert node.reservation_ids == ("cr-1",)
    assert node.requirements[label_keys.CAPACITY_TYPE].values == {RESERVED}
    assert node.requirements[label_keys.CAPACITY_RESERVATION_ID].values == {"cr-1"}


def test_two_reservations_are_used_up_before_the_third_pod_is_paid_for() -> None:
    # S59: a claim is bound to one reservation when it is opened, so slots are counted
    # exactly and all three pods are placed in one pass; the reference needs three.
    types = [kind("small", 2, ("cr-small", 1)), kind("medium", 4, ("cr-medium", 1))]
    world = cluster(pods(3, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]), types=types)

    held = bought(packed(world))

    assert {what for _, what in held} >= {"cr-small", "cr-medium"}
    assert [name for name, what in held if what in (SPOT, ON_DEMAND)] == ["small"]


def test_a_reservation_that_two_pools_share_is_counted_once() -> None:
    # S60
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    world = cluster(
        [a_pod(f"p-{of}", cpu="1.8", node_selector={"of": of}) for of in "ab"],
        pools,
        types=[kind("small", 2, ("cr-1", 1))],
    )

    plan = solved(world)

    assert sorted(node.reservation_ids for node in plan.nodes) == [(), ("cr-1",)]


def test_reservations_of_two_pools_are_both_used_in_one_pass() -> None:
    # S60
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    world = cluster(
        [a_pod(f"p-{of}", cpu="1.8", node_selector={"of": of}) for of in "ab"],
        pools,
        types={of: [kind("small", 2, (f"cr-{of}", 1))] for of in "ab"},
    )

    assert bought(solved(world)) == [("small", "cr-a"), ("small", "cr-b")]


def test_two_reservations_on_one_type_are_used_up_slot_by_slot() -> None:
    # S61: in one pass, see S59.
    types = [kind("small", 2, ("cr-1", 1), ("cr-2", 2))]
    world = cluster(pods(4, labels=APP, anti_affinity=[affinity(APP)]), types=types)

    held = sorted(what for _, what in bought(solved(world)))

    assert held[:3] == ["cr-1", "cr-2", "cr-2"]
    assert held[3] in (ON_DEMAND, SPOT)


def test_a_taken_reservation_does_not_drive_pods_to_a_lighter_pool() -> None:
    # S62: the reference makes the second pod wait a pass and then buys in the heavier
    # pool; here it is bought there at once.
    heavy, light = a_pool("heavy", weight=10), a_pool("light")
    world = cluster(
        pods(2, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]),
        [heavy, light],
        types={"heavy": [kind("small", 2, ("cr-1", 1))], "light": [kind("small", 2)]},
    )

    plan = solved(world)

    assert unplaced(plan) == []
    assert [node.nodepool for node in plan.nodes] == ["heavy", "heavy"]
    assert sorted(node.reservation_ids for node in plan.nodes) == [(), ("cr-1",)]


def test_a_reservation_used_up_in_one_pass_is_gone_in_the_next() -> None:
    types = [kind("small", 2, ("cr-1", 1))]
    world = cluster([a_pod("first", cpu="1.8")], types=types)
    later = settled(world, solved(world), [a_pod("second", cpu="1.8")])

    assert bought(solved(later)) in ([("small", SPOT)], [("small", ON_DEMAND)])


def test_several_pods_share_one_reserved_node() -> None:
    # S63
    world = cluster(pods(3, cpu="500m"), types=[kind("small", 2, ("cr-1", 1))])

    plan = packed(world)

    assert bought(plan) == [("small", "cr-1")]


def test_a_reservation_listed_twice_holds_the_smaller_number() -> None:
    # S64
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    world = cluster(
        [a_pod(f"p-{of}", cpu="1.8", node_selector={"of": of}) for of in "ab"],
        pools,
        types={"a": [kind("small", 2, ("cr-1", 2))], "b": [kind("small", 2, ("cr-1", 1))]},
    )

    held = sorted(node.reservation_ids for node in solved(world).nodes)

    assert held == [(), ("cr-1",)]


def test_switched_off_reservations_are_not_used() -> None:
    world = cluster([a_pod("p")], types=[kind("small", 2, ("cr-1", 1))])

    plan = solved(world, reserved_capacity=False)

    assert new_node_of(plan, "p").offering.capacity_type != RESERVED


def test_a_pod_that_insists_on_on_demand_does_not_take_a_reservation() -> None:
    insists = {label_keys.CAPACITY_TYPE: ON_DEMAND}
    world = cluster([a_pod("p", node_selector=insists)], types=[kind("small", 2, ("cr-1", 1))])

    node = new_node_of(solved(world), "p")

    assert (node.offering.capacity_type, node.reservation_ids) == (ON_DEMAND, ())


def test_a_reservation_too_small_for_a_pod_makes_nobody_wait() -> None:
    world = cluster([a_pod("p", cpu=3)], types=[kind("small", 2, ("cr-1", 1)), kind("large", 4)])

    assert bought(solved(world)) == [("large", SPOT)] or bought(solved(world)) == [
        ("large", ON_DEMAND)
    ]


def test_a_pod_that_no_reserved_machine_can_hold_is_told_why() -> None:
    only = a_type("t", offered=[reserved(Z1, "cr-1", 2)])
    world = cluster([a_pod("p", more={GPU_A: 1})], types=[only])

    assert reasons(solved(world)) == {"p": ["resources"]}
