"""Capacity that is paid for already goes first, and no further than it reaches."""

from dovetail.model import labels as label_keys
from dovetail.model.catalog import InstanceType
from dovetail.model.plan import Plan
from tests.support.build import a_pod, a_pool, affinity, cluster, pods
from tests.support.catalog import ON_DEMAND, RESERVED, SPOT, Z1, Z2, a_type, offerings, reserved
from tests.support.outcome import new_node_of, settled, unplaced, unplaced_pods
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
    # S59; see docs for how many passes each takes.
    types = [kind("small", 2, ("cr-small", 1)), kind("medium", 4, ("cr-medium", 1))]
    world = cluster(pods(3, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]), types=types)
    seen: list[tuple[str, str]] = []
    for _ in range(3):
        plan = packed(world)
        seen += bought(plan)
        world = settled(world, plan, unplaced_pods(plan))

    assert world.pending == ()
    assert sorted(what for _, what in seen)[:2] == ["cr-medium", "cr-small"]
    assert ("small", ON_DEMAND) in seen or ("small", SPOT) in seen


def test_a_reservation_that_two_pools_share_is_counted_once() -> None:
    # S60
    pools = [a_pool("a", labels={"of": "a"}), a_pool("b", labels={"of": "b"})]
    world = cluster(
        [a_pod(f"p-{of}", cpu="1.8", node_selector={"of": of}) for of in "ab"],
        pools,
        types=[kind("small", 2, ("cr-1", 1))],
    )

    plan = solved(world)

    assert [node.reservation_ids for node in plan.nodes] == [("cr-1",)]
    assert len(unplaced(plan)) == 1


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
    # S61
    types = [kind("small", 2, ("cr-1", 1), ("cr-2", 2))]
    world = cluster(pods(4, labels=APP, anti_affinity=[affinity(APP)]), types=types)
    seen: list[tuple[str, str]] = []
    for _ in range(4):
        plan = solved(world)
        seen += bought(plan)
        world = settled(world, plan, unplaced_pods(plan))

    held = sorted(what for _, what in seen)
    assert world.pending == ()
    assert held[:3] == ["cr-1", "cr-2", "cr-2"]
    assert len(held) == 4


def test_a_taken_reservation_makes_pods_wait_rather_than_use_a_lighter_pool() -> None:
    # S62
    heavy, light = a_pool("heavy", weight=10), a_pool("light")
    world = cluster(
        pods(2, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]),
        [heavy, light],
        types={"heavy": [kind("small", 2, ("cr-1", 1))], "light": [kind("small", 2)]},
    )

    first = solved(world)
    second = solved(settled(world, first, unplaced_pods(first)))

    assert [node.nodepool for node in first.nodes] == ["heavy"]
    assert [one.deferred for one in first.unplaced] == [True]
    assert [(n.nodepool, n.offering.reservation_id) for n in second.nodes] == [("heavy", "")]


def test_with_fallback_a_taken_reservation_is_paid_for_at_once() -> None:
    world = cluster(
        pods(2, cpu="1.8", labels=APP, anti_affinity=[affinity(APP)]),
        types=[kind("small", 2, ("cr-1", 1))],
    )

    plan = solved(world, reserved_fallback=True)

    assert unplaced(plan) == []
    assert sorted(bool(node.reservation_ids) for node in plan.nodes) == [False, True]


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

    assert [node.reservation_ids for node in solved(world).nodes] == [("cr-1",)]


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
