"""Plans with discounts: commitments are used first, the rest is launched as usual."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.instancetypes.discounts import Discounts
from dovetail.core.scheduling.discounted import BilledPlan, solve_discounted
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import (
    DiscountBook,
    DiscountScope,
    PercentageDiscount,
    ReservedInstances,
    SavingsPlan,
)
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.plan import Plan
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_node, a_pod, cluster
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, Z2, a_type
from tests.support.scheduling.plans import capacity_types_of, type_names
from tests.support.scheduling.strategies import clusters

SETTINGS = SchedulingSettings()


def an_instance_type(name: str, price: float, *, cpu: int = 2) -> InstanceType:
    """Return a type that holds one pod, in two zones; spot is 60 % cheaper."""
    offered = [
        Offering(zone=zone, capacity_type=kind, price=price * factor)
        for zone in (Z1, Z2)
        for kind, factor in ((ON_DEMAND, 1.0), (SPOT, 0.4))
    ]
    return a_type(name, cpu=cpu, memory="8Gi", offered=offered)


INSTANCE_TYPES = (an_instance_type("m.large", 0.1), an_instance_type("c.large", 0.09))


def pending_snapshot(count: int, **more: object) -> ClusterSnapshot:
    pods = [a_pod(f"p{number}", cpu="1500m") for number in range(count)]
    return cluster(pods, types=INSTANCE_TYPES, **more)  # type: ignore[arg-type]


def slots(count: int) -> DiscountBook:
    reservation = ReservedInstances(name="r", instance_type="m.large", count=count, price=0.06)
    return DiscountBook(reservations=(reservation,))


def a_plan(commitment: float, **scope: str) -> DiscountBook:
    only = DiscountScope(**{key: (value,) for key, value in scope.items()})  # type: ignore[arg-type]
    plan = SavingsPlan(name="p", commitment=commitment, percent=50, scope=only)
    return DiscountBook(plans=(plan,))


def solved(snapshot: ClusterSnapshot, book: DiscountBook) -> BilledPlan:
    return solve_discounted(snapshot, SETTINGS, Discounts(book, region="test"))


def solve_billed(snapshot: ClusterSnapshot, book: DiscountBook) -> BilledPlan:
    billed = solved(snapshot, book)
    violations = check(snapshot, at_list_prices(billed.plan, snapshot))
    assert [violation for violation in violations if violation.rule != "price"] == []
    return billed


def at_list_prices(plan: Plan, snapshot: ClusterSnapshot) -> Plan:
    """Return the plan as the checker, who knows nothing of discounts, would expect it."""
    replace = msgspec.structs.replace
    nodes = []
    for node in plan.nodes:
        types_by_name = {
            instance_type.name: instance_type for instance_type in snapshot.instance_types[node.nodepool]
        }
        types = tuple(types_by_name[instance_type.name] for instance_type in node.instance_types)
        launched = replace(node.offering, price=0)
        (listed,) = (offering for offering in types[0].offerings if replace(offering, price=0) == launched)
        nodes.append(replace(node, instance_types=types, offering=listed))
    return replace(plan, nodes=tuple(nodes))


def test_without_discounts_the_plan_is_the_same() -> None:
    snapshot = pending_snapshot(5)

    billed = solve_billed(snapshot, DiscountBook())

    assert billed.plan == solve(snapshot, SETTINGS)
    assert billed.list_price == pytest.approx(billed.plan.price)


def test_a_percentage_on_one_family_makes_it_the_cheapest() -> None:
    off = PercentageDiscount(percent=20, scope=DiscountScope(instance_types=("m.*",)))

    billed = solve_billed(pending_snapshot(3), DiscountBook(percentages=(off,)))

    assert set(type_names(billed.plan)) == {"m.large"}
    assert billed.plan.price == pytest.approx(3 * 0.04 * 0.8)
    assert billed.list_price == pytest.approx(3 * 0.04)


def test_the_first_instances_are_the_reserved_ones_and_the_others_the_cheapest() -> None:
    billed = solve_billed(pending_snapshot(5), slots(2))

    assert sorted(type_names(billed.plan)) == ["c.large"] * 3 + ["m.large"] * 2
    assert capacity_types_of(billed.plan) == {ON_DEMAND: 2, SPOT: 3}
    assert sorted(node.price for node in billed.plan.nodes) == pytest.approx([0.036] * 3 + [0.06] * 2)
    assert billed.added_cost == pytest.approx(3 * 0.036)


def test_a_savings_plan_is_used_until_its_commitment_is_spent() -> None:
    billed = solve_billed(pending_snapshot(10), a_plan(0.2, families="c"))

    assert capacity_types_of(billed.plan) == {ON_DEMAND: 4, SPOT: 6}
    assert billed.used_by_new == pytest.approx(4 * 0.045)
    assert billed.list_price == pytest.approx(4 * 0.09 + 6 * 0.036)


def test_nodes_that_run_have_used_their_part_already() -> None:
    existing = [
        a_node(
            f"old-{number}",
            cpu=1,
            zone=Z1,
            capacity_type=ON_DEMAND,
            labels={label_keys.INSTANCE_TYPE: "m.large"},
        )
        for number in range(2)
    ]

    billed = solve_billed(pending_snapshot(3, nodes=existing), slots(3))

    assert capacity_types_of(billed.plan) == {ON_DEMAND: 1, SPOT: 2}
    assert (billed.used_by_existing, billed.used_by_new) == (pytest.approx(0.12), pytest.approx(0.06))


def test_what_commitments_cover_can_become_nothing_else() -> None:
    billed = solve_billed(pending_snapshot(2), slots(1))

    (covered,) = [node for node in billed.plan.nodes if node.instance_type.name == "m.large"]
    assert [instance_type.name for instance_type in covered.instance_types] == ["m.large"]
    assert covered.requirements.get_or_exists(label_keys.CAPACITY_TYPE).values == {ON_DEMAND}


def test_a_commitment_that_nothing_fits_into_changes_nothing() -> None:
    billed = solve_billed(pending_snapshot(3), a_plan(0.001))

    assert capacity_types_of(billed.plan) == {SPOT: 3}
    assert billed.used_by_new == 0


BOOKS = st.builds(
    DiscountBook,
    percentages=st.just(()) | st.just((PercentageDiscount(percent=10),)),
    plans=st.lists(
        st.builds(
            SavingsPlan,
            name=st.just("p"),
            commitment=st.floats(0.1, 3),
            percent=st.sampled_from([20.0, 60.0]),
        ),
        max_size=1,
    ).map(tuple),
    reservations=st.lists(
        st.builds(
            ReservedInstances,
            name=st.just("r"),
            instance_type=st.sampled_from(["default", "small"]),
            count=st.integers(1, 3),
            price=st.just(0.05),
        ),
        max_size=1,
    ).map(tuple),
)


@settings(max_examples=40, deadline=None)
@given(snapshot=clusters(), book=BOOKS)
def test_no_commitment_is_exceeded_whatever_its_size(snapshot: ClusterSnapshot, book: DiscountBook) -> None:
    billed = solved(snapshot, book)

    assert billed.used_by_existing + billed.used_by_new <= billed.committed_cost + 1e-6
    assert all(node.price >= 0 for node in billed.plan.nodes)
    assert billed.added_cost >= -1e-6


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.sampled_from(["300m", "900m", "1500m", "3"]), min_size=1, max_size=12), book=BOOKS)
def test_a_plan_in_rounds_is_valid_too(sizes: list[str], book: DiscountBook) -> None:
    pods = [a_pod(f"p{number}", cpu=size) for number, size in enumerate(sizes)]

    billed = solve_billed(cluster(pods), book)

    assert sum(len(node.pods) for node in billed.plan.nodes) == len(pods)
    assert billed.used_by_new <= billed.committed_cost + 1e-6


@settings(max_examples=20, deadline=None)
@given(snapshot=clusters(), book=BOOKS)
def test_no_plan_adds_more_than_one_that_knows_of_no_commitments(
    snapshot: ClusterSnapshot, book: DiscountBook
) -> None:
    bare = DiscountBook(percentages=book.percentages)

    knowing, ignorant = solved(snapshot, book), solved(snapshot, bare)

    assert len(knowing.plan.unschedulable) <= len(ignorant.plan.unschedulable)
    if len(knowing.plan.unschedulable) == len(ignorant.plan.unschedulable):
        assert knowing.added_cost <= ignorant.plan.price + 1e-6
