"""Plans under discounts: what is paid for is used first, the rest is bought as usual."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.instancetypes.discounts import Discounts
from dovetail.core.scheduling.discounted import Afforded, solve_discounted
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import (
    DiscountBook,
    Percentage,
    ReservedInstances,
    SavingsPlan,
    Scope,
)
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.plan import Plan
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.build import a_node, a_pod, cluster
from tests.support.catalog import ON_DEMAND, SPOT, Z1, Z2, a_type
from tests.support.checker import check
from tests.support.outcome import capacity_types_of, type_names
from tests.support.strategies import clusters

SETTINGS = SchedulingSettings()


def sold(name: str, price: float, *, cpu: int = 2) -> InstanceType:
    """A type that holds one pod, in two zones; spot is 60 % off."""
    offered = [
        Offering(zone=zone, capacity_type=kind, price=price * factor)
        for zone in (Z1, Z2)
        for kind, factor in ((ON_DEMAND, 1.0), (SPOT, 0.4))
    ]
    return a_type(name, cpu=cpu, memory="8Gi", offered=offered)


SHOP = (sold("m.large", 0.1), sold("c.large", 0.09))


def waiting(many: int, **more: object) -> ClusterSnapshot:
    pods = [a_pod(f"p{number}", cpu="1500m") for number in range(many)]
    return cluster(pods, types=SHOP, **more)  # type: ignore[arg-type]


def slots(count: int) -> DiscountBook:
    one = ReservedInstances(name="r", instance_type="m.large", count=count, price=0.06)
    return DiscountBook(reservations=(one,))


def a_plan(commitment: float, **scope: str) -> DiscountBook:
    only = Scope(**{key: (value,) for key, value in scope.items()})  # type: ignore[arg-type]
    one = SavingsPlan(name="p", commitment=commitment, percent=50, scope=only)
    return DiscountBook(plans=(one,))


def solved(snapshot: ClusterSnapshot, book: DiscountBook) -> Afforded:
    return solve_discounted(snapshot, SETTINGS, Discounts(book, region="test"))


def afforded(snapshot: ClusterSnapshot, book: DiscountBook) -> Afforded:
    found = solved(snapshot, book)
    violations = check(snapshot, at_list_prices(found.plan, snapshot))
    assert [one for one in violations if one.rule != "price"] == []
    return found


def at_list_prices(plan: Plan, snapshot: ClusterSnapshot) -> Plan:
    """Return the plan as the checker, who knows nothing of discounts, would expect it."""
    replace = msgspec.structs.replace
    nodes = []
    for node in plan.nodes:
        shop = {one.name: one for one in snapshot.instance_types[node.nodepool]}
        types = tuple(shop[one.name] for one in node.instance_types)
        bought = replace(node.offering, price=0)
        (listed,) = (one for one in types[0].offerings if replace(one, price=0) == bought)
        nodes.append(replace(node, instance_types=types, offering=listed))
    return replace(plan, nodes=tuple(nodes))


def test_without_discounts_the_plan_is_the_same() -> None:
    snapshot = waiting(5)

    found = afforded(snapshot, DiscountBook())

    assert found.plan == solve(snapshot, SETTINGS)
    assert found.list_price == pytest.approx(found.plan.price)


def test_a_percentage_on_one_family_makes_it_the_one_to_buy() -> None:
    off = Percentage(percent=20, scope=Scope(instance_types=("m.*",)))

    found = afforded(waiting(3), DiscountBook(percentages=(off,)))

    assert set(type_names(found.plan)) == {"m.large"}
    assert found.plan.price == pytest.approx(3 * 0.04 * 0.8)
    assert found.list_price == pytest.approx(3 * 0.04)


def test_the_first_instances_are_the_reserved_ones_and_the_others_the_cheapest() -> None:
    found = afforded(waiting(5), slots(2))

    assert sorted(type_names(found.plan)) == ["c.large"] * 3 + ["m.large"] * 2
    assert capacity_types_of(found.plan) == {ON_DEMAND: 2, SPOT: 3}
    assert sorted(node.price for node in found.plan.nodes) == pytest.approx(
        [0.036] * 3 + [0.06] * 2
    )
    assert found.added == pytest.approx(3 * 0.036)


def test_a_savings_plan_is_used_until_its_commitment_is_spent() -> None:
    found = afforded(waiting(10), a_plan(0.2, families="c"))

    assert capacity_types_of(found.plan) == {ON_DEMAND: 4, SPOT: 6}
    assert found.used == pytest.approx(4 * 0.045)
    assert found.list_price == pytest.approx(4 * 0.09 + 6 * 0.036)


def test_nodes_that_run_have_used_their_part_already() -> None:
    there = [
        a_node(
            f"old-{number}",
            cpu=1,
            zone=Z1,
            capacity_type=ON_DEMAND,
            labels={label_keys.INSTANCE_TYPE: "m.large"},
        )
        for number in range(2)
    ]

    found = afforded(waiting(3, nodes=there), slots(3))

    assert capacity_types_of(found.plan) == {ON_DEMAND: 1, SPOT: 2}
    assert (found.used_before, found.used) == (pytest.approx(0.12), pytest.approx(0.06))


def test_what_commitments_cover_can_become_nothing_else() -> None:
    found = afforded(waiting(2), slots(1))

    (covered,) = [node for node in found.plan.nodes if node.instance_type.name == "m.large"]
    assert [one.name for one in covered.instance_types] == ["m.large"]
    assert covered.requirements.allowed(label_keys.CAPACITY_TYPE).values == {ON_DEMAND}


def test_a_commitment_that_nothing_fits_into_changes_nothing() -> None:
    found = afforded(waiting(3), a_plan(0.001))

    assert capacity_types_of(found.plan) == {SPOT: 3}
    assert found.used == 0


BOOKS = st.builds(
    DiscountBook,
    percentages=st.just(()) | st.just((Percentage(percent=10),)),
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
def test_whatever_is_committed_no_ceiling_is_passed(
    snapshot: ClusterSnapshot, book: DiscountBook
) -> None:
    found = solved(snapshot, book)

    assert found.used_before + found.used <= found.committed + 1e-6
    assert all(node.price >= 0 for node in found.plan.nodes)
    assert found.added >= -1e-6


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.sampled_from(["300m", "900m", "1500m", "3"]), min_size=1, max_size=12),
    book=BOOKS,
)
def test_a_plan_in_rounds_is_valid_too(sizes: list[str], book: DiscountBook) -> None:
    pods = [a_pod(f"p{number}", cpu=size) for number, size in enumerate(sizes)]

    found = afforded(cluster(pods), book)

    assert sum(len(node.pods) for node in found.plan.nodes) == len(pods)
    assert found.used <= found.committed + 1e-6


@settings(max_examples=20, deadline=None)
@given(snapshot=clusters(), book=BOOKS)
def test_no_plan_adds_more_than_one_that_knows_of_no_commitments(
    snapshot: ClusterSnapshot, book: DiscountBook
) -> None:
    bare = DiscountBook(percentages=book.percentages)

    knowing, ignorant = solved(snapshot, book), solved(snapshot, bare)

    assert len(knowing.plan.unplaced) <= len(ignorant.plan.unplaced)
    if len(knowing.plan.unplaced) == len(ignorant.plan.unplaced):
        assert knowing.added <= ignorant.plan.price + 1e-6
